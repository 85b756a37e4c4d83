//! PostgreSQL as a source and as a target, while a server has the schema too.

use millpond_core::DeliveryChange;
use millpond_core::id::Sequence;
use millpond_core::row::QueueRow;
use millpond_moving::{MoveError, export};
use millpond_store::{Snapshots as _, StoreErrorKind, StoreFactory as _};
use millpond_store_conformance::rows::{Owner, delivery, insert, queue};
use millpond_store_postgres::{PostgresFactory, PostgresSettings, PostgresSnapshots};
use millpond_store_sqlite::{SqliteFactory, SqliteSnapshots};
use millpond_test_postgres::Cluster;

use crate::world::{NAME, ORIGIN, all, export_of, fill, import_of, memory, settings};

fn schema(name: &str) -> PostgresSettings {
    PostgresSettings { schema: name.to_owned(), ..PostgresSettings::default() }
}

#[test]
fn every_row_arrives_in_postgresql_and_comes_back() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    // Fewer than a page, and several of each large kind.
    for (seed, deliveries) in [(21, 0), (22, 90), (23, 2_700)] {
        let (one, two) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        let factory = SqliteFactory::open(one.path(), settings()).expect("it is made");
        fill(&factory, seed, deliveries);
        drop(factory);
        let source = SqliteSnapshots::open(one.path()).expect("nobody serves it");

        let name = format!("Moved \"{seed}\"");
        let factory = PostgresFactory::open(&url, schema(&name)).expect("it is made");
        import_of(&export_of(&source), &factory).expect("it is imported");
        // It is held by a server meanwhile.
        let there = PostgresSnapshots::open(&url, schema(&name)).expect("it is there");
        assert_eq!(there.environments().expect("names"), [NAME]);
        let (head, rows) = all(&there);
        assert_eq!(rows, all(&source).1, "seed {seed}");
        assert_eq!(head.counts, all(&source).0.counts, "seed {seed}");

        let factory = SqliteFactory::open(two.path(), settings()).expect("it is made");
        import_of(&export_of(&there), &factory).expect("it is imported");
        drop(factory);
        let back = SqliteSnapshots::open(two.path()).expect("nobody serves it");
        assert_eq!(all(&back).1, rows, "seed {seed}");
    }
}

#[test]
fn a_snapshot_of_a_schema_that_is_served_is_of_one_moment() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let factory = PostgresFactory::open(&url, schema("millpond")).expect("it is made");
    fill(&factory, 24, 1_500);
    let snapshots = PostgresSnapshots::open(&url, schema("millpond")).expect("it is there");
    let mut snapshot = snapshots.snapshot(NAME).expect("it is there");
    let mut rows = snapshot.next_page().expect("it is read");
    let mut owner = Owner::open_named(&factory, NAME);
    owner.commit(|changes| {
        changes.deliveries.extend((1..=1_500).map(|at| DeliveryChange::Remove(Sequence(10 * at))));
    });
    loop {
        let page = snapshot.next_page().expect("it is read");
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    assert_eq!(rows, all(&memory(24, 1_500)).1);
    let after = snapshots.snapshot(NAME).expect("it is there").head().counts;
    assert_eq!(after.of(millpond_store::RowKind::Delivery), 0);
}

#[test]
fn what_sql_sent_and_nobody_has_taken_in_is_not_left_behind() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let factory = PostgresFactory::open(&url, schema("millpond")).expect("it is made");
    let mut owner = Owner::open_named(&factory, NAME);
    owner.commit(|changes| changes.queues_put.push(QueueRow { name: "emails".into(), ..queue(1) }));
    let send = format!("select millpond.send('emails', '1', '{{\"environment\": \"{NAME}\"}}')");
    cluster.sql("postgres", &send).expect("it is sent");
    let snapshots = PostgresSnapshots::open(&url, schema("millpond")).expect("it is there");
    let refused = export(&snapshots, NAME, ORIGIN, &mut Vec::new(), &mut |_| {}).expect_err("one waits");
    let MoveError::Store(error) = refused else { panic!("{refused}") };
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(error.context.contains("1 of what SQL has sent to"), "{error}");
    let page = owner.reader.external(10).expect("it is read");
    owner.commit(|changes| changes.external_taken = vec![page.commands[0].id]);
    assert_eq!(export_of(&snapshots).iter().filter(|byte| **byte == b'\n').count(), 4);
}

