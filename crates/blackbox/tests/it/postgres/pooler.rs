//! The server behind a real PgBouncer.

use millpond_blackbox::client::{Counts, event};
use millpond_blackbox::server::Launch;
use millpond_test_postgres::{Bouncer, Cluster};
use serde_json::json;

use super::outages::until_answered;
use super::{LONG, QUEUE, SCHEMA, World, complete, take};

#[test]
fn behind_a_pooler_in_session_mode_all_works_and_goes_on_after_it_was_killed() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let mut bouncer = Bouncer::to(cluster.port(), &[]).expect("PgBouncer is installed");
    let world = World { launch: Launch::on_database(&bouncer.url("postgres"), SCHEMA), cluster };
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    world.allow(&mut client);
    for key in ["first", "second"] {
        until_answered(|| client.send(QUEUE, &[event(key, "by HTTP")], Some(key)));
        let mut session =
            postgres::Client::connect(&bouncer.url("postgres"), postgres::NoTls).expect("it leads there");
        let mut open = session.transaction().expect("it begins");
        complete(&mut open, &take(&mut client, LONG)).expect("it is held");
        open.execute(&format!("select millpond.send('{QUEUE}', '\"by SQL\"')"), &[]).expect("it is sent");
        open.commit().expect("it commits");
        let sent = take(&mut client, LONG);
        assert_eq!(sent.event["data"], "by SQL");
        bouncer.kill().expect("it runs");
        bouncer.run().expect("it can be started again");
        assert!(until_answered(|| client.ack(QUEUE, std::slice::from_ref(&sent.lease))).len() <= 1);
        assert_eq!(until_answered(|| client.counts(QUEUE)), Counts::default());
    }
}

#[test]
fn behind_a_pooler_in_transaction_mode_the_server_does_not_start() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let bouncer =
        Bouncer::to(cluster.port(), &[("pool_mode", "transaction")]).expect("PgBouncer is installed");
    let refused = Launch::on_database(&bouncer.url("postgres"), SCHEMA).run();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("pool_mode = session"), "{said}");
}
