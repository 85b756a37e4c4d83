//! Backups of environments that are open, and restores of them, over SQLite.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millpond_core::ChangeSet;
use millpond_core::id::{CommitSequence, Incarnation};
use millpond_core::row::EnvironmentRow;
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;
use millpond_engine::EngineError;
use millpond_engine::clock::Clock as _;
use millpond_store::{MemoryDisk, RowKind, Snapshots as _, StoreFactory as _, StoredRow};
use millpond_store_sqlite::{SqliteBackup, SqliteFactory, SqliteSettings, SqliteSnapshots};

use crate::support::{ENVIRONMENT, World, send};

fn sqlite(directory: &Path) -> Arc<SqliteFactory> {
    let settings = SqliteSettings {
        reserve_bytes: 0,
        space_low_bytes: 0,
        space_low_permille: 0,
        ..SqliteSettings::default()
    };
    Arc::new(SqliteFactory::open(directory, settings).expect("nobody has it"))
}

/// Data of all messages in a backup.
fn texts(backup: &Path) -> Vec<String> {
    let snapshots = SqliteSnapshots::open(backup).expect("it is a backup");
    let mut snapshot = snapshots.snapshot(ENVIRONMENT).expect("it is in it");
    let mut texts = Vec::new();
    loop {
        let page = snapshot.next_page().expect("it is read");
        if page.is_empty() {
            return texts;
        }
        texts.extend(page.into_iter().filter_map(|row| match row {
            StoredRow::Delivery(_, Some(message)) => {
                Some(String::from_utf8(message.content.data.held().to_vec()).expect("text"))
            }
            _ => None,
        }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_ends_and_holds_what_was_answered_before_it_began() {
    let directory = tempfile::tempdir().expect("a directory");
    let world = Arc::new(World::over(sqlite(&directory.path().join("data"))).await);
    world.create("mail", QueueSpec::default()).await;
    let filler = "x".repeat(8_000);
    for number in 0..1_000 {
        world.send("mail", &format!("{number} {filler}")).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let load = (0..8).map(|_| {
        let (world, over) = (Arc::clone(&world), Arc::clone(&over));
        tokio::spawn(async move {
            let mut sent = 0;
            while !over.load(Ordering::Acquire) {
                world.send("mail", "meanwhile").await;
                sent += 1;
            }
            sent
        })
    });
    let load: Vec<_> = load.collect();
    let (to, mut told) = (directory.path().join("backup"), Vec::new());
    let made = world.engine.back_up(&to, &[], &mut |progress| told.push(progress)).await.expect("it is made");
    over.store(true, Ordering::Release);
    let mut sent = 0;
    for task in load {
        sent += task.await.expect("it ends");
    }
    assert!(told.len() > 5 && sent > 0, "{} steps, {sent} sent meanwhile", told.len());
    assert_eq!(told.last().map(|last| (last.done, last.total, last.copy.pages_left)), Some((0, 1, 0)));
    let texts = texts(&to);
    assert_eq!(made[0].counts.of(RowKind::Delivery), texts.len() as u64);
    for number in 0..1_000 {
        assert!(texts.iter().any(|text| text.starts_with(&format!("{number} "))), "{number}");
    }
    assert!(!to.with_extension("part").exists());
    world.send("mail", "afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_makes_no_copies_says_so_and_an_environment_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let to = directory.path().join("backup");
    let world = World::over(Arc::new(MemoryDisk::new())).await;
    let refused = world.engine.back_up(&to, &[], &mut |_| {}).await.expect_err("it cannot");
    assert!(
        matches!(&refused, EngineError::Unavailable(why) if why.contains("makes no copies")),
        "{refused}"
    );

    let world = World::over(sqlite(&directory.path().join("data"))).await;
    let none = "orgs/o/projects/p/envs/none".to_owned();
    let refused = world
        .engine
        .back_up(&to, std::slice::from_ref(&none), &mut |_| {})
        .await
        .expect_err("it is not there");
    assert_eq!(refused, EngineError::EnvironmentNotFound(none));
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is read").count(), 1, "nothing is left");
    world.engine.back_up(&to, &[], &mut |_| {}).await.expect("it is made");
    let refused = world.engine.back_up(&to, &[], &mut |_| {}).await.expect_err("it is there");
    assert!(
        matches!(&refused, EngineError::Unavailable(why) if why.contains("is there already")),
        "{refused}"
    );
}

/// Copy, a lease that the copy knows nothing of, restore with clocks that stand behind it.
async fn restored_after(after: Option<Timestamp>) -> (bool, bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, to) = (directory.path().join("data"), directory.path().join("backup"));
    let factory = sqlite(&data);
    let world = World::over(factory.clone()).await;
    world.create("mail", QueueSpec::default()).await;
    world.send("mail", "one").await;
    world.engine.back_up(&to, &[], &mut |_| {}).await.expect("it is made");
    world.engine.shut_down().await;

    // The lost future: a server whose clock stands ahead gives a lease.
    world.pass(Duration::from_secs(3_600));
    let world = World::on(Arc::clone(&world.clock), factory.clone()).await;
    let lost = world.lease("mail", 0).await[0].0.lease();
    world.engine.shut_down().await;

    let backup = SqliteBackup::open(&to).expect("it is a backup");
    let after = after.map(Incarnation::by_clock).unwrap_or_default();
    factory.restore(&backup, &[ENVIRONMENT.to_owned()], after, |_| {}).expect("it is restored");
    let world = World::over(factory).await;
    let next = world.lease("mail", 0).await[0].0.lease();
    let is_above = next.generation > lost.generation;
    (is_above, is_above && !world.ack("mail", lost).await && world.ack("mail", next).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_restored_copy_are_above_those_of_a_future_whose_end_is_told() {
    let hour_ahead = crate::support::ManualClock::default().read().wall_millis + 3_601_000;
    assert_eq!(restored_after(None).await, (false, false), "the clock alone cannot know");
    assert_eq!(restored_after(Some(Timestamp::from_millis(hour_ahead))).await, (true, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_import_has_not_finished_is_not_served() {
    let disk = Arc::new(MemoryDisk::new());
    let (mut store, opened) = disk.open(ENVIRONMENT).expect("it opens");
    let environment = EnvironmentRow { incarnation: Incarnation::IMPORTING, ..opened.environment };
    let changes = ChangeSet { commit: CommitSequence(1), environment, ..ChangeSet::default() };
    store.commit(&changes).expect("it is committed");
    drop(store);
    let world = World::over(disk).await;
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "x")).await.expect_err("it is refused");
    assert!(matches!(&refused, EngineError::Corrupt(why) if why.contains("import")), "{refused}");
}
