//! Keys of leases that SQL may end: claimed by the owner, and removed when they are of no use any more.

use std::time::{Duration, Instant};

use millpond_core::id::{LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, QueueRow};
use millpond_core::time::Timestamp;
use millpond_core::{Claim, LeaseKey, RowKey};
use millpond_store::StoreFactory as _;
use millpond_store_conformance::rows::{Owner, delivery, queue};
use millpond_test_postgres::Cluster;

use crate::factory;

const DEFAULT: &str = "orgs/default/projects/default/envs/default";
const GENERATION: u64 = 9 << 20;
/// Leases that one transaction ends.
const HELD: u64 = 1_000;
/// Others that the owner wants to end.
const FREE: u64 = 40;
/// Far more than a call takes, and far less than waiting for each key that is held.
const ONE_CALL: Duration = Duration::from_secs(2);
/// Calls in which every key was come to, on any machine.
const CALLS_MOST: usize = 40;
/// What has to happen by itself has happened by then, on any machine; at a thousand keys each ten seconds it has not.
const LATEST: Duration = Duration::from_secs(60);

fn leased(sequence: u64) -> DeliveryRow {
    DeliveryRow {
        queue: QueueNumber(1),
        state: DeliveryState::Leased,
        due_at: Timestamp::from_millis(4_000_000_000_000),
        lease_generation: LeaseGeneration(GENERATION),
        nonce: sequence,
        ..delivery(sequence)
    }
}

fn owner(factory: &millpond_store_postgres::PostgresFactory) -> Owner {
    let mut owner = Owner::open_named(factory, DEFAULT);
    owner.commit(|changes| {
        let row = QueueRow { name: "q".into(), settled_by_sql: true, deleted: false, ..queue(1) };
        changes.queues_put.push(row);
    });
    owner
}

/// In one call.
fn claim(owner: &mut Owner, sequences: impl IntoIterator<Item = u64>) -> Vec<(u64, Claim)> {
    let key = |sequence| LeaseKey { delivery: Sequence(sequence), generation: LeaseGeneration(GENERATION) };
    let keys: Vec<_> = sequences.into_iter().map(|sequence| RowKey::Claim(key(sequence))).collect();
    let begun = Instant::now();
    let rows = owner.reader.read(&keys).expect("reads work");
    assert!(begun.elapsed() < ONE_CALL, "{:?} for {} keys", begun.elapsed(), keys.len());
    assert_eq!(rows.claims.len(), keys.len(), "each is answered");
    rows.claims.into_iter().map(|(key, claim)| (key.delivery.0, claim)).collect()
}

/// Claims again and again those that are said to be held, until so many are.
fn claim_until(owner: &mut Owner, sequences: impl IntoIterator<Item = u64>, left: u64) -> Vec<(u64, Claim)> {
    let mut known = Vec::new();
    let mut asked: Vec<u64> = sequences.into_iter().collect();
    for _ in 0..CALLS_MOST {
        let answers = claim(owner, asked.iter().copied());
        let (held, others): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(_, claim)| *claim == Claim::Held);
        known.extend(others);
        asked = held.into_iter().map(|(sequence, _)| sequence).collect();
        if asked.len() as u64 == left {
            known.sort_unstable_by_key(|(sequence, _)| *sequence);
            return known;
        }
    }
    panic!("{} are held after {CALLS_MOST} calls, in place of {left}", asked.len());
}

#[test]
fn a_claim_takes_a_bounded_time_however_many_leases_a_transaction_ends() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let factory = factory(&url);
    let mut owner = owner(&factory);
    owner.send((1..=HELD + 2 * FREE).map(leased));
    let mut client = postgres::Client::connect(&url, postgres::NoTls).expect("the server runs");
    let mut open = client.transaction().expect("it begins");
    for sequence in 1..=HELD {
        let sql = format!("select millpond.complete('{}', {GENERATION})", leased(sequence).message_id());
        open.batch_execute(&sql).expect("it is held");
    }

    let free = |from: u64| (from..from + FREE).map(|sequence| (sequence, Claim::Free)).collect::<Vec<_>>();
    let found = claim_until(&mut owner, 1..=HELD + FREE, HELD);
    assert_eq!(found, free(HELD + 1), "what is free is found among what is held");
    let found = claim_until(&mut owner, 1..=HELD, HELD);
    assert_eq!(found, []);
    // By now it is known which are held: they keep no other waiting.
    let answers = claim(&mut owner, 1..=HELD + 2 * FREE);
    let found: Vec<_> = answers.into_iter().filter(|(_, claim)| *claim != Claim::Held).collect();
    assert_eq!(found, [free(HELD + 1), free(HELD + 1 + FREE)].concat());

    open.commit().expect("it commits");
    let found = claim_until(&mut owner, 1..=HELD, 0);
    assert_eq!(found, (1..=HELD).map(|sequence| (sequence, Claim::Settled)).collect::<Vec<_>>());
}

