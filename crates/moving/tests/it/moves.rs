//! Every row arrives, from and into every kind of store.

use millpond_core::ChangeSet;
use millpond_core::id::{CommitSequence, Incarnation};
use millpond_moving::{MoveError, export, import};
use millpond_store::{
    MemoryDisk, Opened, Resolution, Snapshot, SnapshotHead, Snapshots, Store, StoreError, StoreErrorKind,
    StoreFactory, StoreReader, StoreStats, StoredRow,
};
use millpond_store_sqlite::{SqliteFactory, SqliteSnapshots};
use proptest::prelude::*;

use crate::world::{NAME, ORIGIN, all, export_of, fill, found, import_of, memory, moved, settings};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_row_of_a_random_environment_arrives(seed in any::<u64>(), deliveries in 0u64..120) {
        let source = memory(seed, deliveries);
        let expected = moved(source.dump(NAME));

        // Memory to memory.
        let file = export_of(&source);
        let target = MemoryDisk::new();
        import_of(&file, &target).expect("it is imported");
        prop_assert_eq!(&found(&target), &expected);

        // The same rows in SQLite, to SQLite, and back to memory.
        let (one, two) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        let factory = SqliteFactory::open(one.path(), settings()).expect("it is made");
        fill(&factory, seed, deliveries);
        drop(factory);
        let snapshots = SqliteSnapshots::open(one.path()).expect("nobody serves it");
        let (_, rows) = all(&snapshots);
        prop_assert_eq!(&rows, &all(&source).1);
        let factory = SqliteFactory::open(two.path(), settings()).expect("it is made");
        import_of(&export_of(&snapshots), &factory).expect("it is imported");
        drop(factory);
        let snapshots = SqliteSnapshots::open(two.path()).expect("nobody serves it");
        prop_assert_eq!(&all(&snapshots).1, &rows);
        let back = MemoryDisk::new();
        import_of(&export_of(&snapshots), &back).expect("it is imported");
        prop_assert_eq!(&found(&back), &expected);
    }
}

#[test]
fn a_backlog_of_many_pages_arrives_and_progress_is_told() {
    let source = memory(1, 4_321);
    let (mut file, mut told) = (Vec::new(), Vec::new());
    let made =
        export(&source, NAME, ORIGIN, &mut file, &mut |progress| told.push(progress)).expect("it works");
    assert!(told.len() > 5 && told.is_sorted_by_key(|progress| progress.rows), "{told:?}");
    let last = told.last().expect("there is one");
    assert_eq!((last.rows, last.rows_total), (made.counts.total(), made.counts.total()));
    assert_eq!(file.iter().filter(|byte| **byte == b'\n').count() as u64, made.lines);

    let target = MemoryDisk::new();
    let mut count = 0;
    let moved_in =
        import(&mut file.as_slice(), &target, None, &mut |progress| count = progress.rows).expect("it works");
    assert_eq!((moved_in, count), (made, last.rows));
    assert_eq!(found(&target), moved(source.dump(NAME)));
}

#[test]
fn an_environment_gets_another_name_if_it_is_told() {
    let file = export_of(&memory(2, 3));
    let target = MemoryDisk::new();
    let name = "orgs/o/projects/p/envs/other";
    let into = import(&mut file.as_slice(), &target, Some(name), &mut |_| {}).expect("it is imported");
    assert_eq!(into.environment, name);
    assert_eq!(target.environments().expect("names"), [name]);
}

#[test]
fn an_environment_that_holds_something_is_left_alone() {
    let file = export_of(&memory(3, 3));
    let target = memory(4, 3);
    let before = target.dump(NAME);
    assert!(matches!(import_of(&file, &target), Err(MoveError::NotEmpty(name)) if name == NAME));
    assert_eq!(target.dump(NAME), before);
}

#[test]
fn an_environment_that_was_never_opened_is_exported_empty() {
    let source = MemoryDisk::new();
    source.create_environment(NAME).expect("it is made");
    let target = MemoryDisk::new();
    let into = import_of(&export_of(&source), &target).expect("it is imported");
    assert_eq!((into.counts.total(), into.lines), (0, 2));

    let directory = tempfile::tempdir().expect("a directory");
    let factory = SqliteFactory::open(directory.path(), settings()).expect("it is made");
    factory.create_environment(NAME).expect("it is made");
    drop(factory);
    let snapshots = SqliteSnapshots::open(directory.path()).expect("nobody serves it");
    assert_eq!(all(&snapshots), all(&source));
}

