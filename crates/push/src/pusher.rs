//! Who pushes: for each environment the triggers that it has, for each trigger and topic one lease call that waits.
//!
//! It holds no state that counts: what it forgets is leases, which run out. The engine tells when triggers change and when topics
//! are made; then the environment is looked at anew, by one task at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millpond_core::command::{Listed, SetSecret};
use millpond_core::id::Uid;
use millpond_core::{Command, Outcome};
use millpond_engine::{Engine, EngineError, PushNotice};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::call::{CallSettings, Caller};
use crate::feed::{Feed, Standing};
use crate::patience::Patience;
use crate::record::Statistics;
use crate::secrets::Secrets;
use crate::signature::Secret;
use crate::target::AllowList;
use crate::token::{Claims, TokenError};

/// Pushes under way at once, unless told.
pub const CALLS: usize = 1_024;
/// Pushes of one trigger under way at once, unless told.
pub const TRIGGER_CALLS: usize = 256;
/// How long a call that comes with a token waits for the secret.
const SECRET_PATIENCE: Duration = Duration::from_secs(2);
/// Topics of one page of a list.
const TOPICS_PER_PAGE: usize = 1_000;

/// How pushes are made.
#[derive(Clone, Default)]
pub struct PushSettings {
    /// How targets are called, and which may be.
    pub call: CallSettings,
    /// Pushes under way at once: at least 1; `None`: [`CALLS`].
    pub calls: Option<usize>,
    /// Pushes of one trigger under way at once: at least 1; `None`: [`TRIGGER_CALLS`].
    pub trigger_calls: Option<usize>,
    /// Regions of environments, which handlers are told.
    pub regions: HashMap<String, String>,
}

/// Pushes what triggers of all environments of an engine are for. A clone is another handle.
#[derive(Clone)]
pub struct Pusher {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) caller: Caller,
    /// Room for pushes under way.
    pub(crate) calls: Arc<Semaphore>,
    settings: PushSettings,
    environments: Mutex<HashMap<Box<str>, Arc<Pushed>>>,
    stopped: watch::Sender<bool>,
}

/// One environment.
pub(crate) struct Pushed {
    name: Box<str>,
    /// Held by whoever looks at its triggers.
    turn: tokio::sync::Mutex<()>,
    secrets: Mutex<Arc<Secrets>>,
    feeds: Mutex<HashMap<Uid, Arc<Feed>>>,
}

impl Pushed {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.secrets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn feeds(&self) -> std::sync::MutexGuard<'_, HashMap<Uid, Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pusher {
    /// Begins to push, on the runtime that this is called in.
    #[must_use]
    pub fn start(engine: Engine, settings: PushSettings) -> Self {
        let calls = settings.calls.unwrap_or(CALLS).clamp(1, Semaphore::MAX_PERMITS);
        let notices = engine.watch_pushes();
        let shared = Arc::new(Shared {
            engine,
            caller: Caller::new(settings.call.clone()),
            calls: Arc::new(Semaphore::new(calls)),
            settings,
            environments: Mutex::default(),
            stopped: watch::Sender::new(false),
        });
        tokio::spawn(follow(Arc::clone(&shared), notices));
        Self { shared }
    }

    /// Looks at the triggers of an environment now: when this ends, those that are gone push nothing any more.
    pub async fn changed(&self, environment: &str) {
        // In a task of its own: whoever asked may hang up, and a look that is begun has to be finished.
        let (shared, environment) = (Arc::clone(&self.shared), environment.to_owned());
        let looked = tokio::spawn(async move { look(&shared, &environment).await });
        if let Err(error) = looked.await {
            tracing::error!(%error, "a look at triggers broke off");
        }
    }

    /// Networks that pushes may go to.
    #[must_use]
    pub fn allowed(&self) -> &AllowList {
        &self.shared.settings.call.allowed
    }

    /// What became of the pushes of a trigger since this was started; `None`: it has pushed nothing.
    #[must_use]
    pub fn statistics(&self, environment: &str, trigger: Uid) -> Option<Statistics> {
        let pushed = self.shared.known(environment)?;
        let feed = pushed.feeds().get(&trigger).map(Arc::clone)?;
        Some(feed.standing.statistics())
    }

    /// What a token says that came with a push of this environment.
    ///
    /// # Errors
    /// It is none, or its time is over. While the environment's secret cannot be had, no token is good.
    pub async fn verify(&self, environment: &str, token: &str) -> Result<Claims, TokenError> {
        let now = self.shared.engine.now();
        let pushed = self.shared.pushed(environment);
        if pushed.secrets().is_empty() {
            // Who comes with a token that may be none does not wait for a store that is away.
            let learned = tokio::time::timeout(SECRET_PATIENCE, learn_secret(&self.shared, &pushed));
            let _ = learned.await;
        }
        crate::token::verify(token, &pushed.secrets().in_force(now), now)
    }

    /// Begins no push any more and waits until those under way have ended, for so long at most.
    pub async fn stop(&self, patience: Duration) {
        self.shared.stopped.send_replace(true);
        let environments: Vec<_> = self.shared.environments().values().cloned().collect();
        for pushed in environments {
            let feeds: Vec<_> = pushed.feeds().drain().map(|(_, feed)| feed).collect();
            for feed in feeds {
                feed.stop().await;
            }
        }
        let all = self.shared.settings.calls.unwrap_or(CALLS).clamp(1, Semaphore::MAX_PERMITS);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        if tokio::time::timeout(patience, self.shared.calls.acquire_many(all)).await.is_err() {
            tracing::warn!("pushes were still under way {patience:?} after the stop; their leases run out");
        }
    }
}

