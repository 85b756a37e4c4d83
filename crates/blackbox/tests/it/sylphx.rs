//! The rules of Sylphx Events' queues, by their numbers in `docs/compatibility/sylphx.md`: plain HTTP calls to the real
//! binary. Rules about hours and days are in the server's own tests under the same numbers, on a clock that they move.
//!
//! Time passes by waiting for a message that becomes visible, never by a sleep.

mod dead_letters;
mod errors;
mod leasing;
mod resources;
mod sending;
mod settling;
mod worker;

use millpond_blackbox::client::Client;
use millpond_blackbox::http::{Connection, Request, Response};
use millpond_blackbox::server::{Launch, Server};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Where the queue under test is.
const Q: &str = "/v1/queues/q";

/// A server with the queue `q`.
struct Bed {
    directory: tempfile::TempDir,
    server: Server,
    client: Client,
}

impl Bed {
    fn new(spec: Value) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let server = Launch::of(directory.path()).start();
        let client = server.client();
        let mut bed = Self { directory, server, client };
        bed.create("q", spec);
        bed
    }

    fn create(&mut self, queue: &str, spec: Value) -> Value {
        self.post(&format!("/v1/queues?queue_id={queue}"), json!({ "spec": spec }))
    }

    /// The answer of a call that has to succeed.
    #[track_caller]
    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        match self.client.call(method, path, &[], body) {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path}: {error:?}"),
        }
    }

    #[track_caller]
    fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, None)
    }

    #[track_caller]
    fn delete(&mut self, path: &str) -> Value {
        self.call("DELETE", path, None)
    }

    #[track_caller]
    fn post(&mut self, path: &str, body: Value) -> Value {
        self.call("POST", path, Some(&body))
    }

    /// The problem of a call that has to be refused with this status and code.
    #[track_caller]
    fn refused(&mut self, method: &str, path: &str, body: Option<&Value>, status: u16, code: &str) -> Value {
        let body = body.map(Value::to_string).unwrap_or_default();
        let response = self.raw(method, path, &[JSON], body.as_bytes());
        problem(&response, status, code)
    }

    /// A refused POST.
    #[track_caller]
    fn post_refused(&mut self, path: &str, body: Value, status: u16, code: &str) -> Value {
        self.refused("POST", path, Some(&body), status, code)
    }

    /// A request as it is, and its whole answer.
    fn raw(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let request = Request { method, target, headers, body };
        self.client.exchange(&request).expect("an answer")
    }

    /// Sends events with these ids to `q`; answers the message ids.
    #[track_caller]
    fn send(&mut self, ids: &[&str]) -> Vec<String> {
        let events: Vec<Value> = ids.iter().map(|id| event(id)).collect();
        strings(&self.post(&format!("{Q}:send"), json!({ "events": events }))["message_ids"])
    }

    /// Leases from a queue; answers the messages.
    #[track_caller]
    fn lease(&mut self, queue: &str, options: Value) -> Vec<Value> {
        let answer = self.post(&format!("/v1/queues/{queue}:lease"), options);
        answer["messages"].as_array().expect("messages").clone()
    }

    /// Leases one message of `q`, which is there or comes within 10 s.
    #[track_caller]
    fn take(&mut self, lease_seconds: u64) -> Value {
        let options = json!({ "visibility_timeout": format!("{lease_seconds}s"), "wait": "10s" });
        self.lease("q", options).pop().expect("a message")
    }

    /// Settles messages of a queue; answers the stale leases.
    #[track_caller]
    fn settle(&mut self, queue: &str, verb: &str, messages: &[Value]) -> Value {
        let leases: Vec<&Value> = messages.iter().map(|message| &message["lease"]).collect();
        self.post(&format!("/v1/queues/{queue}:{verb}"), json!({ "leases": leases }))["stale_leases"].clone()
    }

    /// Sends one event to `q` and fails it until it is a dead letter; answers its message id.
    #[track_caller]
    fn bury(&mut self, id: &str) -> String {
        let sent = self.send(&[id]).remove(0);
        loop {
            let held = self.lease("q", json!({}));
            if held.is_empty() {
                return sent;
            }
            assert_eq!(held[0]["message_id"], sent.as_str());
            assert_eq!(self.settle("q", "nack", &held), json!([]));
        }
    }

    /// Counts in `status` of a queue: ready, leased, delayed, dead letters.
    #[track_caller]
    fn counts(&mut self, queue: &str) -> [u64; 4] {
        let status = self.get(&format!("/v1/queues/{queue}"))["status"].take();
        ["ready_count", "leased_count", "delayed_count", "dead_letter_count"]
            .map(|name| number(&status[name]))
    }

    /// Dead letters of a queue.
    #[track_caller]
    fn dead_letters(&mut self, queue: &str) -> Vec<Value> {
        let answer = self.get(&format!("/v1/queues/{queue}/dead-letters?page_size=100"));
        answer["messages"].as_array().expect("messages").clone()
    }

    /// A connection of its own on which a lease call waits.
    fn poll(&self, options: &Value) -> Connection {
        let mut poll = Connection::open(self.server.address()).expect("it connects");
        let (target, body) = (format!("{Q}:lease"), options.to_string());
        let request = Request { method: "POST", target: &target, headers: &[JSON], body: body.as_bytes() };
        poll.send(&request).expect("it is sent");
        self.server.wait_until_read(&poll);
        poll
    }
}

/// Checks an error answer and takes its problem.
#[track_caller]
fn problem(response: &Response, status: u16, code: &str) -> Value {
    let text = String::from_utf8_lossy(&response.body);
    assert_eq!(response.status, status, "{text}");
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{text}");
    let problem: Value = serde_json::from_str(&text).expect("a problem");
    assert_eq!(problem["code"], code, "{text}");
    problem
}

/// The answer as JSON, which has to be a success.
#[track_caller]
fn answered(response: &Response) -> Value {
    let text = String::from_utf8_lossy(&response.body);
    assert_eq!(response.status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn event(id: &str) -> Value {
    json!({ "id": id, "source": "/tests", "type": "example.made", "data": { "n": 1 } })
}

#[track_caller]
fn strings(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a number as text")
}

/// The ids of the events of messages.
fn event_ids(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["event"]["id"].as_str().expect("an id")).collect()
}