#[test]
fn what_a_savepoint_undid_is_free_and_what_a_prepared_transaction_ended_is_held() {
    let cluster =
        Cluster::start_with(&[("max_prepared_transactions", "2")]).expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let factory = factory(&url);
    let mut owner = owner(&factory);
    owner.send((1..=3).map(leased));
    let mut client = postgres::Client::connect(&url, postgres::NoTls).expect("the server runs");
    let complete =
        |sequence| format!("select millpond.complete('{}', {GENERATION})", leased(sequence).message_id());
    let sql = format!("begin; {}; savepoint one; {}", complete(1), complete(2));
    client.batch_execute(&sql).expect("they are held");
    assert_eq!(claim(&mut owner, [1, 2]), [(1, Claim::Held), (2, Claim::Held)]);
    client.batch_execute("rollback to one").expect("it is open");
    assert_eq!(claim(&mut owner, [1, 2, 3]), [(1, Claim::Held), (2, Claim::Free), (3, Claim::Free)]);
    client.batch_execute("prepare transaction 'two'").expect("it is open");
    drop(client);
    assert_eq!(claim(&mut owner, [1]), [(1, Claim::Held)]);
    cluster.sql("postgres", "commit prepared 'two'").expect("it is prepared");
    assert_eq!(claim(&mut owner, [1]), [(1, Claim::Settled)]);
}

/// Waits until so many keys are left.
fn await_keys(cluster: &Cluster, left: &str) {
    let begun = Instant::now();
    loop {
        let rows = cluster.sql("postgres", "select count(*) from millpond.settlement").expect("it is there");
        if rows == [[Some(left.to_owned())]] {
            return;
        }
        assert!(begun.elapsed() < LATEST, "{rows:?} keys in place of {left} after {LATEST:?}");
    }
}

#[test]
fn keys_of_leases_that_ended_are_gone_soon_however_many_there_are() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let factory = factory(&cluster.url("postgres"));
    let mut owner = owner(&factory);
    owner.send([leased(1)]);
    assert_eq!(claim(&mut owner, [1]), [(1, Claim::Free)]);
    // Of these it is noted that they ended, of the others it is not.
    let fill = "insert into millpond.settlement select 1, n, 7, false, '3' from generate_series(1, 20000) n; \
                insert into millpond.settlement select 1, n, 8, true, null from generate_series(1, 2500) n";
    cluster.sql("postgres", fill).expect("they are written");
    factory.watch(std::sync::Arc::new(|_: &str| {}));
    await_keys(&cluster, "1");
    assert_eq!(claim(&mut owner, [1]), [(1, Claim::Free)], "it is still held");
}

#[test]
fn a_copy_in_another_cluster_does_not_keep_keys_for_ever() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let factory = factory(&cluster.url("postgres"));
    let mut first = owner(&factory);
    first.send([leased(1)]);
    drop(first);
    // Transactions of where it came from have numbers that are far ahead here.
    let copied = "insert into millpond.settlement values (1, 1, 7, false, '1000000000000'); \
                  update millpond.environment set system = 'another', database = 1";
    cluster.sql("postgres", copied).expect("it is written");
    drop(factory);
    let factory = crate::factory(&cluster.url("postgres"));
    let _second = Owner::open_named(&factory, DEFAULT);
    factory.watch(std::sync::Arc::new(|_: &str| {}));
    await_keys(&cluster, "0");
}
