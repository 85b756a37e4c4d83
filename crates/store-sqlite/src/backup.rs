//! A backup: a directory with a database for each environment, and `backup.json`, which says what they are.
//!
//! It is made under another name, flushed, and renamed when it is whole. Nobody serves it: `restore.rs` puts its databases
//! into a data directory, `snapshot.rs` reads them.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use millpond_core::id::CommitSequence;
use millpond_store::{BackedUp, Backup, CopyProgress, RowCounts, RowKind, StoreError, StoreErrorKind};
use rusqlite::{Connection, Error, OpenFlags};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::connection::{Database, get, set, sync_directory};
use crate::copying::Copying;
use crate::error::{before_commit, of_file};
use crate::factory::Place;
use crate::schema::{APPLICATION_ID, LAYOUT};
use crate::snapshot;

/// What `backup.json` says it is. The number rises when its form changes.
const FORMAT: &str = "millpond backup, sqlite, version 1";

/// Its name in the directory.
pub(crate) const MANIFEST: &str = "backup.json";

/// What is added to the name of a backup while it is not whole.
pub const UNFINISHED: &str = ".part";

/// Pages that are copied at once where nobody waits.
const PAGES: u32 = 4_096;

/// A backup of a data directory that is being made.
pub(crate) struct NewBackup {
    place: Arc<Place>,
    to: PathBuf,
    unfinished: PathBuf,
    entries: Vec<Entry>,
}

/// An environment in a backup.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) file: String,
    pub(crate) sha256: String,
    pub(crate) of: BackedUp,
}

impl NewBackup {
    pub(crate) fn begin(place: Arc<Place>, to: &Path) -> Result<Self, StoreError> {
        let mut unfinished = to.as_os_str().to_owned();
        unfinished.push(UNFINISHED);
        let unfinished = PathBuf::from(unfinished);
        for path in [to, &unfinished] {
            if path.exists() {
                let context = format!("{} is there already", path.display());
                return Err(StoreError::new(StoreErrorKind::Unavailable, context));
            }
        }
        fs::create_dir_all(&unfinished).map_err(of_file(format!("making {}", unfinished.display())))?;
        Ok(Self { place, to: to.to_owned(), unfinished, entries: Vec::new() })
    }

    fn next_name(&self) -> String {
        format!("{}.sqlite", self.entries.len() + 1)
    }

    fn write_manifest(&self) -> std::io::Result<()> {
        let environments: Vec<Value> = self.entries.iter().map(Entry::to_json).collect();
        let made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let manifest = json!({
            "format": FORMAT,
            "layout": LAYOUT,
            "made_at_ms": u64::try_from(made.as_millis()).unwrap_or(u64::MAX),
            "environments": environments,
        });
        let path = self.unfinished.join(MANIFEST);
        fs::write(&path, format!("{manifest:#}\n"))?;
        File::open(&path)?.sync_all()?;
        sync_directory(&self.unfinished)?;
        fs::rename(&self.unfinished, &self.to)?;
        let parent = self.to.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_directory(parent.unwrap_or(Path::new(".")))
    }
}

impl Backup for NewBackup {
    fn environments(&self) -> Result<Vec<String>, StoreError> {
        self.place.catalogue.names()
    }

    fn next_file(&self) -> PathBuf {
        self.unfinished.join(self.next_name())
    }

