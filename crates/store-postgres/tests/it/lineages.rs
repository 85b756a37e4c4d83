//! What a database is taken for that is found elsewhere, or at another time (design-holes A3, A4): each case, on clusters.

use millpond_store::{Lineage, StoreErrorKind, StoreFactory as _};
use millpond_store_conformance::rows::Owner;
use millpond_store_postgres::{PostgresFactory, PostgresSettings};
use millpond_test_postgres::Cluster;

use crate::factory;
use crate::failures::{DATABASE, ENVIRONMENT, cluster, commit, sql, until_reached, wait_for};

const OTHER: &str = "orgs/default/projects/default/envs/other";

/// What a new process takes an environment for.
fn found(url: &str) -> Lineage {
    let factory = factory(url);
    lineage(&factory, ENVIRONMENT)
}

fn lineage(factory: &PostgresFactory, environment: &str) -> Lineage {
    until_reached(|| factory.open(environment)).expect("it opens").1.lineage
}

/// When the server that was there last was seen.
fn seen(cluster: &Cluster, when: &str) {
    sql(cluster, &format!("update millpond.server set seen_at = clock_timestamp() + interval '{when}'"));
}

#[test]
fn what_was_copied_is_told_from_what_only_stopped() {
    let mut cluster = cluster();
    let url = cluster.url(DATABASE);
    assert_eq!(found(&url), Lineage::New);
    assert_eq!(found(&url), Lineage::Restarted, "another process");
    cluster.stop().expect("it runs");
    cluster.run().expect("it can be started");
    assert_eq!(found(&url), Lineage::Restarted, "a database that was stopped");
    cluster.kill().expect("it runs");
    cluster.run().expect("it can be started");
    assert_eq!(found(&url), Lineage::Restarted, "a database that crashed");
    // The number of a database is one of those that are not copied with it.
    sql(&cluster, "create database cloned template postgres");
    assert_eq!(found(&cluster.url("cloned")), Lineage::Restored, "a database that was cloned");
    assert_eq!(found(&cluster.url("cloned")), Lineage::Restarted, "once it is known");
    cluster.load_dump(DATABASE, &cluster, "loaded").expect("it is loaded");
    assert_eq!(found(&cluster.url("loaded")), Lineage::Restored, "a dump that was loaded");
    let elsewhere = self::cluster();
    cluster.load_dump(DATABASE, &elsewhere, "loaded").expect("it is loaded");
    let assumed = PostgresSettings { assume_restart: true, ..PostgresSettings::default() };
    let loaded = PostgresFactory::open(&elsewhere.url("loaded"), assumed).expect("it is reachable");
    assert_eq!(lineage(&loaded, ENVIRONMENT), Lineage::Restarted, "whoever says so knows better");
    drop(loaded);
    sql(&elsewhere, "drop database loaded");
    cluster.load_dump(DATABASE, &elsewhere, "loaded").expect("it is loaded");
    assert_eq!(found(&elsewhere.url("loaded")), Lineage::Restored, "a dump that was loaded elsewhere");
    assert_eq!(found(&url), Lineage::Restarted, "and nothing of it has changed the first one");
}

#[test]
fn a_timeline_that_rose_is_a_failover_if_a_server_was_there_within_a_minute() {
    let mut cluster = cluster();
    let url = cluster.url(DATABASE);
    assert_eq!(found(&url), Lineage::New);
    cluster.raise_timeline().expect("it runs");
    seen(&cluster, "-59 seconds");
    assert_eq!(found(&url), Lineage::Restarted, "seen a moment before");
    assert_eq!(found(&url), Lineage::Restarted);
    cluster.raise_timeline().expect("it runs");
    seen(&cluster, "-61 seconds");
    let assumed = PostgresSettings { assume_restart: true, ..PostgresSettings::default() };
    let sure = PostgresFactory::open(&url, assumed).expect("it is reachable");
    assert_eq!(lineage(&sure, ENVIRONMENT), Lineage::Restarted, "whoever says so knows better");
    drop(sure);
    cluster.raise_timeline().expect("it runs");
    seen(&cluster, "-61 seconds");
    assert_eq!(found(&url), Lineage::Restored, "nobody was there for a minute");
    assert_eq!(found(&url), Lineage::Restarted, "once it is known");
}

/// What a server has not opened yet it cannot know by what it saw; that it was there itself a moment ago counts.
#[test]
fn a_server_that_lives_through_a_failover_takes_all_for_what_it_was() {
    let mut cluster = cluster();
    let url = cluster.url(DATABASE);
    drop(Owner::open_named(&factory(&url), OTHER));
    // It was started after a long time without any.
    seen(&cluster, "-1 hour");
    let factory = factory(&url);
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    cluster.raise_timeline().expect("it runs");
    while !commit(&mut owner).expect("a failover is nothing to speak of") {}
    assert_eq!(lineage(&factory, ENVIRONMENT), Lineage::Restarted, "which it remembers");
    assert_eq!(lineage(&factory, OTHER), Lineage::Restarted, "which it does not");
}

/// The owner's number rises anew from where the database went back to: it must not be taken for the one that is lost.
#[test]
fn a_database_that_went_back_once_is_not_taken_for_one_that_does_so_each_time() {
    let mut cluster = cluster();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let copy = directory.path().join("copy");
    let factory = factory(&cluster.url(DATABASE));
    assert_eq!(lineage(&factory, ENVIRONMENT), Lineage::New);
    cluster.stop().expect("it runs");
    cluster.copy_of_data(&copy).expect("it is copied");
    cluster.run().expect("it can be started");
    for _ in 0..5 {
        assert_eq!(lineage(&factory, ENVIRONMENT), Lineage::Restarted);
    }
    cluster.stop().expect("it runs");
    cluster.restore_data(&copy).expect("it is a copy");
    cluster.run().expect("it can be started");
    assert_eq!(lineage(&factory, ENVIRONMENT), Lineage::Restored);
    assert_eq!(lineage(&factory, ENVIRONMENT), Lineage::Restarted);
    // Its place notices at its next renewal, and has the owner opened anew once more.
    while let Err(error) = commit(&mut Owner::open_named(&factory, ENVIRONMENT)) {
        assert_eq!(error.kind, StoreErrorKind::Fenced, "{error}");
    }
    assert_eq!(lineage(&factory, ENVIRONMENT), Lineage::Restarted);
}

#[test]
fn a_server_that_finds_an_older_database_holds_its_place_anew() {
    let mut cluster = cluster();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let copy = directory.path().join("copy");
    let factory = factory(&cluster.url(DATABASE));
    let first = factory.hold().expect("it was just taken");
    cluster.stop().expect("it runs");
    cluster.copy_of_data(&copy).expect("it is copied");
    cluster.run().expect("it can be started");
    // It was there since.
    wait_for(&cluster, "(select seen_at > pg_postmaster_start_time() from millpond.server)");
    cluster.stop().expect("it runs");
    cluster.restore_data(&copy).expect("it is a copy");
    cluster.run().expect("it can be started");
    let held = loop {
        match factory.hold() {
            Some(hold) if hold != first => break hold,
            _ => std::thread::yield_now(),
        }
    };
    assert_eq!(held, first + 1, "what was opened before is of the past");
}
