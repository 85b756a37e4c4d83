//! Messages as resources, peeks and dead letters.

use millpond_api::dead_letters::{
    ListDeadLettersRequest, RedriveRequest, ReplayRequest, Selection, TimeSpan, render_dead_letters,
    render_redriven, render_replayed,
};
use millpond_api::message::{Message, MessageDeath, MessageState, PeekRequest, render_messages};
use millpond_api::name::{EnvironmentName, Kind, QueueName, QueueReference};
use millpond_api::{DataKind, ErrorCode, Event, InputError, limits};
use serde_json::{Value, json};

fn queue(id: &str) -> QueueName {
    QueueName::new(EnvironmentName::new("acme", "shop", "prod").expect("valid"), id).expect("valid")
}

fn message() -> Message {
    let attributes = r#"{"id":"1","source":"/s","type":"t"}"#;
    Message {
        message_id: "msg_1".to_owned(),
        home: queue("emails").into(),
        state: MessageState::Ready,
        event: Event::from_stored(attributes, Some((DataKind::Json, b"{\"a\" : 1.0}".to_vec())))
            .expect("valid"),
        data_url: None,
        priority: -7,
        delivery_count: 1,
        failure_count: 2,
        lost_lease_count: 3,
        send_time: 0,
        visible_time: None,
        lease_expire_time: None,
        expire_time: 1_791_369_000_500,
        dead_letter: None,
        finish_time: None,
        size_bytes: u64::MAX,
    }
}

#[test]
fn a_message_shows_what_applies() {
    let expected = concat!(
        r#"{"message_id":"msg_1","queue":"orgs/acme/projects/shop/envs/prod/queues/emails","state":"ready","#,
        r#""event":{"id":"1","source":"/s","type":"t","data":{"a" : 1.0}},"priority":-7,"delivery_count":1,"#,
        r#""failure_count":2,"lost_lease_count":3,"send_time":"1970-01-01T00:00:00Z","#,
        r#""expire_time":"2026-10-07T10:30:00.500Z","size_bytes":"18446744073709551615"}"#
    );
    assert_eq!(message().render(), expected);
    let death = MessageDeath { time: 1_000, reason: "leases_lost", queue: queue("other").to_string() };
    let full = Message {
        state: MessageState::Dead,
        visible_time: Some(2_000),
        lease_expire_time: Some(3_000),
        finish_time: Some(4_000),
        dead_letter: Some(death),
        ..message()
    };
    let shown: Value = serde_json::from_str(&full.render()).expect("json");
    for (name, value) in [
        ("state", "dead"),
        ("visible_time", "1970-01-01T00:00:02Z"),
        ("lease_expire_time", "1970-01-01T00:00:03Z"),
        ("finish_time", "1970-01-01T00:00:04Z"),
        ("dead_letter_time", "1970-01-01T00:00:01Z"),
        ("dead_letter_reason", "leases_lost"),
        ("dead_letter_queue", "orgs/acme/projects/shop/envs/prod/queues/other"),
    ] {
        assert_eq!(shown[name], value);
    }
}