impl Shared {
    fn environments(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Arc<Pushed>>> {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, environment: &str) -> Option<Arc<Pushed>> {
        self.environments().get(environment).map(Arc::clone)
    }

    fn pushed(&self, environment: &str) -> Arc<Pushed> {
        let mut environments = self.environments();
        let pushed = environments.entry(environment.into()).or_insert_with(|| {
            Arc::new(Pushed {
                name: environment.into(),
                turn: tokio::sync::Mutex::default(),
                secrets: Mutex::default(),
                feeds: Mutex::default(),
            })
        });
        Arc::clone(pushed)
    }

    pub(crate) fn region_of(&self, environment: &str) -> Option<&str> {
        self.settings.regions.get(environment).map(String::as_str)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Gives the engine a command until it is carried out; `None`: the server stops, or the environment is gone.
    pub(crate) async fn insist(&self, environment: &str, command: Command) -> Option<Outcome> {
        let mut patience = Patience::default();
        let mut stopped = self.stopped.subscribe();
        loop {
            match self.engine.submit(environment, command.clone()).await {
                Ok(answer) => return Some(answer.outcome),
                Err(EngineError::ShuttingDown | EngineError::EnvironmentNotFound(_)) => return None,
                Err(error) => tracing::debug!(environment, %error, "not carried out, tried again"),
            }
            tokio::select! {
                () = patience.wait() => {}
                _ = stopped.wait_for(|stopped| *stopped) => return None,
            }
        }
    }
}

/// Follows what the engine tells, each notice in a task of its own.
async fn follow(shared: Arc<Shared>, mut notices: mpsc::UnboundedReceiver<(Box<str>, PushNotice)>) {
    let mut stopped = shared.stopped.subscribe();
    loop {
        let notice = tokio::select! {
            notice = notices.recv() => notice,
            _ = stopped.wait_for(|stopped| *stopped) => None,
        };
        let Some((environment, notice)) = notice else { return };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            match notice {
                PushNotice::Triggers => look(&shared, &environment).await,
                PushNotice::Topic(topic) => see_topic(&shared, &environment, &topic).await,
            }
        });
    }
}

/// A topic was made.
async fn see_topic(shared: &Arc<Shared>, environment: &str, topic: &str) {
    let pushed = shared.pushed(environment);
    let _turn = pushed.turn.lock().await;
    let feeds: Vec<_> = pushed.feeds().values().cloned().collect();
    for feed in feeds.iter().filter(|feed| feed.trigger().matches(topic)) {
        // One of a topic of this name that is gone may be about to end.
        feed.begin_anew(shared, topic).await;
    }
}

/// Makes what is pushed what the environment's triggers say.
async fn look(shared: &Arc<Shared>, environment: &str) {
    if shared.is_stopped() {
        return;
    }
    let pushed = shared.pushed(environment);
    let _turn = pushed.turn.lock().await;
    let Some(Outcome::Triggers(views)) = shared.insist(environment, Command::ListTriggers).await else {
        return;
    };
    learn_secret(shared, &pushed).await;
    let gone: Vec<_> = {
        let mut feeds = pushed.feeds();
        let stays = |uid: &Uid| views.iter().any(|view| view.trigger.uid == *uid);
        feeds.extract_if(|uid, _| !stays(uid)).map(|(_, feed)| feed).collect()
    };
    for feed in gone {
        feed.stop().await;
    }
    let mut feeds = Vec::with_capacity(views.len());
    for view in &views {
        let known = pushed.feeds().get(&view.trigger.uid).cloned();
        let standing = match known {
            Some(feed) if feed.is_of(view) => {
                feeds.push(feed);
                continue;
            }
            // It is read in another way now, and stands as it stood.
            Some(feed) => {
                feed.stop().await;
                Arc::clone(&feed.standing)
            }
            None => {
                let calls = shared.settings.trigger_calls.unwrap_or(TRIGGER_CALLS).max(1);
                Arc::new(Standing::new(calls))
            }
        };
        let feed = Arc::new(Feed::new(Arc::clone(&pushed), view, standing));
        pushed.feeds().insert(view.trigger.uid, Arc::clone(&feed));
        feeds.push(feed);
    }
    begin(shared, &pushed, &feeds).await;
    if shared.is_stopped() {
        for feed in feeds {
            feed.stop().await;
        }
    }
}

/// Pushes what comes of each topic for which there is a trigger. One list of the topics serves all triggers.
async fn begin(shared: &Arc<Shared>, pushed: &Pushed, feeds: &[Arc<Feed>]) {
    if feeds.is_empty() {
        return;
    }
    let mut after = None;
    loop {
        let list = Command::ListQueues {
            listed: Listed::Topics,
            after: after.take(),
            descending: false,
            limit: TOPICS_PER_PAGE,
        };
        let Some(Outcome::Queues { views, more }) = shared.insist(pushed.name(), list).await else { return };
        for topic in views.iter().filter_map(|view| view.queue.name.strip_prefix("topics/")) {
            let fed = feeds.iter().filter(|feed| feed.trigger().matches(topic));
            fed.for_each(|feed| feed.begin(shared, topic));
        }
        after = views.last().map(|view| view.queue.name.clone()).filter(|_| more);
        if after.is_none() {
            return;
        }
    }
}

/// What pushes are signed with; made if there is nothing yet.
async fn learn_secret(shared: &Arc<Shared>, pushed: &Pushed) {
    let Ok(drawn) = Secret::draw() else {
        tracing::error!("the system gives no random bytes: pushes are not signed");
        return;
    };
    let set = SetSecret { secret: drawn.reveal().into(), grace: Duration::ZERO, only_if_none: true };
    let outcome = shared.insist(pushed.name(), Command::SetSecret(set)).await;
    if let Some(Outcome::Secret(row)) = outcome {
        *pushed.secrets.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Secrets::of(&row));
    }
}