#[test]
fn what_is_half_imported_is_not_exported() {
    let file = export_of(&memory(5, 2_500));
    let target = MemoryDisk::new();
    let half = file.len() / 2;
    assert!(import_of(&file[..half], &target).is_err());
    assert_eq!(target.dump(NAME).environment.incarnation, Incarnation::IMPORTING);
    let again = export(&target, NAME, ORIGIN, &mut Vec::new(), &mut |_| {});
    assert!(matches!(again, Err(MoveError::Unfinished(name)) if name == NAME));
}

/// A snapshot that leaves out its last page.
struct Short<S>(S);

impl<S: Snapshots> Snapshots for Short<S> {
    fn environments(&self) -> Result<Vec<String>, StoreError> {
        self.0.environments()
    }

    fn snapshot(&self, environment: &str) -> Result<Box<dyn Snapshot>, StoreError> {
        let (inner, pages) = (self.0.snapshot(environment)?, self.pages(environment)?);
        Ok(Box::new(ShortSnapshot { inner, left: pages - 1 }))
    }
}

impl<S: Snapshots> Short<S> {
    fn pages(&self, environment: &str) -> Result<usize, StoreError> {
        let mut snapshot = self.0.snapshot(environment)?;
        let mut pages = 0;
        while !snapshot.next_page()?.is_empty() {
            pages += 1;
        }
        Ok(pages)
    }
}

struct ShortSnapshot {
    inner: Box<dyn Snapshot>,
    left: usize,
}

impl Snapshot for ShortSnapshot {
    fn head(&self) -> &SnapshotHead {
        self.inner.head()
    }

    fn next_page(&mut self) -> Result<Vec<StoredRow>, StoreError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(Vec::new()) };
        self.left = left;
        self.inner.next_page()
    }
}

#[test]
fn an_environment_with_other_rows_than_it_counts_is_not_exported_as_whole() {
    let mut file = Vec::new();
    let error =
        export(&Short(memory(6, 2_500)), NAME, ORIGIN, &mut file, &mut |_| {}).expect_err("some lack");
    assert!(matches!(error, MoveError::Miscounted { rows, counted, .. } if rows < counted), "{error}");
    assert!(import_of(&file, &MemoryDisk::new()).is_err(), "and it has no end");
}

/// A place whose last commit before the environment is served is made, or is not, and is not answered.
struct Silent {
    inner: MemoryDisk,
    happens: bool,
}

impl StoreFactory for Silent {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        let (inner, opened) = self.inner.open(environment)?;
        Ok((Box::new(SilentStore { inner, happens: self.happens }), opened))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.inner.create_environment(environment)
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.inner.has_environment(environment)
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        self.inner.set_next_due(environment, next_due)
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        self.inner.due_environments(now, limit)
    }
}

struct SilentStore {
    inner: Box<dyn Store>,
    happens: bool,
}

impl Store for SilentStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        if changes.environment.incarnation == Incarnation::IMPORTING {
            return self.inner.commit(changes);
        }
        if self.happens {
            self.inner.commit(changes)?;
        }
        Err(StoreError::new(StoreErrorKind::Unknown, "no answer"))
    }

    fn resolve(&mut self, _: CommitSequence) -> Result<Resolution, StoreError> {
        Ok(if self.happens { Resolution::Happened } else { Resolution::Lost })
    }

    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.inner.reader()
    }

    fn stats(&mut self) -> Result<StoreStats, StoreError> {
        self.inner.stats()
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.inner.close()
    }
}

/// An import that goes on would find an environment that is not empty, and its user would import it once more elsewhere.
#[test]
fn what_became_of_the_last_commit_is_found_out() {
    let source = memory(7, 1_200);
    let file = export_of(&source);
    for happens in [true, false] {
        let target = Silent { inner: MemoryDisk::new(), happens };
        let ended = import(&mut file.as_slice(), &target, None, &mut |_| {});
        assert_eq!(ended.is_ok(), happens, "{ended:?}");
        if !happens {
            import_of(&file, &target.inner).expect("it goes on");
        }
        assert_eq!(found(&target.inner), moved(source.dump(NAME)));
    }
}
