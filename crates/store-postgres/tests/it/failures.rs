//! What becomes of an owner when its database, its connections or its place are gone.

use std::sync::atomic::{AtomicBool, Ordering};

use millpond_core::id::LeaseGeneration;
use millpond_core::{ChangeSet, id::CommitSequence};
use millpond_store::{Lineage, Resolution, StoreError, StoreErrorKind, StoreFactory as _};
use millpond_store_conformance::rows::{Owner, assert_fails, delivery, environment, insert};
use millpond_store_postgres::{PostgresFactory, PostgresSettings};
use millpond_test_postgres::Cluster;

use crate::factory;

pub(crate) const ENVIRONMENT: &str = "orgs/default/projects/default/envs/default";
pub(crate) const DATABASE: &str = "postgres";

pub(crate) fn cluster() -> Cluster {
    Cluster::start().expect("PostgreSQL is installed")
}

pub(crate) fn sql(cluster: &Cluster, text: &str) -> Vec<Vec<Option<String>>> {
    cluster.sql(DATABASE, text).expect("the server runs")
}

/// Asks until the database says so.
pub(crate) fn wait_for(cluster: &Cluster, condition: &str) {
    while sql(cluster, &format!("select {condition}")) != [[Some("t".to_owned())]] {}
}

/// Tries again while the database, or the server's place in it, is not there.
pub(crate) fn until_reached<T>(mut work: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    loop {
        match work() {
            Err(error) if error.kind == StoreErrorKind::Unavailable => {}
            result => return result,
        }
    }
}

/// A change set that sends one message.
fn sending(commit: u64) -> ChangeSet {
    let mut changes = ChangeSet {
        commit: CommitSequence(commit),
        environment: environment(commit),
        ..ChangeSet::default()
    };
    insert(&mut changes, delivery(commit));
    changes
}

/// Commits, and finds out what became of it if that is not known; whether it happened.
pub(crate) fn commit(owner: &mut Owner) -> Result<bool, StoreError> {
    let changes = sending(owner.commit + 1);
    let result = until_reached(|| owner.store.commit(&changes));
    let happened = match result {
        Err(error) if error.kind == StoreErrorKind::Unknown => {
            until_reached(|| owner.store.resolve(changes.commit))? == Resolution::Happened
        }
        result => result.map(|()| true)?,
    };
    // A number that was claimed is used up.
    owner.commit += 1;
    Ok(happened)
}

#[test]
fn a_copy_that_is_put_back_under_an_owner_fences_it_and_opens_as_restored() {
    let mut cluster = cluster();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let copy = directory.path().join("copy");
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    cluster.stop().expect("it runs");
    cluster.copy_of_data(&copy).expect("it is copied");
    cluster.run().expect("it can be started");
    while !commit(&mut owner).expect("a restart is nothing to speak of") {}
    let last = owner.commit;
    assert!(owner.delivery(last).is_some());

    cluster.stop().expect("it runs");
    cluster.restore_data(&copy).expect("it is a copy");
    cluster.run().expect("it can be started");
    assert_fails(commit(&mut owner), StoreErrorKind::Fenced);
    drop(owner);
    let (_store, opened) = until_reached(|| factory.open(ENVIRONMENT)).expect("it opens");
    assert_eq!(opened.lineage, Lineage::Restored);
    assert_eq!(opened.commit, CommitSequence(1), "the copy's");
    assert_eq!(opened.environment.leases_void_below, LeaseGeneration::HIGHEST);
}

#[test]
fn another_server_is_refused_while_the_first_lives_and_takes_over_when_it_is_gone() {
    let cluster = cluster();
    let url = cluster.url(DATABASE);
    drop(factory(&url));
    let elsewhere = "insert into millpond.server values \
                     (gen_random_uuid(), 'elsewhere process 7', 'elsewhere 7 7', now(), clock_timestamp())";
    sql(&cluster, elsewhere);
    let renew = "update millpond.server set seen_at = clock_timestamp() where process = 'elsewhere 7 7'";
    let is_over = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                sql(&cluster, renew);
            }
        });
        let refused = PostgresFactory::open(&url, PostgresSettings::default());
        is_over.store(true, Ordering::SeqCst);
        refused.expect_err("the other one lives")
    });
    assert_eq!(refused.kind, StoreErrorKind::Unavailable);
    assert!(
        refused.to_string().contains("another server, elsewhere process 7, serves this schema"),
        "{refused}"
    );

    sql(&cluster, renew);
    sql(&cluster, "update millpond.server set seen_at = seen_at - interval '5 seconds'");
    let taken = factory(&url);
    assert!(taken.hold().is_some());
    let others = "select count(*) from millpond.server where process = 'elsewhere 7 7'";
    assert_eq!(sql(&cluster, others), [[Some("0".to_owned())]]);
    // Nor does the first one get its place back while this one lives.
    assert!(sql(&cluster, &format!("{renew} returning 1")).is_empty());
}

