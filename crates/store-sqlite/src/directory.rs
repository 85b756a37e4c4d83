//! The data directory: whose it is, which layout it has, and that one process serves it.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::Path;

use millpond_store::{StoreError, StoreErrorKind};

use crate::connection::sync_directory;
use crate::error::of_file;

/// What the file `format` says. The number rises when the layout of the directory changes.
const FORMAT: &str = "millpond data directory, sqlite, layout 1\n";

/// Names that may be in a directory that is not Millpond's yet: what a creation that was cut short leaves, and what a
/// new file system has.
const HARMLESS: [&str; 3] = ["format.new", "lock", "lost+found"];

/// Folders made before `format`: empty ones are of a creation that was cut short, too.
const FOLDERS: [&str; 2] = ["environments", "lineage"];

/// Takes a data directory for this process, making it if need be. It is released when the file is dropped.
pub(crate) fn take(path: &Path) -> Result<File, StoreError> {
    let context = |what: &str| format!("{what} {}", path.display());
    fs::create_dir_all(path).map_err(of_file(context("making the data directory")))?;
    let is_new = !path.join("format").exists();
    if is_new {
        refuse_foreign(path)?;
    }
    let lock = lock(path)?;
    if is_new {
        create(path).map_err(of_file(context("making the data directory")))?;
    }
    let format =
        fs::read_to_string(path.join("format")).map_err(of_file(context("reading the format of")))?;
    if format != FORMAT {
        let context = format!("{} is of another format: {:?}", path.display(), format.trim_end());
        return Err(StoreError::new(StoreErrorKind::Corrupt, context));
    }
    Ok(lock)
}

/// Takes a data directory that has to be there.
pub(crate) fn take_existing(path: &Path) -> Result<File, StoreError> {
    if path.join("format").exists() {
        return take(path);
    }
    let context = format!("{} is not a data directory of Millpond", path.display());
    Err(StoreError::new(StoreErrorKind::Unavailable, context))
}

fn refuse_foreign(path: &Path) -> Result<(), StoreError> {
    let context = format!("reading {}", path.display());
    for entry in fs::read_dir(path).map_err(of_file(&context))? {
        let entry = entry.map_err(of_file(&context))?;
        let name = entry.file_name();
        let is_empty = || fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
        let is_unfinished = FOLDERS.iter().any(|folder| name == *folder) && is_empty();
        if !is_unfinished && !HARMLESS.iter().any(|harmless| name == *harmless) {
            let context = format!(
                "{} is not a data directory of Millpond and not empty: it holds {}",
                path.display(),
                name.to_string_lossy()
            );
            return Err(StoreError::new(StoreErrorKind::Corrupt, context));
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let context = format!("locking {}", path.display());
    let file = File::create(path.join("lock")).map_err(of_file(&context))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(of_file(&context)(error)),
        Err(TryLockError::WouldBlock) => {
            let context = format!("another process serves {}", path.display());
            Err(StoreError::new(StoreErrorKind::Unavailable, context))
        }
    }
}

fn create(path: &Path) -> std::io::Result<()> {
    for folder in FOLDERS {
        fs::create_dir_all(path.join(folder))?;
    }
    let mut file = File::create(path.join("format.new"))?;
    file.write_all(FORMAT.as_bytes())?;
    file.sync_all()?;
    sync_directory(path)?;
    fs::rename(path.join("format.new"), path.join("format"))?;
    sync_directory(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        take(path).expect_err("it is refused").to_string()
    }

    #[test]
    fn one_process_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("deep").join("data");
        let first = take(&path).expect("it is made");
        assert_eq!(refused(&path), format!("another process serves {}: unavailable", path.display()));
        drop(first);
        take(&path).expect("it is free again");
    }

    #[test]
    fn foreign_and_later_directories_are_refused_and_left_alone() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        fs::write(directory.path().join("thesis.doc"), "").expect("it is written");
        assert!(refused(directory.path()).contains("not empty: it holds thesis.doc"));
        assert_eq!(fs::read_dir(directory.path()).expect("it is read").count(), 1, "nothing was made");

        let directory = tempfile::tempdir().expect("a directory can be made");
        fs::write(directory.path().join("format"), "millpond data directory, sqlite, layout 2\n")
            .expect("ok");
        assert!(refused(directory.path()).contains("is of another format"));
    }

    #[test]
    fn a_creation_that_was_cut_short_is_finished() {
        type Step = fn(&Path) -> std::io::Result<()>;
        let steps: [Step; 5] = [
            |path| fs::create_dir(path.join("lost+found")),
            |path| fs::write(path.join("lock"), ""),
            |path| fs::create_dir(path.join("environments")),
            |path| fs::create_dir(path.join("lineage")),
            |path| fs::write(path.join("format.new"), &FORMAT[..9]),
        ];
        for count in 0..=steps.len() {
            let directory = tempfile::tempdir().expect("a directory can be made");
            for step in &steps[..count] {
                step(directory.path()).expect("the step works");
            }
            take(directory.path()).expect("it is made");
            let format = fs::read_to_string(directory.path().join("format"));
            assert_eq!(format.expect("it is there"), FORMAT, "after {count} steps");
            assert!(FOLDERS.iter().all(|folder| directory.path().join(folder).is_dir()));
        }
    }

    #[test]
    fn folders_of_the_same_name_that_hold_something_are_foreign() {
        for folder in FOLDERS {
            let directory = tempfile::tempdir().expect("a directory can be made");
            fs::create_dir(directory.path().join(folder)).expect("it is made");
            fs::write(directory.path().join(folder).join("thesis.doc"), "").expect("it is written");
            assert!(refused(directory.path()).contains(&format!("not empty: it holds {folder}")));
        }
        let directory = tempfile::tempdir().expect("a directory can be made");
        fs::write(directory.path().join("lineage"), "").expect("it is written");
        assert!(refused(directory.path()).contains("not empty: it holds lineage"));
    }
}
