//! What SQL may do, and what comes of it in the intake.

use millpond_core::external::{ExternalAction, ExternalCommand};
use millpond_core::id::{MessageId, Sequence};
use millpond_core::time::Timestamp;
use millpond_store::{StoreFactory as _, StoreReader};
use millpond_store_conformance::rows::{Owner, queue};
use millpond_test_postgres::Cluster;

use crate::factory;

fn reader(owner: &mut Owner) -> &mut dyn StoreReader {
    owner.reader.as_mut()
}

#[test]
fn message_ids_are_the_same_in_sql() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let _factory = factory(&cluster.url("postgres"));
    for (time, sequence, nonce) in [
        (0, 0, 0),
        (1_796_092_514_759, 1 << 47, 68_719_476_735),
        ((1 << 44) - 1, (1 << 48) - 1, 1),
        (7, 8, 9),
    ] {
        let id = MessageId { sent_at: Timestamp::from_millis(time), sequence: Sequence(sequence), nonce };
        let sql = format!("select millpond.message_id({time}, {sequence}, {nonce})");
        assert_eq!(cluster.sql("postgres", &sql).expect("it is a function"), [[Some(id.to_string())]]);
        let sql = format!("select * from millpond.read_message_id('{id}')");
        let parts = [time.to_string(), sequence.to_string(), nonce.to_string()].map(Some);
        assert_eq!(cluster.sql("postgres", &sql).expect("it is a function"), [parts]);
    }
    for text in ["", "msg_", "msg_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "msg_0000000000000000000000000I"] {
        let sql = format!("select millpond.read_message_id('{text}')");
        let refused = cluster.sql("postgres", &sql).expect_err(text);
        assert!(format!("{refused:#}").contains("is not a message id"), "{refused:#}");
    }
}

#[test]
fn nothing_is_compiled_or_parsed_for_each_message() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let _factory = factory(&cluster.url("postgres"));
    let named = |which: &str| {
        let sql = format!(
            "select proname from pg_proc p join pg_language l on l.oid = p.prolang \
             where pronamespace = 'millpond'::regnamespace and {which} order by 1"
        );
        let rows = cluster.sql("postgres", &sql).expect("catalogs are there");
        rows.into_iter().flatten().flatten().collect::<Vec<_>>()
    };
    // A scan that is made to look dear is compiled, for 9 ms.
    let compiled = "proconfig @> '{enable_seqscan=off}' and not proconfig @> '{jit=off}'";
    assert_eq!(named(compiled), [""; 0]);
    // Settings of their own keep functions in SQL from being inlined; this one is for views.
    let parsed = "lanname = 'sql' and (proconfig is not null or prosecdef)";
    assert_eq!(named(parsed), ["allowed_environments"]);
    let inherits = "proname = 'send_batch' and proconfig @> '{jit=off}'";
    assert_eq!(named(inherits), ["send_batch"]);
}

/// What SQL sent to a queue, as commands of the intake; taken out of it.
pub(crate) fn taken(owner: &mut Owner, limit: usize) -> Vec<ExternalCommand> {
    let page = reader(owner).external(limit).expect("reads work");
    let ids: Vec<_> = page.commands.iter().map(|external| external.id).collect();
    if !ids.is_empty() {
        owner.commit(|changes| changes.external_taken = ids);
    }
    page.commands.into_iter().map(|external| external.command).collect()
}

pub(crate) const DEFAULT: &str = "orgs/default/projects/default/envs/default";

