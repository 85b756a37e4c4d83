//! What calls on topics and groups say beside those on queues.

use millpond_api::lease::{GroupLease, LeaseRequest, LeasedMessage, render_leased, render_leased_batch};
use millpond_api::message::{MessageState, PeekRequest};
use millpond_api::name::{EnvironmentName, Kind, QueueReference, TopicReference};
use millpond_api::queue::{Naming, QueueBody, QueueUpdate, Start};
use millpond_api::settle::{
    AckRequest, ExtendRequest, LeaseId, NackRequest, SendTo, SettleRequest, render_stale,
};
use millpond_api::{ErrorCode, Event, InputError};
use serde_json::{Value, json};

fn lease_of(body: Value) -> Result<LeaseRequest, InputError> {
    LeaseRequest::parse(Kind::Topic, body.to_string().as_bytes())
}

fn held() -> LeaseId {
    LeaseId { message_id: "m".to_owned(), lease_generation: 3, delivery: Some(u64::MAX) }
}

#[track_caller]
fn refuses<T>(parsed: Result<T, InputError>, code: ErrorCode, field: &str) {
    let error = parsed.map(drop).expect_err(field);
    assert_eq!((error.code, error.field.as_deref()), (code, Some(field)));
}

#[test]
fn a_lease_names_its_group() {
    let lease = lease_of(json!({ "group": "G_1" })).expect("valid");
    let plain =
        GroupLease { group: "G_1".to_owned(), partition: None, start: Start::Earliest, max_in_flight: None };
    assert_eq!(lease.group, Some(plain));
    let body = json!({ "group": "g", "partition": "p", "start": "latest", "max_in_flight": 1 });
    let whole = GroupLease {
        group: "g".to_owned(),
        partition: Some("p".to_owned()),
        start: Start::Latest,
        max_in_flight: Some(1),
    };
    assert_eq!(lease_of(body).expect("valid").group, Some(whole));
    refuses(LeaseRequest::parse(Kind::Topic, b""), ErrorCode::MissingField, "group");
    for (field, value) in [
        ("group", json!("a.b")),
        ("group", json!("x".repeat(256))),
        ("partition", json!("")),
        ("start", json!("middle")),
        ("max_in_flight", json!(0)),
    ] {
        let mut body = json!({ "group": "g" });
        body[field] = value;
        refuses(lease_of(body), ErrorCode::InvalidField, field);
    }
    refuses(LeaseRequest::parse(Kind::Queue, br#"{"group":"g"}"#), ErrorCode::UnknownField, "group");
}

#[test]
fn a_groups_lease_is_named_by_its_delivery_too() {
    let leases = render_stale(&[held()]).replace("stale_leases", "leases");
    assert_eq!(
        leases,
        r#"{"leases":[{"message_id":"m","lease_generation":"3","delivery":"18446744073709551615"}]}"#
    );
    let body = leases.replace("{\"leases", "{\"group\":\"g\",\"leases");
    let ack = AckRequest::parse(Kind::Topic, body.as_bytes()).expect("valid");
    assert_eq!((ack.group.as_deref(), ack.leases), (Some("g"), vec![held()]));
    assert_eq!(NackRequest::parse(Kind::Topic, body.as_bytes()).map(|nack| nack.leases), Ok(vec![held()]));
    assert_eq!(ExtendRequest::parse(Kind::Topic, body.as_bytes()).map(|call| call.leases), Ok(vec![held()]));
    refuses(AckRequest::parse(Kind::Topic, leases.as_bytes()), ErrorCode::MissingField, "group");
    let short = br#"{"group":"g","leases":[{"message_id":"m","lease_generation":3}]}"#;
    refuses(AckRequest::parse(Kind::Topic, short), ErrorCode::MissingField, "leases[0].delivery");
    refuses(AckRequest::parse(Kind::Queue, leases.as_bytes()), ErrorCode::UnknownField, "leases[0].delivery");
}

#[test]
fn a_leased_message_shows_its_delivery() {
    let event = Event::from_stored(r#"{"id":"1","source":"/s","type":"t"}"#, None).expect("valid");
    let message = LeasedMessage {
        message_id: "m",
        event: &event,
        data_url: None,
        lease_generation: 3,
        delivery: Some(7),
        delivery_count: 1,
        lease_expire_time: 0,
    };
    let shown: Value = serde_json::from_str(&render_leased(std::slice::from_ref(&message))).expect("json");
    let lease = json!({ "message_id": "m", "lease_generation": "3", "delivery": "7" });
    assert_eq!(shown["messages"][0]["lease"], lease);
    let batch: Value = serde_json::from_str(&render_leased_batch(&[message])).expect("json");
    assert_eq!(batch[0]["millponddelivery"], "7");
}

#[test]
fn a_settle_sends_to_queues_and_topics() {
    let settle = |kind, send: Value| {
        let mut body = json!({ "sends": [send] });
        body["sends"][0]["events"] = json!([{ "id": "1", "source": "/s", "type": "t" }]);
        if kind == Kind::Topic {
            body["group"] = json!("g");
        }
        let settle = SettleRequest::parse(kind, body.to_string().as_bytes())?;
        Ok(settle.sends.first().expect("one").to.clone())
    };
    let topic = |topic: Option<&str>, partition: Option<&str>| SendTo::Topic {
        topic: topic.map(|id| TopicReference::Id(id.to_owned())),
        partition: partition.map(str::to_owned),
    };
    for kind in [Kind::Queue, Kind::Topic] {
        assert_eq!(settle(kind, json!({})), Ok(SendTo::Own));
        let queue = SendTo::Queue(QueueReference::Id("q".to_owned()));
        assert_eq!(settle(kind, json!({ "queue": "q" })), Ok(queue));
        assert_eq!(settle(kind, json!({ "topic": "T" })), Ok(topic(Some("T"), None)));
        assert_eq!(settle(kind, json!({ "topic": "T", "partition": "p" })), Ok(topic(Some("T"), Some("p"))));
        let both = json!({ "queue": "q", "topic": "t" });
        refuses(settle(kind, both), ErrorCode::InvalidField, "sends[0].topic");
        let both = json!({ "queue": "q", "partition": "p" });
        refuses(settle(kind, both), ErrorCode::InvalidField, "sends[0].partition");
    }
    assert_eq!(settle(Kind::Topic, json!({ "partition": "p" })), Ok(topic(None, Some("p"))));
    let alone = settle(Kind::Queue, json!({ "partition": "p" }));
    refuses(alone, ErrorCode::InvalidField, "sends[0].partition");
}

#[test]
fn a_topic_and_a_group_have_the_settings_that_concern_them() {
    let body = |kind, body: Value| QueueBody::parse(kind, body.to_string().as_bytes());
    let topic = json!({ "spec": { "retention": "60s", "delay": "1s" } });
    assert!(body(Kind::Topic, topic.clone()).is_ok());
    refuses(body(Kind::Group, topic), ErrorCode::UnknownField, "spec.delay");
    let group = json!({ "spec": { "visibility_timeout": "60s" }, "start": "latest" });
    assert_eq!(body(Kind::Group, group).expect("valid").start, Some(Start::Latest));
    for (kind, spec) in [
        (Kind::Topic, "visibility_timeout"),
        (Kind::Topic, "max_deliveries"),
        (Kind::Group, "at_limit"),
        (Kind::Group, "dead_letter_queue"),
        (Kind::Group, "finished_retention"),
    ] {
        let given = json!({ "spec": { spec: null } });
        refuses(body(kind, given), ErrorCode::UnknownField, &format!("spec.{spec}"));
    }
    refuses(body(Kind::Topic, json!({ "start": "latest" })), ErrorCode::UnknownField, "start");

    let environment = EnvironmentName::new("a", "b", "c").expect("valid");
    let name = format!("{environment}/topics/T");
    assert_eq!(body(Kind::Topic, json!({ "name": name })).expect("valid").name.expect("given").id(), "T");
    refuses(body(Kind::Group, json!({ "name": name })), ErrorCode::InvalidField, "name");

    let whole = QueueUpdate::parse(Kind::Topic, b"", Some("spec")).expect("valid").mask;
    assert_eq!((whole.of("retention"), whole.of("max_deliveries")), (Naming::Whole, Naming::Kept));
    let other = QueueUpdate::parse(Kind::Topic, b"", Some("spec.max_deliveries"));
    refuses(other, ErrorCode::InvalidField, "update_mask");
}

#[test]
fn a_peek_into_a_topic_knows_two_states() {
    let peek = |body: &[u8]| PeekRequest::parse(Kind::Topic, body);
    let whole =
        PeekRequest { max_messages: 1, state: MessageState::Delayed, partition: Some("p".to_owned()) };
    assert_eq!(peek(br#"{"max_messages":1,"state":"delayed","partition":"p"}"#), Ok(whole));
    refuses(peek(br#"{"state":"leased"}"#), ErrorCode::InvalidField, "state");
    let of_queue = PeekRequest::parse(Kind::Queue, br#"{"partition":"p"}"#);
    refuses(of_queue, ErrorCode::UnknownField, "partition");
}