#[test]
fn a_schema_of_a_later_version_and_a_database_that_is_read_only_are_refused() {
    let cluster = cluster();
    let url = cluster.url(DATABASE);
    drop(factory(&url));
    let refused = |kind: StoreErrorKind, text: &str| {
        let refused = PostgresFactory::open(&url, PostgresSettings::default()).expect_err(text);
        assert_eq!(refused.kind, kind, "{refused}");
        assert!(refused.to_string().contains(text), "{refused}");
    };
    sql(&cluster, "insert into millpond.migration (number, name) values (9999, 'later')");
    let later = "the schema millpond was brought to step 9999 by a later version of Millpond";
    refused(StoreErrorKind::Corrupt, later);
    sql(&cluster, "delete from millpond.migration where number = 9999");
    sql(&cluster, "alter database postgres set default_transaction_read_only = on");
    refused(StoreErrorKind::Unavailable, "the database is read-only");
    let reset = "alter database postgres reset default_transaction_read_only";
    cluster.sql("template1", reset).expect("nothing is read-only there");
    drop(factory(&url));
}

const OF_THE_STORE: &str = "from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' \
                            and datname = 'postgres'";

#[test]
fn connections_that_are_lost_between_commits_cost_nothing() {
    let cluster = cluster();
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    for _ in 0..20 {
        let number = owner.commit + 1;
        sql(&cluster, &format!("select pg_terminate_backend(pid, 5000) {OF_THE_STORE}"));
        let happened = commit(&mut owner).expect("it is known what became of it");
        assert_eq!(owner.delivery(number).is_some(), happened, "{number}");
    }
    assert!(commit(&mut owner).expect("it works"), "with a connection that nobody cut");
}

#[test]
fn a_connection_that_is_lost_before_a_commit_happens_loses_the_commit() {
    let cluster = cluster();
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    let mut client = postgres::Client::connect(&cluster.url(DATABASE), postgres::NoTls).expect("it runs");
    let mut open = client.transaction().expect("it begins");
    open.batch_execute("select from millpond.head for update").expect("it is locked");
    let changes = sending(owner.commit + 1);
    let waits = "(select count(*) = 1 from pg_locks where not granted)";
    let resolution = std::thread::scope(|scope| {
        let store = &mut owner.store;
        let resolved = scope.spawn(|| {
            assert_fails(store.commit(&changes), StoreErrorKind::Unknown);
            // Nothing else is written before it is known.
            assert_fails(store.commit(&changes), StoreErrorKind::Unavailable);
            store.resolve(changes.commit)
        });
        wait_for(&cluster, waits);
        sql(&cluster, "select pg_terminate_backend(pid, 5000) from pg_locks where not granted");
        // Now the question waits for the lock.
        wait_for(&cluster, waits);
        open.rollback().expect("it is over");
        resolved.join().expect("it ends")
    });
    assert_eq!(resolution.expect("it is told"), Resolution::Lost);
    owner.commit += 1;
    assert!(owner.delivery(owner.commit).is_none(), "and it never comes");
    assert!(commit(&mut owner).expect("it works"));
}

#[test]
fn a_connection_that_is_lost_behind_a_commit_has_not_lost_it() {
    let cluster = cluster();
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    // A standby that never answers: the commit is done here, and its answer waits.
    sql(&cluster, "alter system set synchronous_standby_names = 'nobody'");
    sql(&cluster, "select pg_reload_conf()");
    wait_for(&cluster, "current_setting('synchronous_standby_names') = 'nobody'");
    let changes = sending(owner.commit + 1);
    let resolution = std::thread::scope(|scope| {
        let store = &mut owner.store;
        let resolved = scope.spawn(|| {
            assert_fails(store.commit(&changes), StoreErrorKind::Unknown);
            until_reached(|| store.resolve(changes.commit))
        });
        let waits = "from pg_stat_activity where wait_event = 'SyncRep' and query = 'commit'";
        wait_for(&cluster, &format!("(select count(*) = 1 {waits})"));
        sql(&cluster, "alter system reset synchronous_standby_names");
        sql(&cluster, &format!("select pg_terminate_backend(pid, 5000) {waits}"));
        sql(&cluster, "select pg_reload_conf()");
        resolved.join().expect("it ends")
    });
    assert_eq!(resolution.expect("it is told"), Resolution::Happened);
    owner.commit += 1;
    assert!(owner.delivery(owner.commit).is_some());
    assert!(commit(&mut owner).expect("it works"));
}