    fn copy_closed(
        &mut self,
        environment: &str,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> Result<(), StoreError> {
        let context = "copying a database";
        let to = self.next_file();
        let Some(from) = self.place.database_of(environment)? else {
            // Known and never opened: its database is still to be made.
            let empty = Database { path: to, vfs: None, synchronous: self.place.settings.synchronous };
            let (connection, _) =
                empty.open(crate::connection::Missing::Create, 0, crate::schema::ENVIRONMENT)?;
            return set(&connection, "journal_mode", "delete").map_err(before_commit(context));
        };
        let connection = from.open_reader(self.place.settings.cache_other_kib)?;
        let mut copy = || {
            let mut copying = Copying::begin(&connection, &to)?;
            loop {
                let now = copying.step(PAGES)?;
                progress(now);
                if now.pages_left == 0 {
                    return Ok(());
                }
            }
        };
        copy().map_err(before_commit(context))
    }

    fn add(&mut self, environment: &str) -> Result<BackedUp, StoreError> {
        let path = self.next_file();
        let connection = open_copy(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // One file: neither it nor who reads it needs a log beside it.
        set(&connection, "journal_mode", "delete").map_err(before_commit("finishing a copy"))?;
        let (commit, counts) = check(&connection, &path)?;
        connection.close().map_err(|(_, error)| before_commit("closing a copy")(error))?;
        let context = format!("flushing {}", path.display());
        File::open(&path).and_then(|file| file.sync_all()).map_err(of_file(context))?;
        let (sha256, bytes) = digest(&path)?;
        let of = BackedUp { environment: environment.to_owned(), commit, counts, bytes };
        self.entries.push(Entry { file: self.next_name(), sha256, of: of.clone() });
        Ok(of)
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        self.write_manifest().map_err(of_file(format!("finishing {}", self.to.display())))
    }
}

impl Drop for NewBackup {
    fn drop(&mut self) {
        // Of a finished one it is gone. If it cannot be removed, its name says what it is.
        let _: std::io::Result<()> = fs::remove_dir_all(&self.unfinished);
    }
}

/// Opens the database of a backup and looks whether it is one of ours, of this layout.
pub(crate) fn open_copy(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = connection.map_err(|error| opening(path, error))?;
    check_marks(&connection, path)?;
    Ok(connection)
}

fn opening(path: &Path, error: Error) -> StoreError {
    StoreError { context: format!("opening {}", path.display()), ..before_commit("opening")(error) }
}

/// Whether it is a database of ours, of this layout.
pub(crate) fn check_marks(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mark = |pragma| get(connection, pragma).map_err(|error| opening(path, error));
    let (application, layout) = (mark("application_id")?, mark("user_version")?);
    if (application, layout) != (APPLICATION_ID, LAYOUT) {
        let context = match application {
            APPLICATION_ID => format!("{} has layout {layout}, expected {LAYOUT}", path.display()),
            _ => format!("{} is not a database of Millpond", path.display()),
        };
        return Err(StoreError::new(StoreErrorKind::Corrupt, context));
    }
    Ok(())
}

/// Has SQLite check every page, and counts rows.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(CommitSequence, RowCounts), StoreError> {
    let failed = |error| before_commit("checking a copy")(error);
    let found: String =
        connection.query_row("pragma integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if found != "ok" {
        let context = format!("{} is damaged: {found}", path.display());
        return Err(StoreError::new(StoreErrorKind::Corrupt, context));
    }
    let head = snapshot::head(connection)?;
    Ok((head.commit, head.counts))
}

/// SHA-256 of a file, and its length.
pub(crate) fn digest(path: &Path) -> Result<(String, u64), StoreError> {
    let read = || {
        let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                return Ok((hex(&hash.finalize()), bytes));
            }
            hash.update(buffer.get(..count).unwrap_or_default());
            bytes += u64::try_from(count).unwrap_or(0);
        }
    };
    read().map_err(of_file(format!("reading {}", path.display())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Entry {
    fn to_json(&self) -> Value {
        let counts = self.of.counts.iter().map(|(kind, count)| (kind.word().to_owned(), count.into()));
        json!({
            "name": self.of.environment,
            "file": self.file,
            "commit": self.of.commit.0,
            "bytes": self.of.bytes,
            "sha256": self.sha256,
            "rows": counts.collect::<serde_json::Map<_, _>>(),
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        let number = |name: &str| value.get(name)?.as_u64();
        let mut counts = RowCounts::default();
        for kind in RowKind::ALL {
            counts.add(kind, value.get("rows")?.get(kind.word())?.as_u64()?);
        }
        let of = BackedUp {
            environment: text("name")?,
            commit: CommitSequence(number("commit")?),
            counts,
            bytes: number("bytes")?,
        };
        // A name without a way out of the directory.
        let file = text("file").filter(|file| Path::new(file).file_name() == Some(file.as_ref()))?;
        Some(Self { file, sha256: text("sha256")?, of })
    }
}

/// Reads what a backup says that it holds.
pub(crate) fn manifest(directory: &Path) -> Result<Vec<Entry>, StoreError> {
    let path = directory.join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(of_file(format!("reading {}", path.display())))?;
    let corrupt = |why: &str| StoreError::new(StoreErrorKind::Corrupt, format!("{} {why}", path.display()));
    let value: Value = serde_json::from_str(&text).map_err(|_| corrupt("is not JSON"))?;
    let format = value.get("format").and_then(Value::as_str);
    if format != Some(FORMAT) {
        return Err(corrupt(&format!("is of another format: {}", format.unwrap_or("none"))));
    }
    let environments = value.get("environments").and_then(Value::as_array);
    let entries = environments.and_then(|all| all.iter().map(Entry::from_json).collect::<Option<Vec<_>>>());
    entries.ok_or_else(|| corrupt("does not say what it holds"))
}
