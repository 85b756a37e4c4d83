//! Whatever bytes come in, every parser answers; what it accepts, it can write and read again.
//!
//! The same entry points have libFuzzer targets under `fuzz/`; here they get a little of both noise and
//! damaged valid input, on every run.

use millpond_api::dead_letters::{ListDeadLettersRequest, RedriveRequest, ReplayRequest};
use millpond_api::deployment::DeploymentBody;
use millpond_api::event::{batch, binary, structured, sylphx};
use millpond_api::filter::QueueFilter;
use millpond_api::lease::LeaseRequest;
use millpond_api::message::PeekRequest;
use millpond_api::name::{EnvironmentName, Kind, QueueName, QueueReference, ResourceName, TopicReference};
use millpond_api::purge::PurgeRequest;
use millpond_api::queue::{ListQueuesRequest, QueueBody, QueueUpdate, UpdateMask};
use millpond_api::send::{SendForm, SendRequest, parse_delay, parse_priority, parse_time_to_live};
use millpond_api::settle::{AckRequest, ExtendRequest, NackRequest, SettleRequest};
use millpond_api::signing_secret::RotateRequest;
use millpond_api::trigger::TriggerBody;
use millpond_api::vercel::handle::{ReceiptHandle, original_of};
use millpond_api::vercel::header::{ReceiveOptions, SendOptions, client_time, deployment};
use millpond_api::vercel::path::Place;
use millpond_api::vercel::{self, multipart, visibility};
use millpond_api::{DataKind, Event, EventData, duration, limits, time};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const VALID: &[&str] = &[
    r#"{"events":[{"id":"1","source":"/s","type":"t","event_time":"2026-10-07T12:30:00Z","data":{"a":[1,"x"]},"extensions":{"n":1}}],"delay":"5s"}"#,
    r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"\u00e9","x":true}"#,
    r#"[{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"aGk="}]"#,
    r#"{"max_messages":10,"min_messages":2,"visibility_timeout":"30s","wait":"20s"}"#,
    r#"{"leases":[{"message_id":"m","lease_generation":"18446744073709551615"}],"delay":"1.5s"}"#,
    r#"{"acks":[{"message_id":"m","lease_generation":1}],"nacks":[{"message_id":"n","lease_generation":2,"delay":"1s"}],"sends":[{"queue":"next","events":[{"id":"1","source":"/s","type":"t"}],"priority":-1,"ttl":"60s"}],"require":"all"}"#,
    r#"{"destination":"next","start_time":"2026-10-07T12:30:00Z","end_time":"2027-10-07T12:30:00Z","message_ids":null}"#,
    r#"{"max_messages":10,"state":"dead"}"#,
    r#"{"name":"orgs/a/projects/b/envs/c/queues/d","meta":{"labels":{"a":"b"}},"spec":{"max_deliveries":5,"dead_letter_queue":"dead","backoff":{"initial":"1s","factor":1.5,"jitter_min":0.5,"jitter_max":1.5},"lost_lease":{"in_a_row_max":10},"order":"sent"}}"#,
    r#"{"topic":"a*","group":"g","target":"http://h/","retry_after":"60s","max_deliveries":5,"dead_letter_queue":"dead","visibility_timeout":"30s"}"#,
    r#"{"triggers":[{"topic":"*","group":"g","target":"https://h/p?q=1","initial_delay":"0.5s","max_concurrency":1}]}"#,
    r#"{"grace":"86400s"}"#,
];

/// Every parser of a body; the answers do not matter, only that there are some.
fn parse_everything(bytes: &[u8]) {
    for form in [SendForm::Batch, SendForm::Binary, SendForm::Native, SendForm::Structured] {
        if let Ok(request) = SendRequest::parse(form, bytes) {
            assert!((1..=limits::EVENTS_PER_CALL_MAX).contains(&request.events.len()));
            request.events.iter().for_each(reread);
        }
    }
    let _ = (PurgeRequest::parse(bytes), ReplayRequest::parse(bytes), RedriveRequest::parse(bytes));
    let _ = (TriggerBody::parse(bytes), RotateRequest::parse(bytes));
    if let Ok(deployment) = DeploymentBody::parse(bytes) {
        assert!((1..=limits::TRIGGERS_MAX).contains(&deployment.triggers.len()));
    }
    for kind in [Kind::Group, Kind::Queue, Kind::Topic] {
        parse_of_kind(kind, bytes);
    }
    parse_vercel(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (duration::parse(text), time::parse(text), parse_delay("delay", text));
        let _ = (EnvironmentName::parse("name", text), QueueName::parse("name", text));
        let _ = (QueueReference::parse("name", text), Event::from_stored(text, None));
        let _ = SendForm::choose(Some(text), false);
        let _ = (parse_priority("priority", text), parse_time_to_live("ttl", text));
        let _ = (QueueFilter::parse(text), UpdateMask::parse(Kind::Queue, text));
        let _ = (TopicReference::parse("topic", text), ResourceName::parse(Kind::Group, "name", text));
        let environment = EnvironmentName::new("a", "b", "c").expect("valid");
        let _ = ListQueuesRequest::parse(Kind::Topic, &environment.to_string(), |_| Some(text));
        let queue = QueueName::new(environment, "d").expect("valid");
        let _ = ListDeadLettersRequest::parse(&queue, |_| Some(text));
    }
}

