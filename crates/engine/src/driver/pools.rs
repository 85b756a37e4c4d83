//! The threads: those that apply, those that commit, those that read. They end when the engine is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use millpond_core::id::Sequence;
use millpond_core::{ChangeSet, RowKey, Scan};
use millpond_store::{Store, StoreError, StoreErrorKind, StoreReader};
use tokio::sync::oneshot;

use crate::EngineSettings;
use crate::commit::{CommitFailure, commit};
use crate::driver::backup::CopyJob;
use crate::driver::counters::{Committed, ExternalRefused};
use crate::driver::lock;
use crate::driver::slot::{Event, Slot};
use crate::environment::ReadId;

pub(crate) struct WriteJob {
    pub(crate) slot: Arc<Slot>,
    pub(crate) opening: u64,
    pub(crate) work: WriteWork,
}

pub(crate) enum WriteWork {
    Commit {
        changes: Box<ChangeSet>,
        /// Commands of its round.
        commands: usize,
        /// By the monotonic clock.
        handed_over_at: Duration,
    },
    Copy(CopyJob),
    Space,
}

pub(crate) struct ReadJob {
    pub(crate) slot: Arc<Slot>,
    pub(crate) opening: u64,
    pub(crate) work: ReadWork,
}

pub(crate) enum ReadWork {
    /// Past the environment, straight to whoever reads: the chunk is pinned.
    Chunk(Sequence, u32, ChunkReply),
    Rows(ReadId, Vec<RowKey>),
    Contents(ReadId, Vec<Sequence>),
    Scan(ReadId, Scan),
    External(ReadId, usize),
}

impl ReadWork {
    /// Whether it claims leases, which takes longer while transactions hold them.
    pub(crate) fn claims(&self) -> bool {
        matches!(self, Self::Rows(_, keys) if keys.iter().any(|key| matches!(key, RowKey::Claim(_))))
    }
}

pub(crate) type ChunkReply = oneshot::Sender<Result<Option<Vec<u8>>, StoreError>>;

type Channel<T> = (Sender<T>, Receiver<T>);

pub(crate) struct Pools {
    pub(crate) run: Channel<Arc<Slot>>,
    pub(crate) writers: Vec<Channel<WriteJob>>,
    pub(crate) readers: Channel<ReadJob>,
    pub(crate) claimer: Channel<ReadJob>,
}

impl Pools {
    pub(crate) fn new(settings: &EngineSettings) -> Self {
        let writers = (0..settings.writer_threads.max(1)).map(|_| unbounded()).collect();
        Self { run: unbounded(), writers, readers: unbounded(), claimer: unbounded() }
    }

    pub(crate) fn spawn(self, settings: &EngineSettings) {
        for _ in 0..settings.apply_threads.max(1) {
            let receiver = self.run.1.clone();
            start("apply", move || receiver.iter().for_each(|slot| slot.run_queued()));
        }
        for (_, receiver) in self.writers {
            start("writer", move || {
                for job in &receiver {
                    let slot = Arc::clone(&job.slot);
                    contain(&slot, job.opening, || run_write(job));
                    slot.enough.store(0, Ordering::SeqCst);
                    // With the next commit waiting this thread has better things to do than to apply.
                    if receiver.is_empty() { slot.run_here() } else { slot.queue() }
                }
            });
        }
        for _ in 0..settings.reader_threads.max(1) {
            let receiver = self.readers.1.clone();
            start("reader", move || read_all(&receiver));
        }
        start("claimer", move || read_all(&self.claimer.1));
    }
}

fn read_all(jobs: &Receiver<ReadJob>) {
    for job in jobs {
        let slot = Arc::clone(&job.slot);
        let brings = !matches!(job.work, ReadWork::Chunk(..));
        let panicked = contain(&slot, job.opening, || run_read(job));
        if brings || panicked {
            slot.run_here();
        }
    }
}

pub(crate) fn start(name: &str, body: impl FnOnce() + Send + 'static) {
    let started = thread::Builder::new().name(format!("millpond-{name}")).spawn(body);
    if let Err(error) = started {
        tracing::error!(%error, name, "thread not started");
    }
}

/// A panic in a store ends what the environment has in memory, not the thread that serves others too. `true`: it did.
fn contain(slot: &Arc<Slot>, opening: u64, work: impl FnOnce()) -> bool {
    let panicked = catch_unwind(AssertUnwindSafe(work)).is_err();
    if panicked {
        slot.bring(opening, Event::Panicked);
    }
    panicked
}

