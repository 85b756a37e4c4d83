//! Every row arrives, from and into every kind of store.

use millpond_core::id::Incarnation;
use millpond_moving::{MoveError, export, import};
use millpond_store::{MemoryDisk, Snapshots as _, StoreFactory as _};
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
