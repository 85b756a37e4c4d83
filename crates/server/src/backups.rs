//! Backups that are made on demand, one at a time, in a directory that the server's configuration names: who calls says which
//! environments, never where to.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_api::backup::{BackedUpEnvironment, Backup, BackupProgress, BackupState};
use millpond_api::time;
use millpond_engine::{Engine, EngineError};
use millpond_store::{BackedUp, RowKind};

/// Backups whose end is remembered.
const KEPT_MAX: usize = 100;

/// What a backup that is not whole ends with.
const UNFINISHED: &str = ".part";

/// Makes backups in a directory.
#[derive(Debug)]
pub(crate) struct Backups {
    directory: PathBuf,
    /// The newest behind.
    known: Mutex<VecDeque<Backup>>,
}

/// Why none is begun.
pub(crate) enum NotBegun {
    /// Another one runs.
    Running(String),
    /// The directory cannot be used.
    Directory(std::io::Error),
}

impl Backups {
    pub(crate) fn new(directory: PathBuf) -> Self {
        // Whoever is told of it may stand elsewhere.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Self { directory, known: Mutex::default() }
    }

    /// Begins a backup of these environments, or of all.
    pub(crate) fn begin(
        self: &Arc<Self>,
        engine: &Engine,
        environments: Vec<String>,
    ) -> Result<Backup, NotBegun> {
        let create_time = engine.now().as_millis();
        let begun = {
            let mut known = self.lock();
            if let Some(running) = known.iter().find(|known| known.state == BackupState::Running) {
                return Err(NotBegun::Running(running.name.clone()));
            }
            // Under the lock: what is found unfinished is of a server that was killed.
            remove_unfinished(&self.directory).map_err(NotBegun::Directory)?;
            let id = id_of(create_time, &self.directory);
            let begun = Backup {
                name: format!("backups/{id}"),
                directory: self.directory.join(id).display().to_string(),
                state: BackupState::Running,
                create_time,
                environments: Vec::new(),
                progress: None,
                error: None,
            };
            known.push_back(begun.clone());
            if known.len() > KEPT_MAX {
                known.pop_front();
            }
            begun
        };
        let (backups, engine, name) = (Arc::clone(self), engine.clone(), begun.name.clone());
        let directory = PathBuf::from(&begun.directory);
        tokio::spawn(async move {
            let mut note = |progress: millpond_engine::BackupProgress| {
                backups.change(&name, |backup| backup.progress = Some(shown(progress)));
            };
            let made = engine.back_up(&directory, &environments, &mut note).await;
            backups.change(&name, |backup| end(backup, made));
        });
        Ok(begun)
    }

    /// One that was begun since the server was started.
    pub(crate) fn get(&self, id: &str) -> Option<Backup> {
        self.lock().iter().find(|known| known.name.strip_prefix("backups/") == Some(id)).cloned()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Backup)) {
        if let Some(backup) = self.lock().iter_mut().find(|known| known.name == name) {
            change(backup);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Backup>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(backup: &mut Backup, made: Result<Vec<BackedUp>, EngineError>) {
    backup.progress = None;
    match made {
        Ok(made) => {
            backup.state = BackupState::Done;
            backup.environments = made.into_iter().map(environment).collect();
        }
        Err(error) => {
            tracing::error!(backup = %backup.name, %error, "backup not made");
            backup.state = BackupState::Failed;
            backup.error = Some(error.to_string());
        }
    }
}

fn environment(of: BackedUp) -> BackedUpEnvironment {
    BackedUpEnvironment {
        queue_count: of.counts.of(RowKind::Queue),
        delivery_count: of.counts.of(RowKind::Delivery),
        bytes: of.bytes,
        name: of.environment,
    }
}

fn shown(progress: millpond_engine::BackupProgress) -> BackupProgress {
    BackupProgress {
        environment: progress.environment,
        done_count: u64::try_from(progress.done).unwrap_or(u64::MAX),
        total_count: u64::try_from(progress.total).unwrap_or(u64::MAX),
        pages: progress.copy.pages,
        pages_left: progress.copy.pages_left,
    }
}

/// Makes the directory if there is none, and removes backups from it that are not whole.
fn remove_unfinished(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The time as an id that no backup in the directory has.
fn id_of(millis: i64, directory: &Path) -> String {
    let ids = (millis..).map(|millis| {
        let text = time::render_millis(millis);
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    });
    ids.into_iter().find(|id| !directory.join(id).exists()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use millpond_engine::EngineSettings;
    use millpond_store::MemoryDisk;

    use super::*;

    #[tokio::test]
    async fn while_one_is_made_no_other_is_begun() {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = Engine::start(EngineSettings::default(), Arc::new(MemoryDisk::new()));
        let backups = Arc::new(Backups::new(directory.path().to_owned()));
        // On this one thread the first is not worked on before something is awaited.
        let first = backups.begin(&engine, Vec::new()).unwrap_or_else(|_| panic!("none is being made"));
        let second = backups.begin(&engine, Vec::new());
        assert!(matches!(second, Err(NotBegun::Running(name)) if name == first.name));
    }

    #[test]
    fn an_id_is_a_time_that_no_backup_has() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = id_of(1_796_095_363_091, directory.path());
        assert_eq!(first, "20261201t032243091z");
        std::fs::create_dir(directory.path().join(&first)).expect("it is made");
        assert_eq!(id_of(1_796_095_363_091, directory.path()), "20261201t032243092z");
    }
}
