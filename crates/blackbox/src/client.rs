//! Calls of the native API over one connection that is opened again when it is gone.
//!
//! A call that got no answer is [`CallError::Unanswered`]: it may or may not have happened, and it is for the test to
//! decide whether to ask again.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::http::{Connection, Request, Response};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A client; it tries nothing twice.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Option<Connection>,
}

/// Why a call has no result.
#[derive(Debug)]
pub enum CallError {
    /// No answer came.
    Unanswered(io::Error),
    /// The answer is an error.
    Refused {
        /// The status.
        status: u16,
        /// The `code` of the problem.
        code: String,
        /// The whole of it.
        text: String,
    },
}

impl CallError {
    /// The code of a refusal.
    pub fn code(&self) -> &str {
        match self {
            Self::Unanswered(_) => "",
            Self::Refused { code, .. } => code,
        }
    }
}

/// The result of a call.
pub type Called<T> = Result<T, CallError>;

/// The name of a lease.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    /// Which message.
    pub message_id: String,
    /// Which of its leases.
    pub generation: u64,
}

impl Lease {
    fn render(&self) -> Value {
        json!({"message_id": self.message_id, "lease_generation": self.generation.to_string()})
    }

    fn of(value: &Value) -> Self {
        Self {
            message_id: value["message_id"].as_str().expect("a message id").to_owned(),
            generation: number(&value["lease_generation"]),
        }
    }
}

/// A message that was handed out.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its lease.
    pub lease: Lease,
    /// The event.
    pub event: Value,
    /// How often it was handed out, this time included.
    pub delivery_count: u64,
}

/// The counts of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Could be handed out.
    pub ready: u64,
    /// Handed out.
    pub leased: u64,
    /// Not yet due.
    pub delayed: u64,
    /// In the dead-letter set.
    pub dead: u64,
}

impl Client {
    /// A client that connects when it is first used.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// Any request.
    pub fn exchange(&mut self, request: &Request<'_>) -> io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.address)?,
        };
        let response = connection.exchange(request)?;
        if response.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// A call with a JSON body and further headers.
    pub fn call(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Called<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut all = vec![JSON];
        all.extend_from_slice(headers);
        let request = Request { method, target, headers: &all, body: body.as_bytes() };
        let response = self.exchange(&request).map_err(CallError::Unanswered)?;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        if response.status == 200 {
            return Ok(value);
        }
        let code = value["code"].as_str().unwrap_or_default().to_owned();
        Err(CallError::Refused { status: response.status, code, text })
    }

    /// Makes a queue.
    pub fn create_queue(&mut self, queue: &str, spec: Value) -> Called<()> {
        let target = format!("/v1/queues?queue_id={queue}");
        self.call("POST", &target, &[], Some(&json!({"spec": spec}))).map(drop)
    }

    /// Sends events; returns their message ids.
    pub fn send(&mut self, queue: &str, events: &[Value], key: Option<&str>) -> Called<Vec<String>> {
        let headers: Vec<(&str, &str)> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
        let body = json!({"events": events});
        let answer = self.call("POST", &format!("/v1/queues/{queue}:send"), &headers, Some(&body))?;
        let ids = answer["message_ids"].as_array().expect("message ids").iter();
        Ok(ids.map(|id| id.as_str().expect("a message id").to_owned()).collect())
    }

    /// Takes up to `max` messages, waiting for the first one for so many seconds.
    pub fn lease(&mut self, queue: &str, max: u64, wait_seconds: u64) -> Called<Vec<Delivery>> {
        self.lease_with(queue, &json!({"max_messages": max, "wait": format!("{wait_seconds}s")}))
    }

    /// Takes messages, with all options given.
    pub fn lease_with(&mut self, queue: &str, options: &Value) -> Called<Vec<Delivery>> {
        let answer = self.call("POST", &format!("/v1/queues/{queue}:lease"), &[], Some(options))?;
        Ok(deliveries(&answer))
    }

    /// Takes one message under a lease of so many seconds, waiting for it for so many.
    pub fn lease_one(&mut self, queue: &str, lease_seconds: u64, wait_seconds: u64) -> Option<Delivery> {
        let options = json!({
            "visibility_timeout": format!("{lease_seconds}s"),
            "wait": format!("{wait_seconds}s"),
        });
        self.lease_with(queue, &options).expect("a lease call is answered").pop()
    }

    /// Lets at least so many seconds pass on the server's clock: a delayed message is sent and waited for.
    pub fn pass(&mut self, seconds: u64) {
        const CLOCK: &str = "clock";
        if let Err(error) = self.create_queue(CLOCK, json!({})) {
            assert_eq!(error.code(), "queue_already_exists", "{error:?}");
        }
        let body = json!({"events": [event("tick", "")], "delay": format!("{seconds}s")});
        let target = format!("/v1/queues/{CLOCK}:send");
        self.call("POST", &target, &[], Some(&body)).expect("a tick is sent");
        let tick = self.lease_one(CLOCK, 60, seconds + 10).expect("a tick comes");
        assert!(self.ack(CLOCK, &[tick.lease]).expect("it is acked").is_empty());
    }

    /// Acks leases; returns those that are stale.
    pub fn ack(&mut self, queue: &str, leases: &[Lease]) -> Called<Vec<Lease>> {
        self.settle(queue, "ack", leases, json!({}))
    }

    /// Nacks leases; returns those that are stale.
    pub fn nack(&mut self, queue: &str, leases: &[Lease]) -> Called<Vec<Lease>> {
        self.settle(queue, "nack", leases, json!({}))
    }

    /// Makes leases end so many seconds from now; returns those that are stale.
    pub fn extend(&mut self, queue: &str, leases: &[Lease], seconds: u64) -> Called<Vec<Lease>> {
        self.settle(queue, "extend", leases, json!({"visibility_timeout": format!("{seconds}s")}))
    }

    fn settle(&mut self, queue: &str, verb: &str, leases: &[Lease], mut body: Value) -> Called<Vec<Lease>> {
        body["leases"] = leases.iter().map(Lease::render).collect();
        let answer = self.call("POST", &format!("/v1/queues/{queue}:{verb}"), &[], Some(&body))?;
        let stale = answer["stale_leases"].as_array().expect("stale leases").iter();
        Ok(stale.map(Lease::of).collect())
    }

    /// The counts of a queue.
    pub fn counts(&mut self, queue: &str) -> Called<Counts> {
        let answer = self.call("GET", &format!("/v1/queues/{queue}"), &[], None)?;
        let count = |name: &str| number(&answer["status"][name]);
        Ok(Counts {
            ready: count("ready_count"),
            leased: count("leased_count"),
            delayed: count("delayed_count"),
            dead: count("dead_letter_count"),
        })
    }
}

/// The messages of an answer to a lease call.
pub fn deliveries(answer: &Value) -> Vec<Delivery> {
    let messages = answer["messages"].as_array().expect("messages").iter();
    let delivery = |message: &Value| Delivery {
        lease: Lease::of(&message["lease"]),
        event: message["event"].clone(),
        delivery_count: message["delivery_count"].as_u64().expect("a delivery count"),
    };
    messages.map(delivery).collect()
}

/// An event with this id and text.
pub fn event(id: &str, data: &str) -> Value {
    json!({"id": id, "source": "/blackbox", "type": "test", "data": data})
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a number as text")
}