#[test]
fn data_that_is_elsewhere_has_an_address() {
    let event = Event::from_stored(r#"{"id":"1","source":"/s","type":"t"}"#, None).expect("valid");
    let large = Message { event, data_url: Some("/v1/x/data".to_owned()), ..message() };
    let shown: Value = serde_json::from_str(&large.render()).expect("json");
    assert_eq!(shown["event"], json!({"id": "1", "source": "/s", "type": "t", "data_url": "/v1/x/data"}));
}

#[test]
fn lists_hold_messages() {
    assert_eq!(render_messages(&[]), r#"{"messages":[]}"#);
    let page: Value = serde_json::from_str(&render_dead_letters(&[message(), message()], "t")).expect("json");
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["next_page_token"], "t");
    assert_eq!(render_replayed(3), r#"{"replayed_count":"3"}"#);
    assert_eq!(render_redriven(3, 1), r#"{"redriven_count":"3","skipped_count":"1"}"#);
}

#[test]
fn a_peek_has_defaults_and_bounds() {
    let ready = PeekRequest { max_messages: 10, state: MessageState::Ready, partition: None };
    for body in ["", "{}", r#"{"max_messages":null,"state":null}"#] {
        assert_eq!(PeekRequest::parse(Kind::Queue, body.as_bytes()), Ok(ready.clone()), "{body}");
    }
    for state in [
        MessageState::Completed,
        MessageState::Dead,
        MessageState::Delayed,
        MessageState::Leased,
        MessageState::Ready,
    ] {
        let body = json!({"max_messages": limits::PEEK_MESSAGES_MAX, "state": state.as_str()}).to_string();
        assert_eq!(
            PeekRequest::parse(Kind::Queue, body.as_bytes()),
            Ok(PeekRequest { max_messages: 100, state, partition: None })
        );
    }
    for (body, field) in [
        (json!({"max_messages": 0}), "max_messages"),
        (json!({"max_messages": 101}), "max_messages"),
        (json!({"state": "cancelled"}), "state"),
        (json!({"state": "Ready"}), "state"),
        (json!({"after": ""}), "after"),
    ] {
        let error = PeekRequest::parse(Kind::Queue, body.to_string().as_bytes()).expect_err(field);
        assert_eq!(error.field.as_deref(), Some(field));
    }
}

fn list(parameters: &[(&str, &str)]) -> Result<ListDeadLettersRequest, InputError> {
    let find = |name: &str| parameters.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    ListDeadLettersRequest::parse(&queue("emails"), find)
}

#[test]
fn a_list_of_dead_letters_has_a_span_and_pages() {
    let all = list(&[]).expect("valid");
    assert_eq!((all.page_size, all.died, all.after.clone()), (50, TimeSpan::default(), None));
    assert_eq!(list(&[("page_size", "101")]).map(|list| list.page_size), Ok(limits::DEAD_LETTERS_PAGE_MAX));
    let times = [("start_time", "1970-01-01T00:00:01Z"), ("end_time", "1970-01-01T00:00:02+00:00")];
    let some = list(&times).expect("valid");
    assert_eq!(some.died, TimeSpan { start: Some(1_000), end: Some(2_000) });
    let token = some.token_after("17-4");
    // The same moment in another notation is the same list.
    let next = [times[0], ("end_time", "1970-01-01T00:00:02Z"), ("page_token", token.as_str())];
    assert_eq!(list(&next).map(|list| list.after), Ok(Some("17-4".to_owned())));
    for parameters in [vec![("page_token", token.as_str())], vec![times[0], ("page_token", token.as_str())]] {
        assert_eq!(list(&parameters).map_err(|error| error.code), Err(ErrorCode::PageTokenInvalid));
    }
    let elsewhere = ListDeadLettersRequest::parse(&queue("other"), |name| {
        next.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    });
    assert_eq!(elsewhere.map_err(|error| error.code), Err(ErrorCode::PageTokenInvalid));
    for (parameters, field) in [
        (vec![("start_time", "yesterday")], "start_time"),
        (vec![("end_time", "2026-10-07")], "end_time"),
        (vec![times[0], ("end_time", "1970-01-01T00:00:01Z")], "end_time"),
        (vec![("page_size", "x")], "page_size"),
        (vec![("page_token", "x")], "page_token"),
    ] {
        assert_eq!(list(&parameters).expect_err(field).field.as_deref(), Some(field));
    }
}

#[test]
fn replays_and_redrives_choose_by_time_and_id() {
    assert_eq!(ReplayRequest::parse(b""), Ok(ReplayRequest::default()));
    assert_eq!(RedriveRequest::parse(b"{}"), Ok(RedriveRequest::default()));
    let times = json!({ "start_time": "1970-01-01T00:00:01Z", "end_time": "1970-01-01T00:00:02Z" });
    let span = TimeSpan { start: Some(1_000), end: Some(2_000) };
    let replay = ReplayRequest::parse(times.to_string().as_bytes()).expect("valid");
    assert_eq!(replay.selection, Selection::Died(span));
    let later = ReplayRequest::parse(br#"{"start_time":"1970-01-01T00:00:01Z"}"#).expect("valid");
    assert_eq!(later.selection, Selection::Died(TimeSpan { end: None, ..span }));
    let moved = json!({
        "destination": "orgs/acme/projects/shop/envs/prod/queues/other", "message_ids": ["a", "b"],
    });
    let redrive = RedriveRequest::parse(moved.to_string().as_bytes()).expect("valid");
    assert_eq!(redrive.destination, Some(QueueReference::Name(queue("other"))));
    assert_eq!(redrive.selection, Selection::Messages(vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn replays_and_redrives_have_bounds() {
    let ids = |count: usize, bytes: usize| json!({ "message_ids": vec!["m".repeat(bytes); count] });
    for (body, field) in [
        (ids(100, 128), None),
        (ids(101, 1), Some("message_ids")),
        (ids(0, 1), Some("message_ids")),
        (ids(1, 129), Some("message_ids[0]")),
        (ids(1, 0), Some("message_ids[0]")),
        (json!({"end_time": 5}), Some("end_time")),
        (json!({"end_time": "2026-10-07T12:30:00Z", "message_ids": ["m"]}), Some("message_ids")),
        (json!({"start_time": "2026-10-07T12:30:00Z", "end_time": "2026-10-07T12:30:00Z"}), Some("end_time")),
        (json!({"force": true}), Some("force")),
    ] {
        let text = body.to_string();
        let refused =
            [ReplayRequest::parse(text.as_bytes()).err(), RedriveRequest::parse(text.as_bytes()).err()];
        for error in refused {
            assert_eq!(error.and_then(|error| error.field).as_deref(), field, "{body}");
        }
    }
    let nowhere = RedriveRequest::parse(br#"{"destination":"No"}"#).expect_err("no id");
    assert_eq!(nowhere.field.as_deref(), Some("destination"));
    assert!(ReplayRequest::parse(br#"{"destination":"no"}"#).is_err());
}
