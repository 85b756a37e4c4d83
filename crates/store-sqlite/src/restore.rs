//! Puts environments of a backup into a data directory (design-holes A2, A3).
//!
//! Each gets a database of a new name, and the catalogue names all of them at once: until then nothing that was there has
//! changed. No mark tells of the new names, so they open as restored copies; that leases found in them are void is written
//! all the same, for a server that is told to assume a restart.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use millpond_core::id::{Incarnation, LeaseGeneration};
use millpond_store::{BackedUp, StoreError, StoreErrorKind};
use rusqlite::{Connection, OpenFlags, params};

use crate::SqliteFactory;
use crate::backup::{Entry, check, digest, manifest, open_copy};
use crate::connection::{set, sync_directory};
use crate::error::{before_commit, of_file};

/// A backup, and what it says that it holds.
#[derive(Debug)]
pub struct SqliteBackup {
    directory: PathBuf,
    entries: Vec<Entry>,
}

impl SqliteBackup {
    /// Reads what a backup says that it holds; the databases are checked when they are restored.
    ///
    /// # Errors
    /// `Unavailable`: it cannot be read. `Corrupt`: it is no backup, or one of another version.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self { directory: directory.to_owned(), entries: manifest(directory)? })
    }

    /// The environments in it.
    pub fn environments(&self) -> impl Iterator<Item = &BackedUp> {
        self.entries.iter().map(|entry| &entry.of)
    }

    /// Opens the database of an environment, once it is what was backed up.
    pub(crate) fn open_checked(&self, environment: &str) -> Result<Connection, StoreError> {
        let entry = self.entry(environment)?;
        let path = self.directory.join(&entry.file);
        open_checked(&path, &path, entry, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn entry(&self, environment: &str) -> Result<&Entry, StoreError> {
        self.entries.iter().find(|entry| entry.of.environment == environment).ok_or_else(|| {
            let context = format!("{} does not hold {environment}", self.directory.display());
            StoreError::new(StoreErrorKind::Unavailable, context)
        })
    }
}

impl SqliteFactory {
    /// Puts environments of a backup in place of what the data directory has under their names, all of them or none. What
    /// is given from then on is of incarnations above `after`. `done` is told of each that was copied.
    ///
    /// # Errors
    /// `Unavailable`: the backup cannot be read or does not hold one of them. `Corrupt`: the backup is damaged. `Full`.
    pub fn restore(
        &self,
        backup: &SqliteBackup,
        environments: &[String],
        after: Incarnation,
        mut done: impl FnMut(&BackedUp),
    ) -> Result<(), StoreError> {
        let mut new = NewFiles { directory: self.place().environments.clone(), files: Vec::new() };
        for name in environments {
            let entry = backup.entry(name)?;
            let file = self.place().catalogue.draw_file()?;
            let path = new.add(&file);
            put(&backup.directory.join(&entry.file), &path, entry, after)?;
            done(&entry.of);
        }
        sync_directory(&new.directory).map_err(of_file("flushing the directory"))?;
        let files = std::mem::take(&mut new.files);
        let named: Vec<(&str, &str)> =
            environments.iter().map(String::as_str).zip(files.iter().map(String::as_str)).collect();
        let replaced = self.place().catalogue.replace(&named)?;
        let lineages = self.data_directory().join("lineage");
        for file in replaced {
            // What stays behind is in nobody's way: nothing names it.
            for end in ["", "-wal", "-shm"] {
                let path = new.directory.join(format!("{file}.sqlite{end}"));
                let _: std::io::Result<()> = fs::remove_file(path);
            }
            let _: std::io::Result<()> = fs::remove_file(lineages.join(file));
        }
        Ok(())
    }
}

/// Databases that nothing names yet; dropped, they are removed.
struct NewFiles {
    directory: PathBuf,
    files: Vec<String>,
}

impl NewFiles {
    fn add(&mut self, file: &str) -> PathBuf {
        self.files.push(file.to_owned());
        self.directory.join(format!("{file}.sqlite"))
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for file in &self.files {
            let _: std::io::Result<()> = fs::remove_file(self.directory.join(format!("{file}.sqlite")));
        }
    }
}

/// Opens a database, or a copy of it, once it is what the backup says. `named`: how errors call it.
fn open_checked(
    path: &Path,
    named: &Path,
    entry: &Entry,
    flags: OpenFlags,
) -> Result<Connection, StoreError> {
    let damaged = |what: &str| {
        let context = format!("{} is not what was backed up: {what}", named.display());
        StoreError::new(StoreErrorKind::Corrupt, context)
    };
    if digest(path)? != (entry.sha256.clone(), entry.of.bytes) {
        return Err(damaged("its SHA-256 is another"));
    }
    let connection = open_copy(path, flags)?;
    if check(&connection, named)? != (entry.of.commit, entry.of.counts) {
        return Err(damaged("it has other rows"));
    }
    Ok(connection)
}

/// Copies one database, checks that it is what the backup says, and makes a restored copy of it.
fn put(from: &Path, to: &Path, entry: &Entry, after: Incarnation) -> Result<(), StoreError> {
    fs::copy(from, to).map_err(of_file(format!("copying {} to {}", from.display(), to.display())))?;
    let connection = open_checked(to, from, entry, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let change = || {
        set(&connection, "synchronous", "full")?;
        let sql = "update environment set lineage = lower(hex(randomblob(16))), leases_void_below = ?1, \
                   incarnation = max(incarnation, ?2)";
        let void_below = LeaseGeneration::HIGHEST.0.cast_signed();
        connection.execute(sql, params![void_below, after.0.cast_signed()])
    };
    change().map_err(before_commit("marking a restored copy"))?;
    connection.close().map_err(|(_, error)| before_commit("closing a restored copy")(error))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(of_file(format!("flushing {}", to.display())))
}