fn run_write(job: WriteJob) {
    let mut held = lock(&job.slot.store);
    let store = held.as_mut().filter(|(opening, _)| *opening == job.opening);
    let mut space = None;
    let event = match (job.work, store) {
        (WriteWork::Commit { changes, commands, handed_over_at }, Some((_, store))) => {
            let result = timed_commit(&job.slot, store.as_mut(), &changes, commands, handed_over_at);
            if result.is_ok() && job.slot.note_sent(&changes) {
                space = measure(&job.slot, store.as_mut());
            }
            if result.is_err() {
                // The next commit may be waiting already, and is built on this one. A lost commit's number is taken,
                // so the store would not refuse what follows it.
                *held = None;
            }
            Event::Committed(changes.commit, result)
        }
        (WriteWork::Commit { changes, .. }, None) => {
            let error = StoreError::new(StoreErrorKind::Closed, "commit");
            Event::Committed(changes.commit, Err(CommitFailure { unknown: false, error }))
        }
        (WriteWork::Copy(copy), store) => {
            let left = copy.step(store.map(|(_, store)| store.as_mut()));
            drop(held);
            // Behind the commits that wait.
            if let (Some(left), Some(shared)) = (left, job.slot.shared.upgrade()) {
                let (slot, opening) = (Arc::clone(&job.slot), job.opening);
                shared.write(&job.slot, WriteJob { slot, opening, work: WriteWork::Copy(left) });
            }
            return;
        }
        (WriteWork::Space, Some((_, store))) => match measure(&job.slot, store.as_mut()) {
            Some(event) => event,
            None => return,
        },
        (WriteWork::Space, None) => return,
    };
    // Brought before a reader can find the store gone and bring that.
    job.slot.bring(job.opening, event);
    if let Some(event) = space {
        job.slot.bring(job.opening, event);
    }
    drop(held);
}

/// Commits, and counts what became durable.
fn timed_commit(
    slot: &Slot,
    store: &mut dyn Store,
    changes: &ChangeSet,
    commands: usize,
    handed_over_at: Duration,
) -> Result<(), CommitFailure> {
    let Some(shared) = slot.shared.upgrade() else { return commit(store, changes) };
    let begun = shared.clock.read().monotonic;
    commit(store, changes)?;
    shared.counters.committed(&Committed {
        waited: begun.saturating_sub(handed_over_at),
        took: shared.clock.read().monotonic.saturating_sub(begun),
        flush: store.last_flush(),
        rows: changes.row_count(),
        commands,
        external_refused: ExternalRefused::of(changes),
    });
    Ok(())
}

fn measure(slot: &Slot, store: &mut dyn Store) -> Option<Event> {
    let now = slot.shared.upgrade()?.clock.read().monotonic;
    let mut outage = lock(&slot.unmeasurable);
    match store.stats() {
        Ok(stats) => {
            if let Some(lasted) = outage.over(now) {
                tracing::info!(environment = %slot.name, ?lasted, "room known again");
            }
            Some(Event::Space(stats.space_low))
        }
        Err(error) => {
            if let Some(lasted) = outage.failed(now) {
                tracing::warn!(environment = %slot.name, %error, ?lasted, "room not known");
            }
            None
        }
    }
}

fn run_read(job: ReadJob) {
    let (slot, opening) = (&job.slot, job.opening);
    let mut taken = take_reader(slot, opening);
    let event = match job.work {
        ReadWork::Chunk(message, number, reply) => {
            let chunk = on(&mut taken, |reader| reader.chunk(message, number));
            // Whoever asked may have left.
            let _ = reply.send(chunk);
            None
        }
        ReadWork::Rows(read, keys) => Some(Event::Rows(read, on(&mut taken, |reader| reader.read(&keys)))),
        ReadWork::Contents(read, messages) => {
            Some(Event::Contents(read, on(&mut taken, |reader| reader.contents(&messages))))
        }
        ReadWork::External(read, limit) => {
            Some(Event::External(read, on(&mut taken, |reader| reader.external(limit))))
        }
        ReadWork::Scan(read, scan) => Some(Event::Page(read, on(&mut taken, |reader| reader.scan(&scan)))),
    };
    if let Ok(reader) = taken {
        lock(&slot.readers).push((opening, reader));
    }
    if let Some(event) = event {
        slot.bring(opening, event);
    }
}

/// Reads, if there is a reader; the error that there is none is answered in place of what it would have read.
fn on<T>(
    reader: &mut Result<Box<dyn StoreReader>, StoreError>,
    read: impl FnOnce(&mut dyn StoreReader) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match reader {
        Ok(reader) => read(reader.as_mut()),
        Err(error) => Err(StoreError::new(error.kind, error.context.clone())),
    }
}

/// A reader of this opening: one that is free, or a new one. There are never more than threads that read or claim.
fn take_reader(slot: &Slot, wanted: u64) -> Result<Box<dyn StoreReader>, StoreError> {
    let mut readers = lock(&slot.readers);
    // A stream may still ask for an opening that has ended: what belongs to a later one stays.
    readers.retain(|(opening, _)| *opening >= wanted);
    if let Some(free) = readers.iter().position(|(opening, _)| *opening == wanted) {
        return Ok(readers.swap_remove(free).1);
    }
    drop(readers);
    let mut held = lock(&slot.store);
    match held.as_mut().filter(|(opening, _)| *opening == wanted) {
        Some((_, store)) => store.reader(),
        None => Err(StoreError::new(StoreErrorKind::Closed, "read")),
    }
}
