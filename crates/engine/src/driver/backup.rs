//! Backups while environments are open. Each is copied on the connection that writes it, a few pages between two commits: so a copy
//! ends however much is written, and a commit waits for one step of it and as many pages as were added since (design-holes B15).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_core::Command;
use millpond_store::{BackedUp, Backup, CopyProgress, Store, StoreError, StoreErrorKind};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::EngineError;
use crate::driver::pools::{WriteJob, WriteWork};
use crate::driver::slot::{Phase, Slot, State};
use crate::driver::{Shared, lock, unavailable};

/// Pages that are copied at once.
const STEP_PAGES: u32 = 256;

/// How far a backup is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupProgress {
    /// The environment that is being copied.
    pub environment: String,
    /// Environments that were copied and checked.
    pub done: usize,
    /// Environments that there are to copy.
    pub total: usize,
    /// How far the copy of this one is.
    pub copy: CopyProgress,
}

/// A copy of one environment, on its way between its steps.
pub(crate) struct CopyJob {
    to: PathBuf,
    begun: bool,
    /// Pages that were left after the last step.
    left: u64,
    told: UnboundedSender<Result<CopyProgress, StoreError>>,
    _open: KeptOpen,
}

/// An environment that is being copied is not closed because it is idle.
struct KeptOpen(Arc<AtomicUsize>);

impl KeptOpen {
    fn new(slot: &Slot) -> Self {
        slot.copies.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(&slot.copies))
    }
}

impl Drop for KeptOpen {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CopyJob {
    /// One step. `Some`: there is more to do.
    pub(crate) fn step(mut self, store: Option<&mut (dyn Store + 'static)>) -> Option<Self> {
        let Some(store) = store else {
            let error =
                StoreError::new(StoreErrorKind::Closed, "the environment was closed while it was copied");
            let _ = self.told.send(Err(error));
            return None;
        };
        let step = if self.begun { Ok(()) } else { store.begin_copy(&self.to) };
        self.begun = true;
        let progress = step.and_then(|()| self.gain(store));
        let is_over = progress.as_ref().map_or(true, |progress| progress.pages_left == 0);
        if self.told.send(progress).is_err() || is_over {
            // Nobody waits for it any more, or there is nothing to wait for.
            store.end_copy();
            return None;
        }
        Some(self)
    }

    /// Copies until fewer pages are left than after the step before, by a step at least: commits that add more pages than one
    /// step copies would otherwise be run after for ever.
    fn gain(&mut self, store: &mut dyn Store) -> Result<CopyProgress, StoreError> {
        let goal = self.left.saturating_sub(u64::from(STEP_PAGES));
        let mut before = u64::MAX;
        loop {
            let progress = store.copy_on(STEP_PAGES)?;
            // A step that copied nothing has to wait for somebody, and not here.
            if progress.pages_left <= goal || progress.pages_left >= before {
                self.left = progress.pages_left;
                return Ok(progress);
            }
            before = progress.pages_left;
        }
    }
}

impl Slot {
    /// Has an environment that is open copied; of one that is not, whoever asked is told by having the job dropped.
    pub(super) fn copy(self: &Arc<Self>, shared: &Shared, state: &State, jobs: Vec<CopyJob>) {
        if !matches!(state.phase, Phase::Open(_)) {
            return;
        }
        for job in jobs {
            let (slot, opening) = (Arc::clone(self), state.opening);
            shared.write(self, WriteJob { slot, opening, work: WriteWork::Copy(job) });
        }
    }
}

impl Shared {
    pub(crate) async fn back_up(
        self: &Arc<Self>,
        to: &Path,
        environments: &[String],
        progress: &mut (dyn FnMut(BackupProgress) + Send),
    ) -> Result<Vec<BackedUp>, EngineError> {
        let mut backup = self.factory.begin_backup(to).map_err(|error| unavailable(&error))?;
        let known = backup.environments().map_err(|error| unavailable(&error))?;
        if let Some(name) = environments.iter().find(|name| !known.contains(name)) {
            return Err(EngineError::EnvironmentNotFound(name.clone()));
        }
        let names = if environments.is_empty() { known } else { environments.to_vec() };
        let (mut backed_up, total) = (Vec::new(), names.len());
        for (done, name) in names.into_iter().enumerate() {
            let mut steps = self.begin_copy(&name, backup.next_file()).await?;
            let mut is_whole = false;
            while let Some(step) = steps.recv().await {
                let copy = step.map_err(|error| unavailable(&error))?;
                is_whole = copy.pages_left == 0;
                progress(BackupProgress { environment: name.clone(), done, total, copy });
            }
            if !is_whole {
                return Err(EngineError::Unavailable(format!("{name} was closed while it was copied")));
            }
            let added = apart(backup, move |backup| backup.add(&name)).await?;
            backed_up.push(added.1);
            backup = added.0;
        }
        let finished = aside(move || backup.finish()).await?;
        finished.map_err(|error| unavailable(&error))?;
        Ok(backed_up)
    }

    /// Opens an environment and has it copied; the steps are told as they are made.
    async fn begin_copy(
        self: &Arc<Self>,
        name: &str,
        to: PathBuf,
    ) -> Result<UnboundedReceiver<Result<CopyProgress, StoreError>>, EngineError> {
        let slot = self.slot(name).await?;
        let open = KeptOpen::new(&slot);
        // Anything that is answered opens it; this names nothing that there could be.
        self.submit(name, Command::GetQueue { queue: "".into() }).await?;
        let (told, steps) = unbounded_channel();
        lock(&slot.inbox).brought.copies.push(CopyJob {
            to,
            begun: false,
            left: u64::MAX,
            told,
            _open: open,
        });
        slot.run_soon();
        Ok(steps)
    }
}

/// Works on a backup on a thread of its own: to check a copy takes as long as to make it.
async fn apart<T: Send + 'static>(
    mut backup: Box<dyn Backup>,
    work: impl FnOnce(&mut dyn Backup) -> Result<T, StoreError> + Send + 'static,
) -> Result<(Box<dyn Backup>, T), EngineError> {
    let worked = aside(move || {
        let done = work(backup.as_mut());
        (backup, done)
    });
    let (backup, done) = worked.await?;
    Ok((backup, done.map_err(|error| unavailable(&error))?))
}

async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, EngineError> {
    let (sender, receiver) = oneshot::channel();
    let started = std::thread::Builder::new().name("millpond-backup".into()).spawn(move || {
        // Who asked may have left.
        let _ = sender.send(work());
    });
    started.map_err(|error| EngineError::Unavailable(format!("no thread for a backup: {error}")))?;
    receiver.await.map_err(|_| EngineError::Unavailable("a backup ended in a panic".to_owned()))
}