#[test]
fn a_message_sent_by_sql_is_in_the_intake_as_it_was_sent() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let factory = factory(&cluster.url("postgres"));
    let mut owner = Owner::open_named(&factory, DEFAULT);
    owner.commit(|changes| {
        changes.queues_put.push(millpond_core::row::QueueRow { name: "emails".into(), ..queue(1) })
    });
    let sql = |text: &str| cluster.sql("postgres", text);
    let id = sql("select millpond.send('emails', '{\"to\": \"a@b.c\"}')").expect("it is sent");
    let options = "'{\"delay\": \"1 minute\", \"priority\": -3, \"type\": \"t\", \"subject\": \"s\\\"\", \"id\": \"i\", \
                   \"source\": \"/a\", \"time_to_live\": 3600.5, \"idempotency_key\": \"k\"}'";
    sql(&format!("select millpond.send('emails', '7', {options})")).expect("it is sent");
    sql("begin; select millpond.send('emails', '1'); rollback").expect("it is undone");
    let sent = taken(&mut owner, 10);
    assert_eq!(sent.len(), 2, "{sent:?}");
    let ExternalCommand::Send(first) = &sent[0] else { panic!("{sent:?}") };
    assert_eq!(Some(first.message.to_string()), id[0][0]);
    assert!(first.message.sequence.is_external());
    assert_eq!(first.content.content.data.held(), br#"{"to": "a@b.c"}"#);
    let attributes = format!(
        r#"{{"id":"{0}","source":"sql","type":"message","datacontenttype":"application/json"}}"#,
        first.message
    );
    assert_eq!(*first.content.content.attributes, *attributes);
    let ExternalCommand::Send(second) = &sent[1] else { panic!("{sent:?}") };
    let attributes =
        r#"{"id":"i","source":"/a","type":"t","subject":"s\"","datacontenttype":"application/json"}"#;
    assert_eq!(*second.content.content.attributes, *attributes);
    assert_eq!(second.content.delay, Some(std::time::Duration::from_secs(60)));
    assert_eq!(second.content.time_to_live, Some(std::time::Duration::from_millis(3_600_500)));
    assert_eq!((second.content.priority, second.key.as_deref()), (-3, Some("k")));
    assert!(taken(&mut owner, 10).is_empty(), "taken once");
}

#[test]
fn what_is_wrong_with_a_call_is_said_and_nothing_is_stored() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let factory = factory(&cluster.url("postgres"));
    let mut owner = Owner::open_named(&factory, DEFAULT);
    owner.commit(|changes| {
        changes.queues_put.push(millpond_core::row::QueueRow { name: "emails".into(), ..queue(1) });
    });
    for (call, expected) in [
        ("send('nowhere', '1')", "there is no queue 'nowhere'"),
        ("send('emails', '1', '{\"dely\": 1}')", "there is no option 'dely'"),
        ("send('emails', '1', '[]')", "options have to be a JSON object"),
        ("send('emails', '1', '{\"delay\": -1}')", "option delay is -1: it has to be 0 to 604800 seconds"),
        ("send('emails', '1', '{\"delay\": \"soon\"}')", "option delay is \"soon\""),
        ("send('emails', '1', '{\"time_to_live\": 0.5}')", "option time_to_live is 0.5"),
        ("send('emails', '1', '{\"idempotency_key\": \"\"}')", "option idempotency_key has 0 bytes"),
        ("send('emails', '1', '{\"partition\": \"p\"}')", "option partition goes with a topic"),
        (
            "send('emails', '1', '{\"environment\": \"orgs/a/projects/b/envs/c\"}')",
            "there is no environment orgs/a",
        ),
        ("send('emails', to_jsonb(repeat('x', 262143)))", "data has 262145 bytes"),
        ("send_batch('emails', array['1', '2']::jsonb[], '{\"idempotency_key\": \"k\"}')", "for"),
        ("complete('msg_', 1)", "is not a message id"),
        ("complete('msg_', 1, null, '{\"retry_after\": 1}')", "there is no option 'retry_after'"),
        (
            "complete('msg_00000000000000000000000000', 1)",
            "lease 1 of msg_00000000000000000000000000 is not held",
        ),
        ("extend('msg_00000000000000000000000000', 1, '1 minute')", "is not held any more"),
        ("extend('msg_00000000000000000000000000', 1, '0.5 seconds')", "it has to be 1 second to 12 hours"),
        ("cancel('nowhere', 'msg_00000000000000000000000000')", "there is no queue 'nowhere'"),
        ("allow_sql_settle('nowhere')", "there is no queue 'nowhere'"),
    ] {
        let refused =
            cluster.sql("postgres", &format!("select millpond.{call}")).map(|rows| format!("{rows:?}"));
        let refused = format!("{:#}", refused.expect_err(call));
        assert!(
            refused.contains(expected) || expected == "for" && refused.contains("one message"),
            "{call}: {refused}"
        );
    }
    assert!(taken(&mut owner, 10).is_empty());
}

