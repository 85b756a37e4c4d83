//! S1 to S5: what is sent, in which forms, and how much of it.

use millpond_blackbox::http::Request;
use serde_json::{Value, json};

use super::{Bed, JSON, Q, answered, event, event_ids, problem, strings};

const EVENT_BYTES_MAX: usize = 256 << 10;
const CALL_BYTES_MAX: usize = 1 << 20;
/// What CloudEvents wants everybody to carry.
const EVENT_BYTES_FLOOR: usize = 64 << 10;
const STRUCTURED: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

fn send_path() -> String {
    format!("{Q}:send")
}

#[test]
fn s01_a_message_is_an_event_with_id_source_type_and_data() {
    let mut bed = Bed::new(json!({}));
    let sent = json!({
        "id": "7", "source": "/shop", "type": "order.paid", "subject": "orders/7",
        "event_time": "2026-11-30T01:02:03.456Z", "data_content_type": "application/json",
        "data_schema": "https://shop.example/order.json", "data": { "order": 7 }, "extensions": { "tenant": "acme" },
    });
    bed.post(&send_path(), json!({ "events": [sent, event("8")] }));
    let leased = bed.lease("q", json!({ "max_messages": 2 }));
    assert_eq!(leased[0]["event"], sent);
    assert_eq!(leased[1]["event"], event("8"));
}

#[test]
fn s01_a_missing_or_empty_attribute_refuses_the_whole_call_by_its_path() {
    let mut bed = Bed::new(json!({}));
    for field in ["id", "source", "type"] {
        for (value, code) in [
            (None, "missing_field"),
            (Some(Value::Null), "missing_field"),
            (Some(json!("")), "invalid_field"),
            (Some(json!(7)), "invalid_field"),
        ] {
            let mut faulty = event("4");
            match &value {
                Some(value) => faulty[field] = value.clone(),
                None => drop(faulty.as_object_mut().expect("an object").remove(field)),
            }
            let events = [event("1"), event("2"), event("3"), faulty, event("5")];
            let problem = bed.post_refused(&send_path(), json!({ "events": events }), 400, code);
            assert_eq!(problem["field"], format!("events[3].{field}"), "{value:?}");
        }
    }
    assert_eq!(bed.counts("q"), [0, 0, 0, 0], "nothing was enqueued");
}

#[test]
fn s02_a_send_takes_1_to_100_events() {
    let mut bed = Bed::new(json!({}));
    let events = |count: usize| json!({ "events": vec![event("1"); count] });
    for count in [0, 101] {
        let problem = bed.post_refused(&send_path(), events(count), 400, "invalid_field");
        assert_eq!(problem["field"], "events", "{count}");
    }
    assert_eq!(bed.counts("q"), [0, 0, 0, 0]);
    for count in [1, 100] {
        let ids = strings(&bed.post(&send_path(), events(count))["message_ids"]);
        assert_eq!(ids.len(), count);
    }
    assert_eq!(bed.counts("q"), [101, 0, 0, 0]);
}

#[test]
fn s02_a_delay_hides_all_events_of_the_call_until_it_is_over() {
    let mut bed = Bed::new(json!({}));
    bed.post(&send_path(), json!({ "events": [event("1"), event("2")], "delay": "1s" }));
    assert_eq!(bed.counts("q"), [0, 0, 2, 0]);
    assert!(bed.lease("q", json!({ "max_messages": 2 })).is_empty());
    let leased = bed.lease("q", json!({ "max_messages": 2, "min_messages": 2, "wait": "20s" }));
    assert_eq!(event_ids(&leased), ["1", "2"]);
    assert!(leased.iter().all(|message| message["delivery_count"] == 1));
}

