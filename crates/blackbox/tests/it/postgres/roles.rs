//! A role that was granted access sends and completes, and can do nothing else.

use super::{LONG, QUEUE, SCHEMA, World, send, state, take};

const DENIED: &str = "42501";

#[test]
fn a_role_sends_and_completes_and_touches_nothing_else() {
    let (world, server) = World::with_queue();
    let mut client = server.client();
    let mut owner = world.session();
    owner.batch_execute("create role app login").expect("it is made");
    let url = world.cluster.url("postgres").replace("postgres://postgres@", "postgres://app@");
    let mut app = postgres::Client::connect(&url, postgres::NoTls).expect("it may connect");
    let send_by_sql = format!("select millpond.send('{QUEUE}', '1')");
    assert_eq!(state(&app.batch_execute(&send_by_sql).expect_err("not yet")), DENIED);
    owner.batch_execute("select millpond.grant_access('app')").expect("the owner may");

    app.batch_execute(&send_by_sql).expect("it was granted");
    let sent = take(&mut client, LONG);
    assert_eq!(sent.event["data"], 1);
    let call = |verb: &str| {
        format!("select millpond.{verb}('{}', {})", sent.lease.message_id, sent.lease.generation)
    };
    app.batch_execute(&format!("begin; {}; rollback", call("fail"))).expect("it was granted");
    app.batch_execute(&call("complete")).expect("it was granted");
    send(&mut client, "next");
    assert_eq!(take(&mut client, LONG).event["data"], "next", "the first is completed");

    let mut tried = 0;
    let relations = "select c.relname, c.relkind = 'S' from pg_class c where c.relnamespace = $1::text::regnamespace \
                     and c.relkind in ('r', 'S') order by 1";
    for row in owner.query(relations, &[&SCHEMA]).expect("it can be asked") {
        let (name, is_sequence): (String, bool) = (row.get(0), row.get(1));
        let statements: &[&str] = match is_sequence {
            true => &["select nextval('millpond.@')", "select last_value from millpond.@"],
            false => &[
                "select * from millpond.@",
                "delete from millpond.@",
                "insert into millpond.@ default values",
                "truncate millpond.@",
            ],
        };
        for statement in statements {
            let statement = statement.replace('@', &name);
            let refused = app.batch_execute(&statement).expect_err(&statement);
            assert_eq!(state(&refused), DENIED, "{statement}: {refused:?}");
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried}: the tables are there");

    // Functions that were not granted by name: all but those.
    let others = "select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
                  where n.nspname = $1 and not has_function_privilege('app', p.oid, 'execute') order by 1";
    let others: Vec<String> =
        owner.query(others, &[&SCHEMA]).expect("it can be asked").iter().map(|row| row.get(0)).collect();
    for own in
        ["grant_access", "revoke_access", "put_message", "settle", "demand", "wake", "environment_number"]
    {
        assert!(others.iter().any(|name| name.contains(&format!(".{own}("))), "{own}: {others:?}");
    }
    for statement in [
        "select millpond.grant_access('app', 'orgs/other/projects/other/envs/other')",
        "create table millpond.own (number integer)",
        "drop table millpond.intake",
        "alter table millpond.intake disable trigger all",
        "update millpond.queues set queue = 'other'",
        "delete from millpond.messages",
        "drop schema millpond cascade",
    ] {
        let refused = app.batch_execute(statement).expect_err(statement);
        assert!(["42501", "55000"].contains(&state(&refused)), "{statement}: {refused:?}");
    }
}
