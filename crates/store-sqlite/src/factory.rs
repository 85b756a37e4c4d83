//! The environments of one data directory, and how one is taken over.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_core::id::{CommitSequence, Incarnation, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::EnvironmentRow;
use millpond_core::time::Timestamp;
use millpond_store::{Backup, Lineage, Opened, Store, StoreError, StoreErrorKind, StoreFactory};
use rusqlite::{Connection, params};

use crate::backup::NewBackup;
use crate::catalogue::{Catalogue, Entry};
use crate::checkpoint::Checkpointer;
use crate::connection::{Database, Missing, sync_directory};
use crate::error::{before_commit, of_file};
use crate::lineage::{Mark, WitnessFiles, Witnesses, judge};
use crate::row::{QUEUE_COLUMNS, queue_with_counters};
use crate::settings::SqliteSettings;
use crate::space::{FileSpace, Space};
use crate::store::SqliteStore;
use crate::{directory, schema, segment, trigger};

/// Environments kept in SQLite files of one data directory. A clone is another handle to the same.
#[derive(Clone, Debug)]
pub struct SqliteFactory {
    place: Arc<Place>,
}

/// What all open stores share; the data directory is held until the last of them is gone.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) settings: SqliteSettings,
    pub(crate) witnesses: Box<dyn Witnesses>,
    pub(crate) space: Box<dyn Space>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) catalogue: Catalogue,
    pub(crate) environments: PathBuf,
    pub(crate) vfs: Option<String>,
    pub(crate) open: Mutex<OpenStores>,
    /// Connections of owners that left with an unknown outcome, and of take-overs that failed, by file. A flush that
    /// failed may have lost frames that the page cache still shows; while one of these is open, the log's index does not take them in, and the take-over
    /// writes over them.
    pub(crate) unresolved: Mutex<HashMap<String, Connection>>,
    pub(crate) _lock: Option<File>,
}

/// Which environments are open, and who has the large cache.
#[derive(Debug, Default)]
pub(crate) struct OpenStores {
    counts: HashMap<String, usize>,
    first_cache_is_taken: bool,
}

/// One open store in [`OpenStores`], until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) place: Arc<Place>,
    pub(crate) cache_kib: u32,
    name: String,
    has_first_cache: bool,
}

impl SqliteFactory {
    /// Takes a data directory for this process, making it if there is none.
    ///
    /// # Errors
    /// `Unavailable`: another process serves it, or the file system says no. `Corrupt`: it is not a data directory, or
    /// one of another version. `Full`.
    pub fn open(path: &Path, settings: SqliteSettings) -> Result<Self, StoreError> {
        let lock = directory::take(path)?;
        let catalogue =
            Database { path: path.join("catalogue.sqlite"), vfs: None, synchronous: settings.synchronous };
        let environments = path.join("environments");
        let missing = catalogue_missing(&catalogue.path, &environments)?;
        let place = Place {
            witnesses: Box::new(WitnessFiles::new(path.join("lineage"))),
            space: Box::new(FileSpace::new(path.to_owned(), &settings)),
            checkpointer: Checkpointer::start(&settings)
                .map_err(of_file("starting the checkpoint thread"))?,
            catalogue: Catalogue::open(&catalogue, missing)?,
            environments,
            vfs: None,
            open: Mutex::default(),
            unresolved: Mutex::default(),
            _lock: Some(lock),
            settings,
        };
        Ok(Self::over(place))
    }

    pub(crate) fn over(place: Place) -> Self {
        Self { place: Arc::new(place) }
    }

    /// The same for a directory that has to be there.
    ///
    /// # Errors
    /// As [`SqliteFactory::open`]. `Unavailable`: there is none.
    pub fn open_existing(path: &Path, settings: SqliteSettings) -> Result<Self, StoreError> {
        // Taken again by the next line: a directory is never unmade, so that what was looked at stays.
        drop(directory::take_existing(path)?);
        Self::open(path, settings)
    }

    /// Where the data is.
    pub(crate) fn data_directory(&self) -> &Path {
        self.place.environments.parent().unwrap_or(&self.place.environments)
    }

