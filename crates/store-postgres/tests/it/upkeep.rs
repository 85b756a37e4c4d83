//! Tables are kept in shape while the server works.

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::{ChangeSet, DeliveryChange};
use millpond_store_conformance::rows::{Owner, delivery, environment, insert};
use millpond_store_postgres::{PostgresFactory, PostgresSettings};
use millpond_test_postgres::Cluster;

use crate::failures::{DATABASE, ENVIRONMENT, sql};

const ROWS: u64 = 500;

/// Messages that come with one commit and are gone with the next.
fn pass(owner: &mut Owner) {
    let first = owner.commit * ROWS + 1;
    let mut sent = ChangeSet::default();
    let mut gone = ChangeSet::default();
    for sequence in first..first + ROWS {
        insert(&mut sent, delivery(sequence));
        gone.deliveries.push(DeliveryChange::Remove(Sequence(sequence)));
    }
    for mut changes in [sent, gone] {
        owner.commit += 1;
        changes.commit = CommitSequence(owner.commit);
        changes.environment = environment(owner.commit);
        owner.store.commit(&changes).expect("the database works");
    }
}

fn vacuums(cluster: &Cluster) -> Vec<Vec<Option<String>>> {
    let text = "select relname from pg_stat_user_tables where vacuum_count > 0 and schemaname = 'millpond' order by 1";
    sql(cluster, text)
}

#[test]
fn what_messages_leave_behind_is_vacuumed_without_the_databases_own_vacuum() {
    let cluster = Cluster::start_with(&[("autovacuum", "off")]).expect("PostgreSQL is installed");
    let settings = PostgresSettings { vacuum_after: 1_000, ..PostgresSettings::default() };
    let factory = PostgresFactory::open(&cluster.url(DATABASE), settings).expect("it is reachable");
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    while vacuums(&cluster) != [[Some("delivery".to_owned())], [Some("message".to_owned())]] {
        pass(&mut owner);
    }
}