#[test]
fn s02_a_delay_is_at_most_12_hours_and_ends_within_the_retention() {
    let mut bed = Bed::new(json!({ "retention": "43200s" }));
    bed.create("long", json!({}));
    let call = |delay: Value| json!({ "events": [event("1")], "delay": delay });
    bed.post(&send_path(), call(json!("43199.999s")));
    bed.post("/v1/queues/long:send", call(json!("43200s")));
    for (queue, delay) in
        [("q", json!("43200s")), ("long", json!("43200.001s")), ("long", json!("-1s")), ("long", json!(1))]
    {
        let path = format!("/v1/queues/{queue}:send");
        let problem = bed.post_refused(&path, call(delay.clone()), 400, "invalid_field");
        assert_eq!(problem["field"], "delay", "{queue} {delay}");
    }
    assert_eq!((bed.counts("q"), bed.counts("long")), ([0, 0, 1, 0], [0, 0, 1, 0]));
}

#[test]
fn s03_ids_come_in_request_order_sort_by_send_and_stay() {
    let mut bed = Bed::new(json!({}));
    let mut ids = bed.send(&["a", "b", "c"]);
    ids.extend(bed.send(&["d", "e"]));
    assert!(ids.iter().all(|id| id.starts_with("msg_")), "{ids:?}");
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    for delivery in 1..=2 {
        let leased = bed.lease("q", json!({ "max_messages": 100 }));
        assert_eq!(event_ids(&leased), ["a", "b", "c", "d", "e"]);
        let leased_ids: Vec<_> = leased.iter().map(|message| message["message_id"].clone()).collect();
        assert_eq!(json!(leased_ids), json!(ids), "delivery {delivery}");
        assert_eq!(bed.settle("q", "nack", &leased), json!([]));
    }
}

/// An event of exactly so many bytes of JSON.
fn event_of(bytes: usize) -> Value {
    let mut padded = event("1");
    padded["data"] = json!("");
    padded["data"] = json!("x".repeat(bytes - padded.to_string().len()));
    assert_eq!(padded.to_string().len(), bytes);
    padded
}

#[test]
fn s04_an_event_has_256_kib_of_json_and_a_call_1_mib() {
    let mut bed = Bed::new(json!({}));
    bed.post(&send_path(), json!({ "events": [event_of(EVENT_BYTES_MAX)] }));
    let two = json!({ "events": [event("0"), event_of(EVENT_BYTES_MAX + 1)] });
    let problem_of_event = bed.post_refused(&send_path(), two, 413, "payload_too_large");
    assert_eq!(problem_of_event["field"], "events[1]");
    assert_eq!(problem_of_event["limit"], EVENT_BYTES_MAX.to_string());

    let mut call = json!({ "events": [event("2")] }).to_string().into_bytes();
    call.resize(CALL_BYTES_MAX, b' ');
    answered(&bed.raw("POST", &send_path(), &[JSON], &call));
    call.push(b' ');
    // The server need not read what it refuses, and then it closes the connection.
    let request = Request { method: "POST", target: &send_path(), headers: &[JSON], body: &call };
    let response = bed.server.client().exchange(&request).expect("an answer");
    let problem_of_call = problem(&response, 413, "payload_too_large");
    assert_eq!(problem_of_call["limit"], CALL_BYTES_MAX.to_string());
    assert_eq!(bed.counts("q"), [2, 0, 0, 0]);
}

#[test]
fn s04_every_form_carries_64_kib() {
    let mut bed = Bed::new(json!({}));
    let text = "x".repeat(EVENT_BYTES_FLOOR);
    let standard = json!({
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "text/plain", "data": text,
    });
    let native = json!({ "events": [
        { "id": "1", "source": "/s", "type": "t", "data_content_type": "text/plain", "data": text },
    ]});
    for (content_type, body) in
        [("application/json", &native), (STRUCTURED, &standard), (BATCH, &json!([standard]))]
    {
        let headers = [("content-type", content_type)];
        answered(&bed.raw("POST", &send_path(), &headers, body.to_string().as_bytes()));
    }
    let headers = [
        ("content-type", "text/plain"),
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "/s"),
        ("ce-type", "t"),
    ];
    answered(&bed.raw("POST", &send_path(), &headers, text.as_bytes()));
    let leased = bed.lease("q", json!({ "max_messages": 4 }));
    assert_eq!(leased.len(), 4);
    assert!(leased.iter().all(|message| message["event"]["data"] == text.as_str()));
}

