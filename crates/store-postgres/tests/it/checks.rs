//! What SQL may write: any text, within bounds, by roles that may.

use millpond_core::external::ExternalCommand;
use millpond_core::row::{QueueRow, Role};
use millpond_store_conformance::rows::{ENVIRONMENT, Owner, delivery, insert, queue};
use millpond_store_postgres::PostgresFactory;
use millpond_test_postgres::Cluster;

use crate::factory;
use crate::sql::{DEFAULT, taken};

fn world() -> (Cluster, PostgresFactory) {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let factory = factory(&cluster.url("postgres"));
    (cluster, factory)
}

/// The owner of an environment that has this queue, or topic.
fn owner_of(factory: &PostgresFactory, environment: &str, name: &str, role: Role) -> Owner {
    let mut owner = Owner::open_named(factory, environment);
    owner.commit(|changes| changes.queues_put.push(QueueRow { name: name.into(), role, ..queue(1) }));
    owner
}

/// U+10FFFF announces U+0000 in what the server stores; what SQL writes is taken as it is.
#[test]
fn any_text_that_sql_writes_is_taken_in() {
    const ODD: &str = "\u{10FFFF}";
    let (cluster, factory) = world();
    let mut owner = owner_of(&factory, DEFAULT, "topics/t", Role::Topic);
    let options = ["id", "subject", "source", "type", "idempotency_key", "partition"];
    for option in options {
        let send = format!("select millpond.send('topics/t', '1', '{{\"{option}\": \"{ODD}\"}}')");
        cluster.sql("postgres", &send).expect(option);
    }
    cluster
        .sql("postgres", &format!("select millpond.send('topics/t', '\"{ODD}0{ODD}\"')"))
        .expect("it is sent");
    let sent = taken(&mut owner, 99);
    assert_eq!(sent.len(), options.len() + 1, "{sent:?}");
    for (command, option) in sent.iter().zip(options) {
        let ExternalCommand::Send(send) = command else { panic!("{command:?}") };
        let attributes = &send.content.content.attributes;
        let found = match option {
            "idempotency_key" => send.key.as_deref() == Some(ODD),
            "partition" => send.partition.as_deref() == Some(ODD),
            _ => attributes.contains(&format!("\"{option}\":\"{ODD}\"")),
        };
        assert!(found, "{option}: {send:?}");
    }
}

/// What a role may write is bounded, and by the rules of the calls over HTTP (SQLSTATE 22023).
#[test]
fn options_that_cannot_be_are_refused_by_their_names() {
    let (cluster, factory) = world();
    let mut owner = owner_of(&factory, DEFAULT, "topics/t", Role::Topic);
    let mut client = postgres::Client::connect(&cluster.url("postgres"), postgres::NoTls).expect("it runs");
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
    let mut refused = |function: &str, option: &str, value: &str| {
        let sql = match function {
            "send_bytes" => {
                format!("select millpond.send_bytes('topics/t', '', '{{\"{option}\": {value}}}')")
            }
            "complete" => {
                let id = "msg_00000000000000000000000000";
                format!("select millpond.complete('{id}', 1, null, '{{\"{option}\": {value}}}')")
            }
            _ => format!("select millpond.send('topics/t', '1', '{{\"{option}\": {value}}}')"),
        };
        let error = client.batch_execute(&sql).expect_err(option);
        assert_eq!(
            error.code().map(postgres::error::SqlState::code),
            Some("22023"),
            "{option} {value}: {error:?}"
        );
        assert!(
            error.as_db_error().is_some_and(|error| error.message().contains(option)),
            "{option}: {error:?}"
        );
    };
    for option in ["id", "source", "type", "subject"] {
        refused("send", option, "\"\"");
        refused("send", option, &long(16_385));
    }
    for (option, values) in [
        ("visible_at", &["\"infinity\"", "\"nonsense\"", "\"200000-01-01\"", "true"][..]),
        ("priority", &["\"x\"", "1e20", "0.5", "\"NaN\""]),
        ("delay", &["\"x\"", "-1"]),
        ("partition", &["\"\"", &long(256)]),
        ("idempotency_key", &["\"\"", &long(256)]),
    ] {
        values.iter().for_each(|value| refused("send", option, value));
    }
    for value in ["\"\"", "\"a\\r\\nb\"", &long(257)] {
        refused("send_bytes", "content_type", value);
    }
    for value in ["\"x\"", "-1", "1e30"] {
        refused("complete", "delivery", value);
    }
    let null = client
        .batch_execute("select millpond.send('topics/t', '1', null)")
        .expect_err("options are an object");
    assert_eq!(null.code().map(postgres::error::SqlState::code), Some("22023"));
    assert!(taken(&mut owner, 9).is_empty(), "nothing is stored");
}

#[test]
fn a_text_with_a_zero_byte_keeps_no_view_from_being_read() {
    let (cluster, factory) = world();
    let mut owner = owner_of(&factory, DEFAULT, "q", Role::Queue);
    owner.commit(|changes| insert(changes, delivery(1)));
    let sql = |text: &str| cluster.sql("postgres", text).expect(text);
    sql("update millpond.message set data_kind = 2, data = '\\x610062', attributes = '{}'");
    let shown = sql("select data, data_bytes_raw from millpond.messages");
    assert_eq!(shown, [[None, Some("\\x610062".to_owned())]]);
    // Backslashes in what functions are made of would mean something else to who has this set.
    assert_eq!(sql("set standard_conforming_strings = off; select data from millpond.messages"), [[None]]);
}

/// A role that has another's name is another role.
#[test]
fn access_is_a_roles_and_not_a_names() {
    let (cluster, factory) = world();
    let _owners = [DEFAULT, ENVIRONMENT].map(|name| owner_of(&factory, name, "q", Role::Queue));
    let sql = |text: &str| cluster.sql("postgres", text);
    sql("create role app; create role renamed").expect("roles are made");
    sql(&format!("select millpond.grant_access('app', '{ENVIRONMENT}'), millpond.grant_access('renamed')"))
        .expect("the owner may");
    sql("alter role renamed rename to other_name").expect("it is renamed");
    sql("set role other_name; select millpond.send('q', '1')").expect("it is the same role");
    sql("drop owned by app; drop role app; create role app; select millpond.grant_access('app')")
        .expect("the owner may");
    sql("set role app; select millpond.send('q', '1')").expect("it was granted");
    let send =
        format!("set role app; select millpond.send('q', '1', '{{\"environment\": \"{ENVIRONMENT}\"}}')");
    let refused = sql(&send).expect_err("that was another role");
    assert!(format!("{refused:#}").contains("may not use environment"), "{refused:#}");
    sql("select millpond.revoke_access('other_name')").expect("the owner may");
    sql("set role other_name; select millpond.send('q', '1')").expect_err("it was taken away");
}
