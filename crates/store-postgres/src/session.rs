//! One connection, for one thread at a time: the driver runs only while somebody waits for an answer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{poll_fn, try_join_all};
use millpond_store::{StoreError, StoreErrorKind};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Error, Row, Statement, ToStatement};

use crate::error::before_commit;
use crate::settings::PostgresSettings;
use crate::target::Target;

/// Parameters of a statement.
pub(crate) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// What came beside the answers.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// A warning: of a commit, that it may not be as durable as was asked.
    warned: AtomicBool,
    /// A notification.
    notified: AtomicBool,
}

/// One connection, with the statements that it has prepared.
pub(crate) struct Session {
    /// Before the runtime: with it the connection ends.
    client: Client,
    statements: HashMap<&'static str, Statement>,
    heard: Arc<Heard>,
    answer_timeout: Duration,
    /// Which of the pool's generations it is of.
    generation: u64,
    /// `None`: it is being dropped.
    runtime: Option<Runtime>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without waiting, which a thread that serves others must not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Connects and sets what every connection of ours relies on.
    pub(crate) fn connect(target: &Target, settings: &PostgresSettings) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            StoreError::new(StoreErrorKind::Unavailable, "starting a connection").with_source(error)
        })?;
        let heard = Arc::new(Heard::default());
        let client = block_on(&runtime, connect(target, settings, &heard))?;
        let (statements, runtime) = (HashMap::new(), Some(runtime));
        let answer_timeout = settings.answer_timeout;
        let session = Self { client, statements, heard, answer_timeout, generation: 0, runtime };
        session.batch(&preparation(&settings.schema), "preparing a connection")?;
        Ok(session)
    }

    pub(crate) fn of_generation(mut self, generation: u64) -> Self {
        self.generation = generation;
        self
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Runs statements that answer nothing.
    pub(crate) fn batch(&self, sql: &str, context: &'static str) -> Result<(), StoreError> {
        self.wait(self.client.batch_execute(sql), context)
    }

    /// Runs one statement, by its text.
    pub(crate) fn query<T: ?Sized + ToStatement + Sync>(
        &self,
        sql: &T,
        values: Values<'_>,
        context: &'static str,
    ) -> Result<Vec<Row>, StoreError> {
        self.wait(self.client.query(sql, values), context)
    }

    /// Waits for answers from the database; a bounded time.
    pub(crate) fn wait<T: Send>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send,
        context: &'static str,
    ) -> Result<T, StoreError> {
        match self.run(work) {
            Some(result) => result.map_err(before_commit(context)),
            None => Err(StoreError::new(StoreErrorKind::Unavailable, format!("{context}: no answer"))),
        }
    }

    /// Waits for answers from the database; `None`: none came in time, and the connection is of no use any more.
    pub(crate) fn run<T: Send>(&self, work: impl Future<Output = T> + Send) -> Option<T> {
        let runtime = self.runtime.as_ref()?;
        block_on(runtime, async { timeout(self.answer_timeout, work).await }).ok()
    }

    /// Prepares what is not prepared yet, all at once.
    pub(crate) fn prepare(&mut self, texts: &[&'static str]) -> Result<(), StoreError> {
        let missing: Vec<_> =
            texts.iter().copied().filter(|text| !self.statements.contains_key(text)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let work = try_join_all(missing.iter().map(|text| self.client.prepare(text)));
        let prepared = self.wait(work, "preparing statements")?;
        self.statements.extend(missing.into_iter().zip(prepared));
        Ok(())
    }

    /// A statement that [`Session::prepare`] has prepared.
    pub(crate) fn statement(&self, text: &str) -> Result<&Statement, StoreError> {
        let missing = || StoreError::new(StoreErrorKind::Corrupt, "a statement was not prepared");
        self.statements.get(text).ok_or_else(missing)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether a warning came since this was last asked.
    pub(crate) fn take_warning(&self) -> bool {
        self.heard.warned.swap(false, Ordering::Relaxed)
    }

    /// Whether a notification came since this was last asked.
    pub(crate) fn take_notification(&self) -> bool {
        self.heard.notified.swap(false, Ordering::Relaxed)
    }

    /// The connection is gone, as far as is known.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits until a notification comes, but no longer than `most`.
    pub(crate) fn await_notification(&self, most: Duration) {
        let came = async {
            while !self.heard.notified.load(Ordering::Relaxed) && !self.client.is_closed() {
                tokio::time::sleep(NOTIFICATION_LOOK.min(most)).await;
            }
        };
        // It came, or the time is over: the caller looks in either case.
        if let Some(runtime) = &self.runtime {
            let _: Result<(), _> = block_on(runtime, async { timeout(most, came).await });
        }
    }
}

/// How often a thread that waits for a notification sees whether the driver has got one.
const NOTIFICATION_LOOK: Duration = Duration::from_millis(2);

/// Waits on this thread, or, where it belongs to another runtime, on one of its own.
fn block_on<T: Send>(runtime: &Runtime, work: impl Future<Output = T> + Send) -> T {
    if Handle::try_current().is_err() {
        return runtime.block_on(work);
    }
    std::thread::scope(|scope| match scope.spawn(|| runtime.block_on(work)).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

async fn connect(
    target: &Target,
    settings: &PostgresSettings,
    heard: &Arc<Heard>,
) -> Result<Client, StoreError> {
    let connecting = target.config.connect(target.tls.clone());
    let connected = timeout(settings.connect_timeout, connecting).await;
    let Ok(connected) = connected else {
        return Err(StoreError::new(StoreErrorKind::Unavailable, "connecting: no answer"));
    };
    let (client, mut connection) = connected.map_err(before_commit(target.connecting))?;
    let heard = Arc::clone(heard);
    let drive = async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                AsyncMessage::Notification(_) => heard.notified.store(true, Ordering::Relaxed),
                AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                    tracing::warn!(message = notice.message(), "the database warns");
                    heard.warned.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    };
    tokio::spawn(drive);
    Ok(client)
}

/// What every connection relies on. Plans always take indexes: how many rows a table has, or is thought to have, must not turn a step
/// of bounded work into a walk over all. What settings cannot force, statements do (`keyed.rs`).
pub(crate) fn preparation(schema: &str) -> String {
    let schema = quoted(schema);
    format!(
        "set search_path = {schema}, pg_temp; set default_transaction_isolation = 'read committed'; \
         set lock_timeout = '10s'; set idle_in_transaction_session_timeout = '30s'; set statement_timeout = 0; \
         set idle_session_timeout = 0; \
         set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_bitmapscan = off; \
         set enable_hashjoin = off; set enable_mergejoin = off; set enable_sort = off; \
         set enable_incremental_sort = off; set jit = off; set client_min_messages = warning; \
         select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'; \
         select set_config('transaction_timeout', '0', false) where current_setting('transaction_timeout', true) is not null"
    )
}

/// A name as SQL has it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