#[test]
fn transactions_stay_together_and_one_that_committed_before_another_began_comes_first() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let factory = factory(&url);
    let mut owner = Owner::open_named(&factory, DEFAULT);
    owner.commit(|changes| {
        changes.queues_put.push(millpond_core::row::QueueRow { name: "q".into(), ..queue(1) });
    });
    let connect = || postgres::Client::connect(&url, postgres::NoTls).expect("the server runs");
    let (mut one, mut other) = (connect(), connect());
    let send = |transaction: &mut postgres::Transaction<'_>, data: &str| {
        transaction.batch_execute(&format!("select millpond.send('q', '{data}')")).expect("it is sent");
    };
    let mut late = one.transaction().expect("it begins");
    send(&mut late, "1");
    let mut early = other.transaction().expect("it begins");
    send(&mut early, "2");
    send(&mut late, "3");
    send(&mut early, "4");
    early.commit().expect("it commits");
    let data = |commands: &[ExternalCommand]| {
        let data = commands.iter().map(|command| match command {
            ExternalCommand::Send(send) => {
                String::from_utf8_lossy(send.content.content.data.held()).into_owned()
            }
            other => panic!("{other:?}"),
        });
        data.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(data(&taken(&mut owner, 1)), "2 4", "a transaction comes whole");
    let mut later = other.transaction().expect("it begins");
    send(&mut later, "5");
    later.commit().expect("it commits");
    send(&mut late, "6");
    late.commit().expect("it commits");
    assert_eq!(data(&taken(&mut owner, 10)), "1 3 6 5");
    assert!(taken(&mut owner, 10).is_empty());
}

#[test]
fn a_role_does_what_it_was_granted_and_sees_its_environments_only() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let factory = factory(&cluster.url("postgres"));
    let mut owner = Owner::open_named(&factory, DEFAULT);
    let mut other = Owner::open_named(&factory, "orgs/o/projects/p/envs/e");
    for owner in [&mut owner, &mut other] {
        owner.commit(|changes| {
            changes.queues_put.push(millpond_core::row::QueueRow { name: "q".into(), ..queue(1) });
            changes.counters.push(millpond_store_conformance::rows::counters(1, 1));
        });
    }
    let sql = |text: &str| cluster.sql("postgres", text);
    sql("create role app; create role app_user in role app; create role stranger").expect("roles are made");
    let refused = |call: &str| format!("{:#}", sql(call).map(|rows| format!("{rows:?}")).expect_err(call));
    assert!(refused("set role app_user; select millpond.send('q', '1')").contains("permission denied"));
    sql("select millpond.grant_access('app')").expect("the owner may");
    sql("set role app_user; select millpond.send('q', '1')").expect("it was granted");
    let elsewhere = "set role app_user; select millpond.send('q', '1', '{\"environment\": \"orgs/o/projects/p/envs/e\"}')";
    assert!(refused(elsewhere).contains("may not use environment"));
    let unknown = "set role app_user; select millpond.send('q', '1', '{\"environment\": \"orgs/x/projects/p/envs/e\"}')";
    assert!(refused(unknown).contains("may not use environment"), "whether it exists is not told");
    assert!(
        refused("set role app_user; select millpond.grant_access('app_user')").contains("permission denied")
    );
    assert!(refused("set role app_user; delete from millpond.intake").contains("permission denied"));
    assert!(refused("set role app_user; select * from millpond.delivery").contains("permission denied"));
    assert!(refused("set role stranger; select * from millpond.queues").contains("permission denied"));
    let seen =
        |role: &str| sql(&format!("set role {role}; select environment from millpond.queues order by 1"));
    assert_eq!(seen("app_user").expect("it was granted"), [[Some(DEFAULT.to_owned())]]);
    assert_eq!(seen("none").expect("it owns the schema").len(), 2);
    for view in ["queues", "stats", "deliveries", "messages", "dead_letters", "refused"] {
        sql(&format!("set role app_user; select * from millpond.{view}")).expect(view);
    }
    sql("select millpond.revoke_access('app')").expect("the owner may");
    assert!(refused("set role app_user; select millpond.send('q', '1')").contains("may not use environment"));
    assert_eq!(taken(&mut owner, 9).len(), 1);
    assert!(taken(&mut other, 9).is_empty());
}