#[test]
fn s04_an_event_has_64_extensions_with_names_of_lower_case_letters_and_digits() {
    let mut bed = Bed::new(json!({}));
    let with = |extensions: Value| {
        let mut event = event("1");
        event["extensions"] = extensions;
        json!({ "events": [event] })
    };
    let many = |count: usize| (0..count).map(|at| (format!("x{at}"), json!("v"))).collect::<Value>();
    bed.post(&send_path(), with(many(64)));
    let leased = bed.lease("q", json!({}));
    assert_eq!(leased[0]["event"]["extensions"], many(64));
    let problem = bed.post_refused(&send_path(), with(many(65)), 400, "invalid_field");
    assert_eq!((&problem["field"], &problem["limit"]), (&json!("events[0].extensions"), &json!("64")));
    for name in ["Upper", "under_score", "dash-ed", "ž", "", "data", "id"] {
        let problem = bed.post_refused(&send_path(), with(json!({ name: "v" })), 400, "invalid_field");
        assert_eq!(problem["field"], format!("events[0].extensions.{name}"), "{name}");
    }
}

#[test]
fn s05_one_address_takes_all_four_forms() {
    let mut bed = Bed::new(json!({}));
    let standard = |id: &str| json!({ "specversion": "1.0", "id": id, "source": "/tests", "type": "example.made", "data": { "n": 1 } });
    let binary = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "binary"),
        ("ce-source", "/tests"),
        ("ce-type", "example.made"),
    ];
    for (headers, body) in [
        (&[JSON][..], json!({ "events": [event("native")] })),
        (&[("content-type", STRUCTURED)], standard("structured")),
        (
            &[("content-type", "Application/CloudEvents-Batch+JSON; charset=utf-8")],
            json!([standard("batch")]),
        ),
        (&binary, json!({ "n": 1 })),
    ] {
        answered(&bed.raw("POST", &send_path(), headers, body.to_string().as_bytes()));
    }
    let leased = bed.lease("q", json!({ "max_messages": 4 }));
    assert_eq!(event_ids(&leased), ["native", "structured", "batch", "binary"]);
    for message in &leased {
        let event = &message["event"];
        assert_eq!((&event["source"], &event["data"]), (&json!("/tests"), &json!({ "n": 1 })), "{event}");
    }
    for content_type in ["application/cloudevents+avro", "application/xml"] {
        let response = bed.raw("POST", &send_path(), &[("content-type", content_type)], b"x");
        problem(&response, 415, "unsupported_media_type");
    }
}

#[test]
fn s05_a_lease_answers_in_batch_mode_to_who_accepts_it() {
    let mut bed = Bed::new(json!({}));
    let ids = bed.send(&["1", "2"]);
    let headers = [JSON, ("accept", BATCH)];
    let response = bed.raw("POST", &format!("{Q}:lease"), &headers, br#"{"max_messages": 2}"#);
    assert_eq!(response.header("content-type"), Some(BATCH));
    let batch = answered(&response);
    let events = batch.as_array().expect("an array");
    let leases: Vec<Value> = events
        .iter()
        .map(|event| {
            assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("example.made")));
            assert_eq!(event["millponddeliveries"], "1");
            assert!(event["millpondleaseend"].is_string());
            json!({ "message_id": event["millpondmessageid"], "lease_generation": event["millpondgeneration"] })
        })
        .collect();
    let leased_ids: Vec<_> = leases.iter().map(|lease| lease["message_id"].clone()).collect();
    assert_eq!(json!(leased_ids), json!(ids));
    assert_eq!(bed.post(&format!("{Q}:ack"), json!({ "leases": leases })), json!({ "stale_leases": [] }));
    assert_eq!(bed.counts("q"), [0, 0, 0, 0]);
}