fn parse_of_kind(kind: Kind, bytes: &[u8]) {
    let _ = (LeaseRequest::parse(kind, bytes), PeekRequest::parse(kind, bytes));
    let _ = (AckRequest::parse(kind, bytes), NackRequest::parse(kind, bytes));
    let _ = ExtendRequest::parse(kind, bytes);
    if let Ok(settle) = SettleRequest::parse(kind, bytes) {
        let events = settle.sends.iter().map(|send| send.events.len()).sum::<usize>();
        assert!(
            settle.leases().count() <= limits::LEASES_PER_CALL_MAX && events <= limits::EVENTS_PER_CALL_MAX
        );
        assert!(settle.leases().count() + events > 0);
    }
    let update = QueueUpdate::parse(kind, bytes, None);
    assert_eq!(update.map(|update| update.body), QueueBody::parse(kind, bytes));
}

/// Every parser of Vercel's wire.
fn parse_vercel(bytes: &[u8]) {
    if let Ok(parts) = multipart::parse(bytes, "b") {
        assert!((1..=limits::VERCEL_BATCH_MESSAGES_MAX).contains(&parts.len()));
    }
    let header = |_: &str| Some(bytes);
    let _ = (SendOptions::read(header), ReceiveOptions::read(header), visibility::parse(bytes));
    let _ = (deployment(header), client_time(header), vercel::event("t", header));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (multipart::boundary_of(text), Place::of(text).map(|place| place.names()));
        let _ = (ReceiptHandle::parse(text), original_of(text));
    }
}

fn reread(event: &Event) {
    assert_eq!(structured::parse(structured::render(event).as_bytes()).as_ref(), Ok(event));
    assert_eq!(sylphx::parse(sylphx::render(event).as_bytes()).as_ref(), Ok(event));
    let batched = batch::parse(batch::render(&[(event, Vec::new())]).as_bytes());
    assert_eq!(batched.as_deref(), Ok(std::slice::from_ref(event)));
}

#[test]
fn the_valid_samples_are_each_taken_by_a_parser() {
    let takes: [fn(&[u8]) -> bool; 12] = [
        |bytes| SendRequest::parse(SendForm::Native, bytes).is_ok(),
        |bytes| SendRequest::parse(SendForm::Structured, bytes).is_ok(),
        |bytes| SendRequest::parse(SendForm::Batch, bytes).is_ok(),
        |bytes| LeaseRequest::parse(Kind::Queue, bytes).is_ok(),
        |bytes| NackRequest::parse(Kind::Queue, bytes).is_ok(),
        |bytes| SettleRequest::parse(Kind::Queue, bytes).is_ok(),
        |bytes| RedriveRequest::parse(bytes).is_ok(),
        |bytes| PeekRequest::parse(Kind::Queue, bytes).is_ok(),
        |bytes| QueueBody::parse(Kind::Queue, bytes).is_ok(),
        |bytes| TriggerBody::parse(bytes).is_ok(),
        |bytes| DeploymentBody::parse(bytes).is_ok(),
        |bytes| RotateRequest::parse(bytes).is_ok(),
    ];
    for (sample, taken) in VALID.iter().zip(takes) {
        assert!(taken(sample.as_bytes()), "{sample}");
    }
}

#[test]
fn deep_nesting_needs_no_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = 40_000;
        let data = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let body = format!(r#"{{"events":[{{"id":"1","source":"/s","type":"t","data":{data}}}]}}"#);
        let error = SendRequest::parse(SendForm::Native, body.as_bytes()).expect_err("too deep");
        assert_eq!(error.field.as_deref(), Some("events[0].data"));
        let sent = EventData::from_body(Some("application/json"), data.clone().into_bytes()).expect("data");
        assert_eq!(sent.kind, DataKind::Binary);
        parse_everything(data.as_bytes());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..200)) {
        parse_everything(&bytes);
    }

    #[test]
    fn any_json_like_text_is_answered(text in r#"([{}\[\]:,"]|\\u[0-9a-fd]{4}|null|true|-?[0-9]{1,3}|"(events|spec|meta|id|data|leases|delay|triggers)":?){0,40}"#) {
        parse_everything(text.as_bytes());
    }

    #[test]
    fn damaged_valid_bodies_are_answered(
        sample in any::<Index>(),
        edits in vec((any::<Index>(), any::<u8>(), 0..3), 1..6),
    ) {
        let mut bytes = sample.get(VALID).as_bytes().to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => { bytes.remove(at); }
                _ => {}
            }
        }
        parse_everything(&bytes);
    }

    #[test]
    fn any_headers_are_answered(
        headers in vec(("(ce-[a-z]{0,4}|ce-id|ce-source|ce-type|ce-specversion|[a-z-]{0,6})", vec(any::<u8>(), 0..12)), 0..8),
        content_type in proptest::option::of(vec(any::<u8>(), 0..20)),
        body in vec(any::<u8>(), 0..20),
    ) {
        let complete = [("ce-specversion", &b"1.0"[..]), ("ce-id", b"1"), ("ce-source", b"/s"), ("ce-type", b"t")];
        let noise = || headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        for headers in [noise().collect::<Vec<_>>(), noise().chain(complete).collect()] {
            if let Ok(event) = binary::parse(headers, content_type.as_deref(), body.clone()) {
                prop_assert_eq!(event.data.as_ref().map_or(&[][..], |data| &data.bytes), body.as_slice());
                let received = structured::parse(structured::render(&event).as_bytes()).expect("valid");
                prop_assert_eq!(received.attributes, event.attributes);
            }
        }
    }
}