#[test]
fn an_intake_that_waits_is_told_of_at_once_and_what_comes_later_too() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let factory = factory(&url);
    let mut owner = Owner::open_named(&factory, DEFAULT);
    owner.commit(|changes| {
        changes.queues_put.push(millpond_core::row::QueueRow { name: "q".into(), ..queue(1) });
    });
    cluster.sql("postgres", "select millpond.send('q', '1')").expect("it is sent");
    let (woken, wakes) = std::sync::mpsc::channel();
    factory.watch(std::sync::Arc::new(move |name: &str| {
        // The test may be over.
        let _: Result<(), _> = woken.send(name.to_owned());
    }));
    let patience = std::time::Duration::from_secs(20);
    assert_eq!(wakes.recv_timeout(patience).as_deref(), Ok(DEFAULT));
    assert_eq!(taken(&mut owner, 9).len(), 1);
    let mut client = postgres::Client::connect(&url, postgres::NoTls).expect("the server runs");
    let mut late = client.transaction().expect("it begins");
    late.batch_execute("select millpond.send('q', '2')").expect("it is sent");
    for number in 3..200 {
        cluster.sql("postgres", &format!("select millpond.send('q', '{number}')")).expect("it is sent");
        while taken(&mut owner, 9).is_empty() {
            wakes.recv_timeout(patience).expect("it is told");
        }
    }
    while wakes.try_recv().is_ok() {}
    late.commit().expect("it commits");
    while taken(&mut owner, 9).is_empty() {
        wakes.recv_timeout(patience).expect("one that commits late is told of");
    }
}

#[test]
fn whoever_inserts_the_key_of_a_lease_first_ends_it() {
    use millpond_core::{Claim, LeaseKey, RowKey};
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    let factory = factory(&url);
    let mut owner = Owner::open_named(&factory, DEFAULT);
    let far = Timestamp::from_millis(4_000_000_000_000);
    let leased = |sequence: u64| millpond_core::row::DeliveryRow {
        queue: millpond_core::id::QueueNumber(1),
        state: millpond_core::row::DeliveryState::Leased,
        due_at: far,
        lease_generation: millpond_core::id::LeaseGeneration(9 << 20),
        ..millpond_store_conformance::rows::delivery(sequence)
    };
    owner.commit(|changes| {
        let row = millpond_core::row::QueueRow {
            name: "q".into(),
            settled_by_sql: true,
            deleted: false,
            ..queue(1)
        };
        changes.queues_put.push(row);
    });
    owner.send((1..=4).map(leased));
    let id = |sequence| leased(sequence).message_id();
    let key = |sequence| LeaseKey {
        delivery: Sequence(sequence),
        generation: millpond_core::id::LeaseGeneration(9 << 20),
    };
    let claim = |owner: &mut Owner, sequences: &[u64]| -> Vec<Claim> {
        let keys: Vec<_> = sequences.iter().map(|sequence| RowKey::Claim(key(*sequence))).collect();
        let rows = reader(owner).read(&keys).expect("reads work");
        rows.claims.into_iter().map(|(_, claim)| claim).collect()
    };
    let mut client = postgres::Client::connect(&url, postgres::NoTls).expect("the server runs");
    let complete = |sequence| format!("select millpond.complete('{}', {})", id(sequence), 9 << 20);
    let mut open = client.transaction().expect("it begins");
    open.batch_execute(&complete(1)).expect("it is held");
    assert_eq!(claim(&mut owner, &[2, 1, 3]), [Claim::Free, Claim::Held, Claim::Free]);
    open.commit().expect("it commits");
    assert_eq!(claim(&mut owner, &[1, 2]), [Claim::Settled, Claim::Free]);
    for (sequence, why) in [(1, "settled"), (2, "the owner has it")] {
        let refused = cluster.sql("postgres", &complete(sequence)).expect_err(why);
        assert!(format!("{refused:#}").contains("is not held any more"), "{refused:#}");
    }
    let mut undone = client.transaction().expect("it begins");
    undone.batch_execute(&complete(4)).expect("it is held");
    undone.rollback().expect("it is undone");
    assert_eq!(claim(&mut owner, &[4]), [Claim::Free]);
    let commands = taken(&mut owner, 9);
    let [ExternalCommand::Settle(settle)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!((settle.lease.message, settle.lease.delivery), (id(1), Sequence(1)));
    assert_eq!(settle.action, ExternalAction::Complete { output: None });
}
