//! Moving the log into the database, off the writer's path.
//!
//! One thread serves all environments of a factory. While commits follow each other it never catches up, so the log
//! would grow for ever: at a second threshold the writer itself moves the small remainder between two commits, and
//! the next commit begins the log anew.

use std::cell::Cell;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, Error};

use crate::connection::{BUSY_TIMEOUT, Database};
use crate::settings::SqliteSettings;

thread_local! {
    /// Frames in the log after the last commit on this thread. The hook is a plain function, so it has nowhere else
    /// to put them; it runs inside COMMIT, on the thread that commits.
    static FRAMES: Cell<u64> = const { Cell::new(0) };
}

fn note_frames(_: &Wal, frames: c_int) -> Result<(), Error> {
    FRAMES.set(u64::try_from(frames).unwrap_or(0));
    Ok(())
}

/// The log of one open store.
#[derive(Debug)]
pub(crate) struct Log {
    database: Database,
    page_bytes: u64,
    /// Frames in the log, and how many of them are in the database.
    frames: AtomicU64,
    moved: AtomicU64,
    /// The thread has been asked and is not done.
    is_asked: AtomicBool,
    /// The thread's connection; dropped with the store.
    connection: Mutex<Option<Connection>>,
}

impl Log {
    pub(crate) fn new(database: Database, page_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            database,
            page_bytes,
            frames: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            connection: Mutex::new(None),
        })
    }

    /// Watches the commits of the writer's connection.
    pub(crate) fn watch(connection: &Connection) {
        connection.wal_hook(Some(note_frames));
    }

    /// Bytes in the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.frames.load(Ordering::Relaxed) * self.page_bytes
    }

    /// Lets go of the thread's connection, so that the writer's is the last.
    pub(crate) fn close(&self) {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Moves all of the log and gives its file's room back, unless somebody uses it right now.
    pub(crate) fn give_back(&self, connection: &Connection) -> Result<(), Error> {
        connection.busy_timeout(Duration::ZERO)?;
        let truncated = connection.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get(0));
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let busy: i64 = truncated?;
        if busy == 0 {
            self.frames.store(0, Ordering::Relaxed);
            self.moved.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn run_on_own_connection(&self) {
        let mut own = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_none() {
            *own = self.database.open_checkpointer().ok();
        }
        // What keeps a checkpoint from working keeps the next commit from working too, and that one has a caller to
        // tell. Until then the log only grows.
        if let Some(connection) = own.as_ref() {
            let _: Result<bool, Error> = self.checkpoint(connection);
        }
    }

    /// Moves what no reader needs in the log. `true`: all of it, so that the next commit begins the log anew.
    pub(crate) fn checkpoint(&self, connection: &Connection) -> Result<bool, Error> {
        let mut statement = connection.prepare_cached("pragma wal_checkpoint(passive)")?;
        let (busy, frames, moved) = statement
            .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))?;
        if busy == 0 {
            self.moved.store(u64::try_from(moved).unwrap_or(0), Ordering::Relaxed);
        }
        Ok(busy == 0 && frames == moved)
    }
}

/// The thread, and when it is woken.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    wake_bytes: u64,
    inline_bytes: u64,
    thread: Option<(Sender<Arc<Log>>, JoinHandle<()>)>,
}

impl Checkpointer {
    /// With a thread.
    pub(crate) fn start(settings: &SqliteSettings) -> std::io::Result<Self> {
        let (sender, logs) = channel();
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(move || serve(&logs))?;
        Ok(Self { thread: Some((sender, thread)), ..Self::inline(settings) })
    }

    /// Without a thread: the writer does everything, at the lower threshold. Deterministic.
    pub(crate) fn inline(settings: &SqliteSettings) -> Self {
        let (wake_bytes, inline_bytes) = (settings.checkpoint_wake_bytes, settings.checkpoint_inline_bytes);
        Self { wake_bytes, inline_bytes, thread: None }
    }

    /// Called by the writer before COMMIT.
    pub(crate) fn before_commit(log: &Log) {
        FRAMES.set(log.frames.load(Ordering::Relaxed));
    }

    /// Called by the writer after COMMIT, on the same thread.
    pub(crate) fn after_commit(&self, log: &Arc<Log>, connection: &Connection) -> Result<(), Error> {
        let frames = FRAMES.get();
        if frames < log.frames.swap(frames, Ordering::Relaxed) {
            log.moved.store(0, Ordering::Relaxed);
        }
        let moved = log.moved.load(Ordering::Relaxed).min(frames);
        if (frames - moved) * log.page_bytes < self.wake_bytes && log.bytes() < self.inline_bytes {
            return Ok(());
        }
        let Some((sender, _)) = &self.thread else {
            return log.checkpoint(connection).map(drop);
        };
        if log.is_asked.load(Ordering::Acquire) {
            return Ok(());
        }
        if log.bytes() >= self.inline_bytes {
            return log.checkpoint(connection).map(drop);
        }
        log.is_asked.store(true, Ordering::Release);
        if sender.send(Arc::clone(log)).is_err() {
            log.is_asked.store(false, Ordering::Release);
        }
        Ok(())
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // A thread that panicked has nothing to hand over.
            let _: std::thread::Result<()> = thread.join();
        }
    }
}

fn serve(logs: &Receiver<Arc<Log>>) {
    for log in logs {
        log.run_on_own_connection();
        log.is_asked.store(false, Ordering::Release);
    }
}