/// What SQL sent into a part of an environment could have a number that the rest of it brings, or wait for ever for a server.
#[test]
fn sql_leaves_an_environment_alone_until_it_is_imported() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let source = memory(26, 0);
    let mut owner = Owner::open_named(&source, NAME);
    owner.commit(|changes| changes.queues_put.push(QueueRow { name: "emails".into(), ..queue(1) }));
    owner.commit(|changes| (1..=1_500).for_each(|sequence| insert(changes, delivery(10 * sequence))));
    owner.close();
    let file = export_of(&source);
    let factory = PostgresFactory::open(&url, schema("millpond")).expect("it is made");
    import_of(&file[..file.len() / 2], &factory).expect_err("it is half of it");
    let options = format!("{{\"environment\": \"{NAME}\"}}");
    let sends = [
        format!("set millpond.environment = '{NAME}'; select millpond.send('emails', '1')"),
        format!("select millpond.send('emails', '1', '{options}')"),
        format!("select * from millpond.send_batch('emails', array['1', '2']::jsonb[], '{options}')"),
    ];
    for send in &sends {
        let refused = cluster.sql("postgres", send).expect_err("it is half there");
        assert!(format!("{refused:#}").contains(&format!("{NAME} is being imported")), "{refused:#}");
    }
    import_of(&file, &factory).expect("it goes on");
    for send in &sends {
        cluster.sql("postgres", send).expect("it is there");
    }
    let mut owner = Owner::open_named(&factory, NAME);
    assert_eq!(owner.reader.external(10).expect("it is read").commands.len(), 4);
    owner.commit(|_| {});
    cluster.sql("postgres", &sends[0]).expect("it is there");
}

#[test]
fn sql_draws_no_sequence_again_that_was_imported() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let source = memory(25, 0);
    let mut owner = Owner::open_named(&source, NAME);
    let sequence = Sequence::FIRST_EXTERNAL.0 + 77;
    owner.commit(|changes| insert(changes, delivery(sequence)));
    owner.close();
    let factory = PostgresFactory::open(&url, schema("millpond")).expect("it is made");
    import_of(&export_of(&source), &factory).expect("it is imported");
    let drawn = cluster.sql("postgres", "select nextval('millpond.external_sequence')").expect("a number");
    let drawn: u64 = drawn[0][0].as_ref().expect("it is one").parse().expect("it is one");
    assert!(drawn > sequence, "{drawn}");
}

#[test]
fn a_place_that_is_not_there_is_told_apart_from_one_that_is_empty() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let missing = PostgresSnapshots::open(&url, schema("nothing")).expect_err("nobody made it");
    assert_eq!(missing.context, "the database has no schema nothing of Millpond");
    let factory = PostgresFactory::open(&url, schema("millpond")).expect("it is made");
    factory.create_environment(NAME).expect("it is made");
    let snapshots = PostgresSnapshots::open(&url, schema("millpond")).expect("it is there");
    let (head, rows) = all(&snapshots);
    assert_eq!((head, rows.len()), (millpond_store::SnapshotHead::default(), 0));
    let Err(other) = snapshots.snapshot("orgs/a/projects/b/envs/c") else { panic!("there is none") };
    assert_eq!(other.context, "there is no environment orgs/a/projects/b/envs/c");
    cluster.sql("postgres", "insert into millpond.migration values (1000, 'later')").expect("it is there");
    let later = PostgresSnapshots::open(&url, schema("millpond")).expect_err("it is not known");
    assert_eq!(later.kind, StoreErrorKind::Corrupt);
}
