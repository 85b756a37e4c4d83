//! Flush before answer (A1 b). A killed process loses nothing that the kernel has, so only the system calls show whether
//! an answer waits for the disk: between the arrival of a request that changes something and its answer a flush of the
//! log has to begin and end.

use std::path::Path;

use millpond_blackbox::binary;
use millpond_blackbox::client::{Client, Lease, deliveries, event};
use millpond_blackbox::server::Launch;
use millpond_blackbox::trace::{self, Step};
use serde_json::{Value, json};

const QUEUE: &str = "work";
/// Carries a name by which a request is found in the trace.
const MARK: &str = "x-mark";
const ROUNDS: usize = 10;
const SENDERS: usize = 4;

#[test]
fn every_answer_to_a_change_follows_a_flush_of_the_log() {
    let steps = traced(|launch| launch);
    let marks = marks();
    assert_eq!(unflushed(&steps, &marks), Vec::<&str>::new());
}

#[test]
fn canary_a_server_that_does_not_flush_is_found() {
    let steps = traced(|launch| launch.program(binary::unflushed()));
    let marks = marks();
    assert_eq!(unflushed(&steps, &marks), marks);
}

/// Runs the load under strace.
fn traced(choose: impl FnOnce(Launch) -> Launch) -> Vec<Step> {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let trace = directory.path().join("trace");
    let launch = choose(Launch::on_files(&directory.path().join("data"))).run_by(&trace::wrapper(&trace));
    let server = launch.start();
    server.client().create_queue(QUEUE, json!({})).expect("the queue is made");
    let mut client = server.client();
    for round in 0..ROUNDS {
        exchange(&mut client, "send", &format!("send-{round}."), &json!({"events": [event("1", "one")]}));
        let answer = exchange(&mut client, "lease", &format!("lease-{round}."), &json!({}));
        let lease = deliveries(&answer).pop().expect("a message").lease;
        exchange(&mut client, "ack", &format!("ack-{round}."), &leases(&lease));
    }
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let mut client = server.client();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mark = format!("beside-{sender}-{round}.");
                    exchange(&mut client, "send", &mark, &json!({"events": [event("1", "one")]}));
                }
            });
        }
    });
    server.stop();
    read(&trace)
}

fn read(trace: &Path) -> Vec<Step> {
    trace::parse(&std::fs::read_to_string(trace).expect("the trace can be read"))
}

fn exchange(client: &mut Client, verb: &str, mark: &str, body: &Value) -> Value {
    let target = format!("/v1/queues/{QUEUE}:{verb}");
    client.call("POST", &target, &[(MARK, mark)], Some(body)).expect("an answer")
}

fn leases(lease: &Lease) -> Value {
    let generation = lease.generation.to_string();
    json!({"leases": [{"message_id": lease.message_id, "lease_generation": generation}]})
}

/// The marks of all requests; each ends in a dot, so that none is the begin of another.
fn marks() -> Vec<String> {
    let rounds =
        (0..ROUNDS).flat_map(|round| ["send", "lease", "ack"].map(|verb| format!("{verb}-{round}.")));
    let beside =
        (0..SENDERS).flat_map(|sender| (0..ROUNDS).map(move |round| format!("beside-{sender}-{round}.")));
    rounds.chain(beside).collect()
}

/// The requests that were answered without a flush of the log in between.
fn unflushed<'a>(steps: &[Step], marks: &'a [String]) -> Vec<&'a str> {
    let is_unflushed = |mark: &&String| !has_flush(until_answer(steps, mark));
    marks.iter().filter(is_unflushed).map(String::as_str).collect()
}

/// What happened between the arrival of a request and its answer.
fn until_answer<'a>(steps: &'a [Step], mark: &str) -> &'a [Step] {
    let arrives = |step: &Step| step.received() && step.arguments.contains(&format!("{MARK}: {mark}"));
    let arrival = steps.iter().position(arrives).unwrap_or_else(|| panic!("{mark} is not in the trace"));
    let socket = steps[arrival].arguments.split(',').next().expect("a socket");
    let after = &steps[arrival + 1..];
    let answers = |step: &Step| {
        step.sends() && step.arguments.starts_with(socket) && step.arguments.contains("HTTP/1.1 200 OK")
    };
    let answer = after.iter().position(answers).unwrap_or_else(|| panic!("{mark} has no answer"));
    &after[..answer]
}

/// Whether a flush begins and ends within these steps.
fn has_flush(steps: &[Step]) -> bool {
    steps.iter().enumerate().any(|(begin, first)| {
        let ends = |step: &Step| step.thread == first.thread && step.result == Some(0) && step.flushes_log();
        first.flushes_log() && first.enters && steps[begin..].iter().any(ends)
    })
}
