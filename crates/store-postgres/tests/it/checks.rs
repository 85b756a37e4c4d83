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

/// Rights in a dump are those of names, whatever numbers roles have in the cluster that it is loaded into.
#[test]
fn access_in_a_dump_is_that_of_the_same_roles_elsewhere() {
    let (cluster, factory) = world();
    let _owners = [DEFAULT, ENVIRONMENT].map(|name| owner_of(&factory, name, "q", Role::Queue));
    let sql = |text: &str| cluster.sql("postgres", text).expect(text);
    sql("create role first; create role second; create role gone");
    sql(&format!(
        "select millpond.grant_access('gone'), millpond.grant_access('first', '{ENVIRONMENT}'), millpond.grant_access('second')"
    ));
    sql("drop owned by gone; drop role gone; select millpond.grant_access('second')");
    let elsewhere = Cluster::start().expect("PostgreSQL is installed");
    elsewhere
        .sql("postgres", "create role second; create role first; create role third")
        .expect("they are made");
    cluster.load_dump("postgres", &elsewhere, "loaded").expect("it is loaded");
    for (role, names) in [("first", vec![ENVIRONMENT]), ("second", vec![DEFAULT]), ("third", vec![])] {
        let sql = format!(
            "grant usage on schema millpond to {role}; grant execute on all functions in schema millpond to {role}; \
             set role {role}; select millpond.allowed_environments()"
        );
        let found = elsewhere.sql("loaded", &sql).expect("it can be asked");
        let number = |name: &str| {
            let sql = format!("select number from millpond.environment where name = '{name}'");
            elsewhere.sql("loaded", &sql).expect("it is there").concat()
        };
        assert_eq!(found, names.iter().map(|name| number(name)).collect::<Vec<_>>(), "{role}");
    }
}

/// Who reads a view runs what it calls: nobody may put anything of their own in between, although they may create in a schema
/// that is on the reader's search path.
#[test]
fn nobodys_functions_and_operators_are_run_by_who_reads_a_view() {
    let (cluster, factory) = world();
    let mut owner = owner_of(&factory, DEFAULT, "q", Role::Queue);
    owner.commit(|changes| insert(changes, delivery(1)));
    let mut session = postgres::Client::connect(&cluster.url("postgres"), postgres::NoTls).expect("it runs");
    session
        .batch_execute("create role evil; grant create on schema public to evil; set role evil")
        .expect("it is made");
    let mut replaced = 0;
    let types = ["smallint", "integer", "bigint", "numeric", "double precision", "text", "bytea", "name"];
    for one in types {
        for name in ["to_timestamp", "length"] {
            let body = format!("returns {one} language plpgsql as $$ begin raise 'replaced'; end $$");
            let made = session.batch_execute(&format!("create function public.{name}(a {one}) {body}"));
            replaced += u32::from(made.is_ok());
        }
        for other in types {
            let body = "returns text language plpgsql as $$ begin raise 'replaced'; end $$";
            session
                .batch_execute(&format!("create function public.made(a {one}, b {other}) {body}"))
                .expect("it is made");
            for name in ["convert_from", "decode", "\"position\"", "substr"] {
                session
                    .batch_execute(&format!("create function public.{name}(a {one}, b {other}) {body}"))
                    .expect("it is made");
            }
            for operator in ["/", "+", "-", "*", "&", "|", "<<", ">>", "||", "=", "<>"] {
                let sql = format!(
                    "create operator public.{operator} (leftarg = {one}, rightarg = {other}, function = public.made)"
                );
                session.batch_execute(&sql).expect("it is made");
                replaced += 1;
            }
        }
    }
    assert!(replaced > 700, "{replaced}");
    session.batch_execute("reset role; set search_path = public").expect("it is set");
    // It is on the path, and would be taken.
    let taken = session.batch_execute("select 1::smallint + 'a'::text").expect_err("that is replaced");
    assert!(taken.as_db_error().is_some_and(|error| error.message() == "replaced"), "{taken:?}");
    for view in ["queues", "messages", "deliveries", "dead_letters", "stats", "refused"] {
        let rows = session.query(&format!("select * from millpond.{view}"), &[]).expect(view);
        let has_some = ["queues", "messages", "deliveries"].contains(&view);
        assert_eq!(!rows.is_empty(), has_some, "{view}");
    }
}

/// By the rules of the calls over HTTP: one such value would make a whole answer unreadable.
#[test]
fn json_that_not_every_parser_takes_is_refused() {
    let (cluster, factory) = world();
    let mut owner = owner_of(&factory, DEFAULT, "q", Role::Queue);
    let mut client = postgres::Client::connect(&cluster.url("postgres"), postgres::NoTls).expect("it runs");
    let nested =
        |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let object = |depth: usize| format!("{}1{}", "{\"a\": ".repeat(depth), "}".repeat(depth));
    let good = [nested("[", "]", 60), object(60), format!("[{}]", "[],".repeat(200) + "1"), "9".repeat(308)];
    let bad = [
        (nested("[", "]", 61), "data is nested more than 60 deep"),
        (object(61), "data is nested more than 60 deep"),
        (nested("[", "]", 3_000), "data is nested more than 60 deep"),
        ("9".repeat(309), "data has a number beyond the range of a 64-bit float"),
        (
            format!("[[{{\"a\": -1e400}}, \"{}\"]]", "1".repeat(400)),
            "data has a number beyond the range of a 64-bit float",
        ),
    ];
    let sends = [
        "select millpond.send('q', $1::text::jsonb)",
        "select millpond.send('q', $1::text::jsonb, '{\"type\": \"t\"}')",
        "select * from millpond.send_batch('q', array['1', $1::text::jsonb])",
    ];
    for send in sends {
        for (data, said) in &bad {
            let refused = client.execute(send, &[data]).expect_err("no parser takes it");
            let refused = refused.as_db_error().expect("the database says so");
            assert_eq!((refused.code().code(), refused.message()), ("22023", *said), "{send}: {data}");
        }
        assert!(taken(&mut owner, 9).is_empty(), "nothing is stored");
        for data in good.iter().chain([&format!("\"{}\"", "1".repeat(400))]) {
            client.execute(send, &[data]).expect(data);
        }
        assert!(taken(&mut owner, 99).len() >= good.len());
    }
}
