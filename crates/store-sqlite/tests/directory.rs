//! The data directory: bounds on the log, many environments, copies of the whole, and what is lost or taken.

use std::fs;
use std::path::Path;
use std::time::Duration;

use millpond_core::{RowKey, id::Sequence};
use millpond_store::{Lineage, StoreErrorKind, StoreFactory};
use millpond_store_conformance::lifecycle::{Lifecycle, Run};
use millpond_store_conformance::rows::{ENVIRONMENT, Owner, assert_fails, delivery, secret, trigger};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings, Synchronous};

fn settings() -> SqliteSettings {
    SqliteSettings {
        reserve_bytes: 0,
        space_low_bytes: 0,
        space_low_permille: 0,
        ..SqliteSettings::default()
    }
}

fn open(path: &Path) -> SqliteFactory {
    SqliteFactory::open(path, settings()).expect("the directory is free")
}

fn new_directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory can be made")
}

fn files(path: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(path).expect("it is there").map(|entry| entry.expect("it is read"));
    let size = |entry: &fs::DirEntry| entry.metadata().map_or(0, |found| found.len());
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), size(&entry))).collect()
}

fn log_bytes(path: &Path) -> u64 {
    let logs = files(&path.join("environments")).into_iter().filter(|(name, _)| name.ends_with("-wal"));
    logs.map(|(_, size)| size).sum()
}

#[test]
fn the_log_stays_bounded_while_commits_follow_each_other() {
    let directory = new_directory();
    let settings = SqliteSettings {
        checkpoint_wake_bytes: 1 << 20,
        checkpoint_inline_bytes: 8 << 20,
        synchronous: Synchronous::Off,
        ..settings()
    };
    let factory = SqliteFactory::open(directory.path(), settings).expect("the directory is free");
    let (mut store, opened) = factory.open(ENVIRONMENT).expect("it opens");
    let mut reader = store.reader().expect("it is open");
    let load = Lifecycle { operations_per_commit: 300, distance: 2_000, data_bytes: 1_000 };
    let mut run = Run::new(load, opened.commit);
    let mut written = 0;
    while written < 256 << 20 {
        store.commit(&run.changes()).expect("commits work");
        written += 100 * 1_000;
        reader.read(&[]).expect("reads work");
        // While the thread is at work the log grows, for as long as the machine keeps it waiting; without bounds it would have
        // all that is written.
        let bytes = log_bytes(directory.path());
        assert!(bytes < 128 << 20, "the log has {bytes} bytes");
    }
    let used = store.stats().expect("it is open").used_bytes;
    assert!(used < 64 << 20, "the environment takes {used} bytes");
}

