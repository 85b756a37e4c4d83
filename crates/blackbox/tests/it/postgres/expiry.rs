//! The end of a lease and the commit of who completes it, in both orders: exactly one of them counts.

use millpond_blackbox::client::{Client, Counts};
use millpond_blackbox::server::Server;

use super::{LONG, QUEUE, World, complete, number, send, state, take};

/// What a handler writes, beside its message.
const EFFECTS: &str = "select count(*) from effect";

fn with_effects() -> (World, Server, postgres::Client) {
    let (world, server) = World::with_queue();
    let mut session = world.session();
    session.batch_execute("create table effect (message text)").expect("it is made");
    (world, server, session)
}

fn write(transaction: &mut postgres::Transaction<'_>, message: &str) {
    transaction.execute("insert into effect values ($1)", &[&message]).expect("it is written");
}

/// All that was committed is taken in.
fn settle_down(session: &mut postgres::Client, client: &mut Client) {
    session.execute(&format!("select millpond.send('{QUEUE}', '1')"), &[]).expect("it is sent");
    let mark = take(client, LONG);
    assert_eq!(mark.event["data"], 1, "nothing else is there");
    assert!(client.ack(QUEUE, &[mark.lease]).expect("an answer").is_empty());
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
}

#[test]
fn a_lease_that_ran_out_is_not_completed_whether_or_not_another_worker_has_it() {
    for taken in [false, true] {
        let (world, server, mut session) = with_effects();
        let mut client = server.client();
        send(&mut client, "one");
        let first = take(&mut client, 1);
        let mut open = session.transaction().expect("it begins");
        write(&mut open, &first.lease.message_id);
        let second = match taken {
            true => Some(take(&mut client, LONG)),
            false => {
                client.pass(2);
                None
            }
        };
        let refused = complete(&mut open, &first).expect_err("it is over");
        assert_eq!(state(&refused), "MP010", "{refused:?}");
        assert!(open.commit().is_ok(), "a commit of what failed rolls it back");
        assert_eq!(number(&mut session, EFFECTS), 0, "the writes are undone");

        let second = second.unwrap_or_else(|| take(&mut client, LONG));
        assert_eq!(second.lease.message_id, first.lease.message_id);
        let mut other = world.session();
        let mut open = other.transaction().expect("it begins");
        write(&mut open, &second.lease.message_id);
        complete(&mut open, &second).expect("it is held");
        open.commit().expect("it commits");
        assert_eq!(number(&mut session, EFFECTS), 1);
        settle_down(&mut session, &mut client);
    }
}

#[test]
fn who_completes_before_the_end_and_commits_behind_it_has_completed() {
    let (_world, server, mut session) = with_effects();
    let mut client = server.client();
    send(&mut client, "one");
    let held = take(&mut client, 1);
    let mut open = session.transaction().expect("it begins");
    write(&mut open, &held.lease.message_id);
    complete(&mut open, &held).expect("it is held");
    client.pass(2);
    assert!(client.lease_one(QUEUE, LONG, 0).is_none(), "nobody else gets it");
    open.commit().expect("it commits");
    settle_down(&mut session, &mut client);
    assert_eq!(number(&mut session, EFFECTS), 1);
}

#[test]
fn a_lease_is_completed_by_one_transaction_only() {
    let (world, server, mut session) = with_effects();
    let mut client = server.client();
    send(&mut client, "one");
    let held = take(&mut client, LONG);
    let mut open = session.transaction().expect("it begins");
    write(&mut open, &held.lease.message_id);
    complete(&mut open, &held).expect("it is held");
    let mut other = world.session();
    let mut second = other.transaction().expect("it begins");
    write(&mut second, &held.lease.message_id);
    second.batch_execute("set local lock_timeout = '50ms'").expect("it is set");
    let waited = complete(&mut second, &held).expect_err("the first has it");
    assert_eq!(state(&waited), "55P03", "{waited:?}");
    drop(second);
    open.commit().expect("it commits");
    let mut second = other.transaction().expect("it begins");
    write(&mut second, &held.lease.message_id);
    let refused = complete(&mut second, &held).expect_err("it is completed");
    assert_eq!(state(&refused), "MP010", "{refused:?}");
    drop(second);
    settle_down(&mut session, &mut client);
    assert_eq!(number(&mut session, EFFECTS), 1);
}
