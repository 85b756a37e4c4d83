//! The store behind a real PgBouncer.

use std::time::Duration;

use millpond_store::StoreErrorKind;
use millpond_store_conformance::rows::Owner;
use millpond_store_postgres::{PostgresFactory, PostgresSettings};
use millpond_test_postgres::{Bouncer, Cluster, Loss, Relay};

use crate::factory;
use crate::failures::{DATABASE, ENVIRONMENT, cluster, commit};

fn bouncer(cluster: &Cluster, settings: &[(&str, &str)]) -> Bouncer {
    Bouncer::to(cluster.port(), settings).expect("PgBouncer is installed")
}

fn refusal(bouncer: &Bouncer) -> String {
    let opened = PostgresFactory::open(
        &bouncer.url(DATABASE),
        PostgresSettings { connect_timeout: Duration::from_secs(2), ..PostgresSettings::default() },
    );
    let error = opened.map(drop).expect_err("it is refused");
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    format!("{error}")
}

#[test]
fn a_store_behind_a_pooler_in_session_mode_goes_on_after_the_pooler_was_killed() {
    let cluster = cluster();
    let mut bouncer = bouncer(&cluster, &[]);
    let factory = factory(&bouncer.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    bouncer.kill().expect("it runs");
    bouncer.run().expect("it can be started");
    while !commit(&mut owner).expect("the pooler is back") {}
    assert!(owner.delivery(owner.commit).is_some());
}

#[test]
fn a_pooler_that_shares_connections_between_transactions_is_refused() {
    let cluster = cluster();
    for settings in
        [&[("pool_mode", "transaction")][..], &[("pool_mode", "transaction"), ("server_round_robin", "1")]]
    {
        let said = refusal(&bouncer(&cluster, settings));
        assert!(said.contains("pool_mode = session"), "{said}");
    }
    let said = refusal(&bouncer(&cluster, &[("pool_mode", "transaction"), ("default_pool_size", "1")]));
    assert!(said.contains("pool_mode = session"), "{said}");
}

#[test]
fn a_pooler_with_room_for_one_connection_is_refused() {
    let cluster = cluster();
    let said = refusal(&bouncer(&cluster, &[("default_pool_size", "1")]));
    assert!(said.contains("pool_size"), "{said}");
}

#[test]
fn a_commit_whose_answer_the_pooler_lost_is_not_taken_for_refused() {
    let cluster = cluster();
    let relay = Relay::to(cluster.port()).expect("a port is free");
    let bouncer = Bouncer::to(relay.port(), &[]).expect("PgBouncer is installed");
    let factory = factory(&bouncer.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    relay.lose(Loss::NextCommitted);
    assert!(commit(&mut owner).expect("what became of it is asked"), "it has happened");
    assert_eq!(relay.lost(), 1);
    assert!(owner.delivery(owner.commit).is_some());
}
