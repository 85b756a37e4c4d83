//! A copy of a database, page by page, on the connection that writes it: SQLite then copies again what that connection
//! changes meanwhile, where a copy on any other connection would begin anew with every commit (design-holes B15).
#![allow(
    unsafe_code,
    reason = "rusqlite's binding borrows the connection that has to commit between two steps"
)]

use std::fs::OpenOptions;
use std::path::Path;
use std::ptr::NonNull;

use millpond_store::CopyProgress;
use rusqlite::{Connection, Error, OpenFlags, ffi};

use crate::connection::set;

/// A copy that is under way.
///
/// Invariant: whoever holds it drops it before the connection that it was begun on.
#[derive(Debug)]
pub(crate) struct Copying {
    handle: NonNull<ffi::sqlite3_backup>,
    /// Dropped after the handle is finished.
    _to: Connection,
}

// SAFETY: what the handle points to is used by whoever has the connection, which moves between threads along with it.
unsafe impl Send for Copying {}

impl Copying {
    /// Begins a copy in a new file.
    pub(crate) fn begin(from: &Connection, to: &Path) -> Result<Self, Error> {
        // SQLite would write over what it finds.
        let made = OpenOptions::new().write(true).create_new(true).open(to);
        made.map_err(|error| {
            let text = format!("making {}: {error}", to.display());
            Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), Some(text))
        })?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let to = Connection::open_with_flags(to, flags)?;
        // Nobody looks at it before it is whole, and then it is flushed at once.
        set(&to, "journal_mode", "off")?;
        set(&to, "synchronous", "off")?;
        // SAFETY: both handles are of open connections, and the names are C strings.
        let handle = unsafe {
            ffi::sqlite3_backup_init(to.handle(), c"main".as_ptr(), from.handle(), c"main".as_ptr())
        };
        match NonNull::new(handle) {
            Some(handle) => Ok(Self { handle, _to: to }),
            // SAFETY: the handle is of an open connection.
            None => Err(failure(unsafe { ffi::sqlite3_errcode(to.handle()) })),
        }
    }

    /// Copies so many pages.
    pub(crate) fn step(&mut self, pages: u32) -> Result<CopyProgress, Error> {
        let pages = i32::try_from(pages).unwrap_or(i32::MAX);
        // SAFETY: the handle lives as long as this value, and both connections live longer.
        let code = unsafe { ffi::sqlite3_backup_step(self.handle.as_ptr(), pages) };
        match code {
            // Somebody has the lock for a moment: the next step tries again.
            ffi::SQLITE_OK | ffi::SQLITE_DONE | ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => {}
            code => return Err(failure(code)),
        }
        // SAFETY: as above.
        let (pages, left) = unsafe {
            (
                ffi::sqlite3_backup_pagecount(self.handle.as_ptr()),
                ffi::sqlite3_backup_remaining(self.handle.as_ptr()),
            )
        };
        let count = |pages| u64::try_from(pages).unwrap_or(0);
        // What is whole is what SQLite says is: none may be left of a copy that has not begun.
        let left = if code == ffi::SQLITE_DONE { 0 } else { count(left).max(1) };
        Ok(CopyProgress { pages: count(pages), pages_left: left })
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        // SAFETY: as above; nothing uses the handle after this. What it says was said by the last step.
        unsafe { ffi::sqlite3_backup_finish(self.handle.as_ptr()) };
    }
}

fn failure(code: i32) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_between_two_steps_is_in_the_copy_which_ends() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let from = Connection::open(directory.path().join("from")).expect("it opens");
        set(&from, "journal_mode", "wal").expect("it is set");
        from.execute_batch("create table t (n integer, filler blob)").expect("it is made");
        let insert = |n: i64| {
            from.execute("insert into t values (?1, zeroblob(3000))", [n]).expect("it is written");
        };
        (0..200).for_each(insert);
        let path = directory.path().join("to");
        let mut copying = Copying::begin(&from, &path).expect("it begins");
        let (mut next, mut steps) = (200, 0);
        while copying.step(8).expect("a step").pages_left > 0 {
            from.execute("delete from t where n = ?1", [next - 200]).expect("it is written");
            insert(next);
            (next, steps) = (next + 1, steps + 1);
            assert!(steps < 100, "it begins anew with each commit");
        }
        assert!(steps > 10, "{steps}");
        drop(copying);
        let copy = Connection::open(path).expect("it opens");
        let count = "select count(*), min(n), max(n) from t";
        let found: (i64, i64, i64) =
            copy.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("it is read");
        assert_eq!(found, (200, next - 200, next - 1));
    }

    #[test]
    fn a_copy_is_not_made_over_a_file_that_is_there() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let from = Connection::open(directory.path().join("from")).expect("it opens");
        std::fs::write(directory.path().join("to"), "thesis").expect("it is written");
        assert!(Copying::begin(&from, &directory.path().join("to")).is_err());
        assert_eq!(std::fs::read(directory.path().join("to")).expect("it is there"), b"thesis");
    }
}