    /// What is shared.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    fn entry(&self, name: &str) -> Result<Entry, StoreError> {
        let known = self.place.catalogue.find(name)?;
        if let Some(entry) = known {
            return Ok(entry);
        }
        self.place.catalogue.create(name)?;
        let created = self.place.catalogue.find(name)?;
        created
            .ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "an environment just made is not there"))
    }

    fn try_open(&self, name: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        let place = &self.place;
        let entry = self.entry(name)?;
        let open = OpenStore::new(place, name);
        let database = Database {
            path: place.environments.join(format!("{}.sqlite", entry.file)),
            vfs: place.vfs.clone(),
            synchronous: place.settings.synchronous,
        };
        let connection = database.connect_writer(entry.missing)?;
        let mark = place.witnesses.load(&entry.file);
        let taken = database
            .prepare_writer(&connection, entry.missing, open.cache_kib, schema::ENVIRONMENT)
            .and_then(|_| take_over(&connection, mark.as_ref(), place.settings.assume_restart));
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                place.keep_until_reopened(&entry.file, connection);
                return Err(error);
            }
        };
        let mark = Mark { lineage: taken.lineage, commit: taken.opened.commit };
        place.witnesses.begin(&entry.file, &mark)?;
        if entry.missing == Missing::Create && place.vfs.is_none() {
            sync_directory(&place.environments).map_err(of_file("flushing the directory"))?;
        }
        place.unresolved.lock().unwrap_or_else(PoisonError::into_inner).remove(&entry.file);
        place.catalogue.note_open(name)?;
        let store = SqliteStore::new(open, database, connection, taken.epoch, entry.file, mark)?;
        Ok((Box::new(store), taken.opened))
    }

    fn after_full<T>(&self, attempt: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match attempt() {
            Err(error) if error.kind == StoreErrorKind::Full && self.place.space.give_up_reserve() => {
                attempt()
            }
            // The outcome of an opening or of a note in the catalogue binds nobody: it can simply be done again.
            Err(error) if error.kind == StoreErrorKind::Unknown => {
                Err(StoreError { kind: StoreErrorKind::Unavailable, ..error })
            }
            other => other,
        }
    }
}

impl StoreFactory for SqliteFactory {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        self.after_full(|| self.try_open(environment))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.after_full(|| self.place.catalogue.create(environment))
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.place.catalogue.find(environment).map(|entry| entry.is_some())
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        self.after_full(|| self.place.catalogue.set_next_due(environment, next_due))
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        let open = self.place.open();
        let mut due = self.place.catalogue.due(now, limit.saturating_add(open.counts.len()))?;
        due.retain(|name| !open.counts.contains_key(name));
        due.truncate(limit);
        Ok(due)
    }

    fn begin_backup(&self, to: &Path) -> Result<Box<dyn Backup>, StoreError> {
        Ok(Box::new(NewBackup::begin(Arc::clone(&self.place), to)?))
    }
}

impl Place {
    /// The database of an environment; none if it was never opened.
    pub(crate) fn database_of(&self, name: &str) -> Result<Option<Database>, StoreError> {
        let Some(entry) = self.catalogue.find(name)? else {
            let context = format!("there is no environment {name}");
            return Err(StoreError::new(StoreErrorKind::Unavailable, context));
        };
        let path = self.environments.join(format!("{}.sqlite", entry.file));
        let is_there = entry.missing == Missing::IsLost || path.exists();
        let synchronous = self.settings.synchronous;
        Ok(is_there.then(|| Database { path, vfs: self.vfs.clone(), synchronous }))
    }

    /// Keeps a connection until the environment of this file is taken over.
    pub(crate) fn keep_until_reopened(&self, file: &str, connection: Connection) {
        let mut unresolved = self.unresolved.lock().unwrap_or_else(PoisonError::into_inner);
        unresolved.insert(file.to_owned(), connection);
    }

    fn open(&self) -> MutexGuard<'_, OpenStores> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenStore {
    fn new(place: &Arc<Place>, name: &str) -> Self {
        let mut open = place.open();
        *open.counts.entry(name.to_owned()).or_default() += 1;
        let has_first_cache = !std::mem::replace(&mut open.first_cache_is_taken, true);
        let settings = &place.settings;
        let cache_kib = if has_first_cache { settings.cache_first_kib } else { settings.cache_other_kib };
        Self { place: Arc::clone(place), cache_kib, name: name.to_owned(), has_first_cache }
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        let mut open = self.place.open();
        if self.has_first_cache {
            open.first_cache_is_taken = false;
        }
        if let Some(count) = open.counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                open.counts.remove(&self.name);
            }
        }
    }
}