/// What the primary has may be lost with it: that it is there is not enough to say so (design-holes B9).
#[test]
fn a_commit_that_no_standby_has_is_not_known_to_have_happened() {
    let cluster = cluster();
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    sql(&cluster, "alter system set synchronous_standby_names = 'nobody'");
    sql(&cluster, "select pg_reload_conf()");
    wait_for(&cluster, "current_setting('synchronous_standby_names') = 'nobody'");
    let changes = sending(owner.commit + 1);
    let give_up = |query: &str| {
        let waits = format!("from pg_stat_activity where wait_event = 'SyncRep' and query like '{query}'");
        wait_for(&cluster, &format!("(select count(*) = 1 {waits})"));
        sql(&cluster, &format!("select pg_cancel_backend(pid) {waits}"));
    };
    std::thread::scope(|scope| {
        let store = &mut owner.store;
        let asked = scope.spawn(|| {
            assert_fails(store.commit(&changes), StoreErrorKind::Unknown);
            store.resolve(changes.commit)
        });
        give_up("commit");
        give_up("update head set epoch%");
        assert_fails(asked.join().expect("it ends"), StoreErrorKind::Unknown);
    });
    drop(owner);
    sql(&cluster, "alter system reset synchronous_standby_names");
    sql(&cluster, "select pg_reload_conf()");
    let mut owner =
        until_reached(|| factory.open(ENVIRONMENT)).map(|_| Owner::open_named(&factory, ENVIRONMENT));
    assert!(
        owner.as_mut().expect("it opens").delivery(changes.commit.0).is_some(),
        "it was there all the time"
    );
}

/// The question itself may take the number, and its answer be lost: then nobody can tell any more who took it.
#[test]
fn a_question_whose_answer_is_lost_is_not_taken_for_the_commit() {
    let cluster = cluster();
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    let mut client = postgres::Client::connect(&cluster.url(DATABASE), postgres::NoTls).expect("it runs");
    let mut open = client.transaction().expect("it begins");
    open.batch_execute("select from millpond.head for update").expect("it is locked");
    let changes = sending(owner.commit + 1);
    let waits = "(select count(*) = 1 from pg_locks where not granted)";
    std::thread::scope(|scope| {
        let store = &mut owner.store;
        let resolved = scope.spawn(|| {
            assert_fails(store.commit(&changes), StoreErrorKind::Unknown);
            assert_fails(store.resolve(changes.commit), StoreErrorKind::Unavailable);
            until_reached(|| store.resolve(changes.commit))
        });
        wait_for(&cluster, waits);
        sql(&cluster, "select pg_terminate_backend(pid, 5000) from pg_locks where not granted");
        wait_for(&cluster, waits);
        // The question gets its number, and waits for a standby that never answers.
        sql(&cluster, "alter system set synchronous_standby_names = 'nobody'");
        sql(&cluster, "select pg_reload_conf()");
        wait_for(&cluster, "current_setting('synchronous_standby_names') = 'nobody'");
        open.rollback().expect("it is over");
        let asks = "from pg_stat_activity where wait_event = 'SyncRep' and query like '%commit_seq = $3%'";
        wait_for(&cluster, &format!("(select count(*) = 1 {asks})"));
        sql(&cluster, "alter system reset synchronous_standby_names");
        sql(&cluster, &format!("select pg_terminate_backend(pid, 5000) {asks}"));
        sql(&cluster, "select pg_reload_conf()");
        assert_fails(resolved.join().expect("it ends"), StoreErrorKind::Unknown);
    });
    drop(owner);
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(owner.delivery(changes.commit.0).is_none(), "the commit was lost");
}

/// A row that is old in a database that just came back may be renewed as lately as a moment ago, where the database was before.
#[test]
fn a_place_in_a_database_that_was_started_just_now_is_not_free_at_once() {
    let mut cluster = cluster();
    let url = cluster.url(DATABASE);
    drop(factory(&url));
    let elsewhere = "insert into millpond.server values (gen_random_uuid(), 'elsewhere process 7', 'elsewhere 7 7', \
                     now(), now() - interval '1 hour')";
    sql(&cluster, elsewhere);
    cluster.stop().expect("it runs");
    cluster.run().expect("it can be started");
    let taken = factory(&url);
    assert!(taken.hold().is_some());
    let waited = "select started_at - pg_postmaster_start_time() > interval '5 seconds' from millpond.server";
    assert_eq!(sql(&cluster, waited), [[Some("t".to_owned())]]);
}