#[test]
fn a_closed_environment_is_one_file_and_a_dropped_one_is_found_whole() {
    let directory = new_directory();
    let factory = open(directory.path());
    let mut owner = Owner::open(&factory);
    owner.send((1..=100).map(delivery));
    drop(owner);
    let mut owner = Owner::open(&factory);
    assert_eq!((owner.opened.commit.0, owner.delivery(100)), (1, Some(delivery(100))));
    owner.close();
    let names: Vec<String> =
        files(&directory.path().join("environments")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(files(&directory.path().join("lineage")).len(), 1);
}

#[test]
fn one_factory_at_a_time_even_while_only_a_store_is_left_of_it() {
    let directory = new_directory();
    let factory = open(directory.path());
    let owner = Owner::open(&factory);
    drop(factory);
    let second = SqliteFactory::open(directory.path(), settings());
    assert_fails(second.map(drop), StoreErrorKind::Unavailable);
    drop(owner);
    drop(open(directory.path()));
}

#[test]
fn a_database_of_another_layout_is_refused_and_says_so() {
    let directory = new_directory();
    let factory = open(directory.path());
    Owner::open(&factory).close();
    let environments = directory.path().join("environments");
    let names: Vec<String> = files(&environments).into_iter().map(|(name, _)| name).collect();
    let database = rusqlite::Connection::open(environments.join(&names[0])).expect("it opens");
    database.pragma_update(None, "user_version", 1).expect("it is written");
    drop(database);
    let error = factory.open(ENVIRONMENT).map(drop).expect_err("it is refused");
    assert_eq!(error.kind, StoreErrorKind::Corrupt);
    let told = error.to_string();
    assert!(told.contains(&names[0]) && told.contains("layout 1") && told.contains("layout 5"), "{told}");
}

/// An environment with a delivery, a trigger and a secret, in which somebody else then runs a statement.
fn damaged_by(sql: &str) -> (tempfile::TempDir, SqliteFactory) {
    let directory = new_directory();
    let factory = open(directory.path());
    let mut owner = Owner::open(&factory);
    owner.send([delivery(1)]);
    owner.commit(|changes| {
        changes.triggers_put = vec![trigger("t")];
        changes.secret = Some(secret(1));
    });
    owner.close();
    let environments = directory.path().join("environments");
    let (name, _) = files(&environments).swap_remove(0);
    let database = rusqlite::Connection::open(environments.join(name)).expect("it opens");
    assert_eq!(database.execute(sql, []).expect("it is valid"), 1, "{sql}");
    (directory, factory)
}

#[test]
fn damaged_triggers_secrets_and_holds_are_refused() {
    for sql in [
        "update trigger set uid = x'00'",
        "update trigger set spec = '{'",
        "update trigger set spec = '{\"later\":1}'",
        "update secret set previous = null",
        "update secret set previous_until = null",
    ] {
        let (_directory, factory) = damaged_by(sql);
        let error = factory.open(ENVIRONMENT).map(drop).expect_err(sql);
        assert_eq!(error.kind, StoreErrorKind::Corrupt, "{sql}: {error}");
    }
    for hold in [-1, 3] {
        let (_directory, factory) = damaged_by(&format!("update delivery set hold = {hold}"));
        let mut owner = Owner::open(&factory);
        assert_fails(owner.reader.read(&[RowKey::Delivery(Sequence(1))]), StoreErrorKind::Corrupt);
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it is read");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("it is known").is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("it is copied");
        }
    }
}

#[test]
fn a_copy_of_the_whole_directory_is_a_restore_unless_a_restart_is_assumed() {
    let directory = new_directory();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let factory = open(&data);
    let mut owner = Owner::open(&factory);
    owner.send([delivery(1)]);
    owner.close();
    drop(factory);
    copy_all(&data, &copy);

    let mut owner = Owner::open(&open(&data));
    assert_eq!(owner.opened.lineage, Lineage::Restarted);
    owner.send([delivery(2)]);
    owner.close();
    fs::remove_dir_all(&data).expect("it is there");
    copy_all(&copy, &data);
    let owner = Owner::open(&open(&data));
    assert_eq!((owner.opened.lineage, owner.opened.commit.0), (Lineage::Restored, 1));
    drop(owner);

    let settings = SqliteSettings { assume_restart: true, ..settings() };
    let moved = SqliteFactory::open(&copy, settings).expect("the directory is free");
    assert_eq!(Owner::open(&moved).opened.lineage, Lineage::Restarted);
    drop(moved);
    assert_eq!(Owner::open(&open(&copy)).opened.lineage, Lineage::Restarted, "it is at home here now");
    drop(directory);
}

#[test]
fn a_copy_that_is_written_over_the_files_it_was_made_of_is_a_restore() {
    let directory = new_directory();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let factory = open(&data);
    let mut owner = Owner::open(&factory);
    owner.send([delivery(1)]);
    owner.close();
    drop(factory);
    copy_all(&data, &copy);

    let mut owner = Owner::open(&open(&data));
    owner.send([delivery(2)]);
    owner.close();
    copy_all(&copy, &data);
    let owner = Owner::open(&open(&data));
    assert_eq!((owner.opened.lineage, owner.opened.commit.0), (Lineage::Restored, 1));
}

#[test]
fn a_renamed_directory_is_a_restart() {
    let directory = new_directory();
    let factory = open(&directory.path().join("data"));
    Owner::open(&factory).send([delivery(1)]);
    drop(factory);
    fs::rename(directory.path().join("data"), directory.path().join("renamed")).expect("it is renamed");
    let owner = Owner::open(&open(&directory.path().join("renamed")));
    assert_eq!((owner.opened.lineage, owner.opened.commit.0), (Lineage::Restarted, 1));
}