/// Whether the catalogue may be made: only while there is no database that it would have to name.
fn catalogue_missing(catalogue: &Path, environments: &Path) -> Result<Missing, StoreError> {
    let mut has_databases = false;
    let context = format!("reading {}", environments.display());
    for entry in std::fs::read_dir(environments).map_err(of_file(&context))? {
        let name = entry.map_err(of_file(&context))?.file_name();
        has_databases |= Path::new(&name).extension().is_some_and(|extension| extension == "sqlite");
    }
    if !has_databases {
        return Ok(Missing::Create);
    }
    let bytes = match std::fs::metadata(catalogue) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        found => found.map_err(of_file("reading the catalogue"))?.len(),
    };
    if bytes == 0 {
        let context = format!(
            "the catalogue {} is missing or empty, but {} holds databases that it has to name: was it lost?",
            catalogue.display(),
            environments.display()
        );
        return Err(StoreError::new(StoreErrorKind::Corrupt, context));
    }
    Ok(Missing::IsLost)
}

/// What taking an environment over found.
struct Taken {
    epoch: i64,
    lineage: String,
    opened: Opened,
}

/// Raises the epoch in a transaction of its own, which fences whoever was the owner, and settles the lineage.
fn take_over(
    connection: &Connection,
    mark: Option<&Mark>,
    assume_restart: bool,
) -> Result<Taken, StoreError> {
    let result = take_over_in_transaction(connection, mark, assume_restart);
    if result.is_err() && !connection.is_autocommit() {
        // The error that counts is the one that led here.
        let _: Result<(), rusqlite::Error> = connection.execute_batch("rollback");
    }
    result.map_err(before_commit("taking an environment over"))
}

fn take_over_in_transaction(
    connection: &Connection,
    mark: Option<&Mark>,
    assume_restart: bool,
) -> Result<Taken, rusqlite::Error> {
    connection.execute_batch("begin immediate")?;
    let sql = "update environment set epoch = epoch + 1 returning epoch, lineage, commit_seq, incarnation, stamp, \
               next_sequence, next_queue, dedup_count, leases_void_below";
    let (epoch, stored_lineage, commit, environment) = connection.query_row(sql, [], |row| {
        let unsigned = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let environment = EnvironmentRow {
            incarnation: Incarnation(unsigned(3)?),
            stamp: Timestamp::from_millis(row.get(4)?),
            next_sequence: Sequence(unsigned(5)?),
            next_queue: QueueNumber(row.get(6)?),
            dedup_count: unsigned(7)?,
            leases_void_below: LeaseGeneration(unsigned(8)?),
        };
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, CommitSequence(unsigned(2)?), environment))
    })?;
    let lineage = match epoch {
        1 => Lineage::New,
        _ if assume_restart => Lineage::Restarted,
        _ => judge(mark, &stored_lineage, commit),
    };
    if lineage == Lineage::Restored {
        // Along with the lineage: an owner that dies before its first commit leaves its successor the same.
        let void_below = LeaseGeneration::HIGHEST.0.cast_signed();
        let sql = "update environment set lineage = lower(hex(randomblob(16))), leases_void_below = ?1";
        connection.execute(sql, params![void_below])?;
    }
    let text = connection.query_row("select lineage from environment", [], |row| row.get(0))?;
    connection.execute_batch("commit")?;
    let sql = format!(
        "select {QUEUE_COLUMNS} from queue left join counters on counters.queue = number order by number"
    );
    let queues = connection.prepare(&sql)?.query_map([], queue_with_counters)?.collect::<Result<_, _>>()?;
    let (segments, runs) = segment::all(connection)?;
    let (triggers, secret) = trigger::all(connection)?;
    // Rows that are removed leave nothing in the way of scans here.
    let low_water = Vec::new();
    let opened = Opened { commit, environment, queues, segments, runs, triggers, secret, low_water, lineage };
    Ok(Taken { epoch, lineage: text, opened })
}
