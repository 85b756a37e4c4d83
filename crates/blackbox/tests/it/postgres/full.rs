//! A database without room: what needs room is refused, nothing that was answered is lost, and with room all goes on by itself.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use millpond_blackbox::client::{CallError, Called, Client, Counts, event};
use millpond_test_postgres::{Cluster, Part};
use serde_json::{Value, json};

use super::ledger::assert_will_pass;
use super::outages::drain;
use super::{LONG, QUEUE, World, take, until};

const ROOM_MIB: u32 = 120;
/// What is removed when there is to be room.
const JUNK_BYTES: usize = 32 << 20;
const EVENT_BYTES: usize = 50_000;
const EVENTS_PER_CALL: usize = 10;
/// More than the room.
const CALLS_MAX: usize = 2 * (ROOM_MIB as usize) * 1_000_000 / EVENT_BYTES / EVENTS_PER_CALL;

#[test]
fn sends_are_refused_while_the_tables_have_no_room_and_taken_again_when_they_have() {
    let cluster = Cluster::start_in_room(Part::Data, ROOM_MIB, &[]).expect("PostgreSQL is installed");
    let world = World::on(cluster);
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    super::send(&mut client, "held");
    let held = take(&mut client, LONG).lease;
    let junk = world.cluster.in_room("junk").expect("it has room");
    std::fs::write(&junk, vec![0; JUNK_BYTES]).expect("there is room");
    let mut sent = Vec::new();
    let refused = (0..CALLS_MAX).find_map(|call| send(&mut client, call, &mut sent).err());
    assert_full(&refused.expect("more was taken than there is room for"));
    assert!(sent.len() > 20, "only {} were taken", sent.len());
    fill_up(&world.cluster.in_room("rest").expect("it has room"));
    assert_full(&send(&mut client, CALLS_MAX, &mut Vec::new()).expect_err("there is no room"));
    // There is no reserve: what is asked for is answered truly, be it that it cannot be done.
    let leases = std::slice::from_ref(&held);
    let acked = with_room(client.ack(QUEUE, leases));
    println!("an ack with no room at all: {acked:?}");
    match &acked {
        Ok(stale) => assert!(stale.as_ref().is_none_or(Vec::is_empty), "{stale:?}"),
        Err(error) => assert_will_pass(error),
    }
    std::fs::remove_file(&junk).expect("it is removed");
    // It goes on by itself, with what was answered and no more.
    until(&Some(sent.len() as u64), || with_room(client.counts(QUEUE).map(|counts| counts.ready)));
    if !matches!(acked, Ok(Some(_))) {
        until(&Some(Vec::new()), || with_room(client.ack(QUEUE, leases)));
    }
    until(&true, || with_room(send(&mut client, CALLS_MAX, &mut sent)).map(|sent| sent.is_some()));
    assert_all_come(&mut client, &sent);
    server.stop();
}

#[test]
fn a_database_that_breaks_down_without_room_for_its_log_loses_nothing_that_was_answered() {
    let settings = [("max_wal_size", "32MB"), ("min_wal_size", "32MB")];
    let cluster = Cluster::start_in_room(Part::Log, ROOM_MIB, &settings).expect("PostgreSQL is installed");
    let mut world = World::on(cluster);
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({"visibility_timeout": "3600s"})).expect("the queue is made");
    let mut sent = Vec::new();
    send(&mut client, 0, &mut sent).expect("there is room");
    let junk = world.cluster.in_room("junk").expect("it has room");
    fill_up(&junk);
    let failed = (1..CALLS_MAX).find_map(|call| send(&mut client, call, &mut sent).err());
    let failed = failed.expect("more was taken than there is room for");
    assert!(world.cluster.log().contains("PANIC"), "{failed:?}: {}", world.cluster.log());
    std::fs::remove_file(&junk).expect("it is removed");
    // It may have given up by then; whoever watches over it starts it again.
    world.cluster.kill().expect("it was started");
    world.cluster.run().expect("there is room");
    until(&true, || client.counts(QUEUE).map(|counts| counts.ready >= sent.len() as u64));
    until(&true, || with_room(send(&mut client, CALLS_MAX, &mut sent)).map(|sent| sent.is_some()));
    assert_all_come(&mut client, &sent);
    server.stop();
}

/// `None`: there is no room, or not yet.
fn with_room<T>(answer: Called<T>) -> Called<Option<T>> {
    match answer {
        Err(error) if error.code() == "storage_full" => Ok(None),
        answer => answer.map(Some),
    }
}

/// Sends a few messages; the tags of what was answered are noted.
fn send(client: &mut Client, call: usize, sent: &mut Vec<String>) -> Result<(), CallError> {
    let tags: Vec<String> = (0..EVENTS_PER_CALL).map(|number| format!("{call}-{number}-")).collect();
    let padding = noise(EVENT_BYTES);
    let events: Vec<Value> = tags.iter().map(|tag| event(tag, &format!("{tag}{padding}"))).collect();
    client.send(QUEUE, &events, None)?;
    sent.extend(tags);
    Ok(())
}

/// What cannot be stored in less room.
fn noise(length: usize) -> String {
    let mut random = millpond_blackbox::random::Random::new(7);
    (0..length).map(|_| char::from(b'a' + u8::try_from(random.below(26)).expect("a letter"))).collect()
}

fn fill_up(path: &Path) {
    let mut file = File::create(path).expect("it can be made");
    for size in [1 << 20, 1 << 12] {
        let chunk = vec![0_u8; size];
        let error = loop {
            if let Err(error) = file.write_all(&chunk) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }
}

fn assert_full(error: &CallError) {
    let CallError::Refused { status: 507, code, text } = error else { panic!("{error:?}") };
    assert_eq!(code, "storage_full", "{text}");
    let problem: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&problem["effect"], &problem["retryable"]), (&json!("none"), &json!(true)), "{text}");
}

/// All that was answered comes, once; what was not may.
fn assert_all_come(client: &mut Client, sent: &[String]) {
    let came = drain(client);
    for tag in sent {
        let count: u64 = came.iter().filter(|(data, _)| data.starts_with(tag)).map(|(_, count)| count).sum();
        assert_eq!(count, 1, "{tag}");
    }
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
}