#[test]
fn an_older_copy_written_over_the_directory_in_place_is_a_restore() {
    let directory = new_directory();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let factory = open(&data);
    let mut owner = Owner::open(&factory);
    owner.send([delivery(1)]);
    owner.close();
    drop(factory);
    copy_all(&data, &copy);
    // As if the copy had been made an hour ago.
    for (name, _) in files(&copy.join("lineage")) {
        let path = copy.join("lineage").join(name);
        let text = fs::read_to_string(&path).expect("it is there");
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let written: u64 = words[2].parse().expect("it is a time");
        words[2] = format!("{:020}", written - 3_600);
        fs::write(&path, words.join(" ")).expect("it is written");
    }

    let factory = open(&data);
    let mut owner = Owner::open(&factory);
    assert_eq!(owner.opened.lineage, Lineage::Restarted);
    owner.send([delivery(2)]);
    owner.close();
    drop(factory);
    copy_all(&copy, &data);
    let factory = open(&data);
    let owner = Owner::open(&factory);
    assert_eq!((owner.opened.lineage, owner.opened.commit.0), (Lineage::Restored, 1));
    owner.close();
    assert_eq!(Owner::open(&factory).opened.lineage, Lineage::Restarted, "the mark is its own again");
}

#[test]
fn a_file_that_was_lost_is_damage_and_not_a_new_environment() {
    let directory = new_directory();
    let factory = open(directory.path());
    let mut owner = Owner::open(&factory);
    owner.send([delivery(1)]);
    owner.close();
    let environments = directory.path().join("environments");
    for (name, _) in files(&environments) {
        fs::remove_file(environments.join(name)).expect("it is there");
    }
    assert_fails(factory.open(ENVIRONMENT).map(drop), StoreErrorKind::Corrupt);
    assert_eq!(files(&environments), []);
}

#[test]
fn a_catalogue_that_was_lost_is_damage_and_not_an_empty_directory() {
    for is_removed in [true, false] {
        let directory = new_directory();
        let catalogue = directory.path().join("catalogue.sqlite");
        let lose = || if is_removed { fs::remove_file(&catalogue) } else { fs::write(&catalogue, "") };
        drop(open(directory.path()));
        lose().expect("it is there");
        let factory = open(directory.path());
        Owner::open(&factory).close();
        drop(factory);
        lose().expect("it is there");
        for _ in 0..2 {
            let error = SqliteFactory::open(directory.path(), settings()).map(drop).expect_err("it is lost");
            assert_eq!(error.kind, StoreErrorKind::Corrupt);
            assert!(error.to_string().contains("catalogue.sqlite is missing or empty"), "{error}");
        }
    }
}

#[test]
fn a_file_that_is_something_else_is_damage() {
    for content in ["not a database, but long enough to be looked at as one ".repeat(50), String::new()] {
        let directory = new_directory();
        let factory = open(directory.path());
        Owner::open(&factory).close();
        let environments = directory.path().join("environments");
        let (name, _) = files(&environments).into_iter().next().expect("there is one");
        fs::write(environments.join(&name), &content).expect("it is written");
        let result = factory.open(ENVIRONMENT).map(drop);
        assert_fails(result, StoreErrorKind::Corrupt);
    }
}

#[test]
fn ten_thousand_known_environments_cost_nothing_until_they_are_opened() {
    let directory = new_directory();
    let settings = SqliteSettings { synchronous: Synchronous::Off, ..settings() };
    let open = || SqliteFactory::open(directory.path(), settings.clone()).expect("the directory is free");
    let factory = open();
    for number in 0..10_000 {
        assert!(
            factory.create_environment(&format!("orgs/o/projects/p/envs/{number}")).expect("there is room")
        );
        factory.set_next_due(&format!("orgs/o/projects/p/envs/{number}"), Some(number)).expect("it is known");
    }
    drop(factory);
    let start = std::time::Instant::now();
    let factory = open();
    assert_eq!(factory.due_environments(2, 9).expect("it is read").len(), 3);
    let mut owners: Vec<Owner> = (0..256)
        .map(|number| Owner::open_named(&factory, &format!("orgs/o/projects/p/envs/{number}")))
        .collect();
    for owner in &mut owners {
        owner.send([delivery(1)]);
    }
    assert_eq!(factory.due_environments(300, 9).expect("it is read").len(), 9);
    // Measured: under half a second. The bound only tells a search from a walk.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(files(&directory.path().join("lineage")).len(), 256);
}
