//! A part that pushes nothing: it tells what the test wants, and notes what it is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use millpond_core::id::Uid;
use millpond_engine::{Engine, EngineSettings};
use millpond_push::token::TokenError;
use millpond_server::{CONNECTIONS, Changed, PushStatistics, Pushes, TargetRefusal, Verified};
use millpond_test_stores::new_store;
use tokio::sync::Semaphore;

use crate::harness::Server;

pub(crate) struct FakePushes {
    /// Environments that changed, in order; each is noted when the call begins.
    changed: Mutex<Vec<String>>,
    /// By the text form of the trigger's identity.
    pub(crate) statistics: Mutex<HashMap<String, PushStatistics>>,
    /// A call about a change has begun.
    pub(crate) began: Semaphore,
    /// It may end.
    pub(crate) may_end: Semaphore,
}

impl FakePushes {
    /// A server with such a part, whose calls end at once.
    pub(crate) async fn serve() -> (Server, Arc<Self>) {
        let pushes = Arc::new(Self {
            changed: Mutex::default(),
            statistics: Mutex::default(),
            began: Semaphore::new(0),
            may_end: Semaphore::new(Semaphore::MAX_PERMITS / 2),
        });
        let engine = Engine::start(EngineSettings::default(), Arc::new(new_store()));
        let own = Arc::clone(&pushes);
        let server = Server::made(engine, CONNECTIONS, |app| app.with_pushes(own)).await;
        (server, pushes)
    }

    /// The environments that changed since this was last asked.
    pub(crate) fn take_changed(&self) -> Vec<String> {
        std::mem::take(&mut self.changed.lock().expect("no test fails with it"))
    }
}

impl Pushes for FakePushes {
    fn statistics(&self, _environment: &str, trigger: Uid) -> Option<PushStatistics> {
        self.statistics.lock().expect("no test fails with it").get(&trigger.to_string()).cloned()
    }

    fn check_target(&self, target: &str) -> Result<(), TargetRefusal> {
        if target.contains("//10.") {
            return Err(TargetRefusal::NotAllowed("which is not in an allowed network".to_owned()));
        }
        Ok(())
    }

    fn changed<'a>(&'a self, environment: &'a str) -> Changed<'a> {
        Box::pin(async {
            self.changed.lock().expect("no test fails with it").push(environment.to_owned());
            self.began.add_permits(1);
            self.may_end.acquire().await.expect("it is open").forget();
        })
    }

    fn verify<'a>(&'a self, _: &'a str, _: &'a str) -> Verified<'a> {
        Box::pin(std::future::ready(Err(TokenError::Foreign)))
    }
}
