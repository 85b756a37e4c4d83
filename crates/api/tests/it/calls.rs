//! Bodies and answers of the verbs, each bound at its limit and one past it.

use std::fmt::Debug;
use std::time::Duration;

use millpond_api::lease::{LeaseRequest, LeasedMessage, render_leased, render_leased_batch};
use millpond_api::name::{Kind, QueueReference};
use millpond_api::purge::{PurgeRequest, PurgeTarget, render_purged};
use millpond_api::send::{
    SendForm, SendRequest, has_event_headers, parse_delay, parse_priority, parse_time_to_live, render_sent,
};
use millpond_api::settle::{
    AckRequest, ExtendRequest, LeaseId, NackRequest, SendTo, SettleRequest, render_settled, render_stale,
};
use millpond_api::{AttributeValue, DataKind, ErrorCode, Event, InputError, limits};
use serde_json::{Value, json};

/// Each body, and what becomes of it: `ok`, or a part of the sentence that refuses it.
fn check<T: Debug>(parse: impl Fn(&[u8]) -> Result<T, InputError>, cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        match parse(body.as_bytes()) {
            Ok(_) => assert_eq!(*expected, "ok", "{body}"),
            Err(error) => assert!(error.detail.contains(expected), "{body}: {}", error.detail),
        }
    }
}

#[test]
fn a_lease_call_has_defaults() {
    let defaults = LeaseRequest {
        max_messages: 1,
        min_messages: 1,
        max_wait: None,
        visibility_timeout: None,
        wait: Duration::ZERO,
        group: None,
    };
    for body in ["", " \n", "{}", r#"{"max_messages":null}"#] {
        assert_eq!(LeaseRequest::parse(Kind::Queue, body.as_bytes()), Ok(defaults.clone()), "{body}");
    }
    let body =
        br#"{"max_messages":100,"min_messages":100,"visibility_timeout":"43200s","wait":"20s","max_wait":"0s"}"#;
    let all = LeaseRequest {
        max_messages: 100,
        min_messages: 100,
        max_wait: Some(Duration::ZERO),
        visibility_timeout: Some(Duration::from_secs(43_200)),
        wait: Duration::from_secs(20),
        group: None,
    };
    assert_eq!(LeaseRequest::parse(Kind::Queue, body), Ok(all));
}

#[test]
fn a_lease_call_has_bounds() {
    check(
        |body| LeaseRequest::parse(Kind::Queue, body),
        &[
            (r#"{"max_messages":1}"#, "ok"),
            (r#"{"max_messages":0}"#, "max_messages is 0, expected an integer from 1 to 100"),
            (r#"{"max_messages":101}"#, "max_messages is 101, expected an integer from 1 to 100"),
            (r#"{"max_messages":"10"}"#, "expected an integer from 1 to 100"),
            (r#"{"max_messages":5,"min_messages":5}"#, "ok"),
            (
                r#"{"max_messages":5,"min_messages":6}"#,
                "min_messages is 6, expected at most max_messages, which is 5",
            ),
            (r#"{"min_messages":2}"#, "expected at most max_messages, which is 1"),
            (r#"{"min_messages":0}"#, "expected an integer from 1 to 100"),
            (r#"{"visibility_timeout":"1s"}"#, "ok"),
            (
                r#"{"visibility_timeout":"0s"}"#,
                "visibility_timeout is \"0s\", expected a duration from 1s to 43200s",
            ),
            (r#"{"visibility_timeout":"0.999s"}"#, "expected a duration from 1s to 43200s"),
            (r#"{"visibility_timeout":"43201s"}"#, "expected a duration from 1s to 43200s"),
            (r#"{"visibility_timeout":30}"#, "visibility_timeout is 30, expected a string"),
            (r#"{"wait":"0s"}"#, "ok"),
            (r#"{"wait":"20.001s"}"#, "wait is \"20.001s\", expected a duration from 0s to 20s"),
            (r#"{"wait":"-1s"}"#, "expected a duration in seconds"),
            (r#"{"max_wait":"20s"}"#, "ok"),
            (r#"{"max_wait":"20.001s"}"#, "max_wait is \"20.001s\", expected a duration from 0s to 20s"),
            (r#"{"max":1}"#, "max is not a field"),
            ("[]", "body is [], expected an object"),
        ],
    );
}

#[test]
fn settling_calls_name_1_to_100_leases() {
    let leases = |count: usize| {
        let lease = r#"{"message_id":"m","lease_generation":"1"}"#;
        format!(r#"{{"leases":[{}]}}"#, vec![lease; count].join(","))
    };
    for (count, fits) in [(0, false), (1, true), (100, true), (101, false)] {
        assert_eq!(AckRequest::parse(Kind::Queue, leases(count).as_bytes()).is_ok(), fits, "{count}");
        assert_eq!(NackRequest::parse(Kind::Queue, leases(count).as_bytes()).is_ok(), fits, "{count}");
        assert_eq!(ExtendRequest::parse(Kind::Queue, leases(count).as_bytes()).is_ok(), fits, "{count}");
    }
    let error = AckRequest::parse(Kind::Queue, leases(101).as_bytes()).expect_err("one too many");
    assert_eq!(error.detail, "leases is an array of 101, expected an array of 1 to 100 items");
}

#[test]
fn a_lease_is_named_by_message_and_generation() {
    let long = "m".repeat(limits::MESSAGE_ID_BYTES_MAX);
    let lease = |id: &str, generation: &str| {
        let body = format!(r#"{{"leases":[{{"message_id":"{id}","lease_generation":{generation}}}]}}"#);
        AckRequest::parse(Kind::Queue, body.as_bytes()).map(|request| request.leases)
    };
    let number = |generation| {
        Ok(vec![LeaseId { message_id: "m".to_owned(), lease_generation: generation, delivery: None }])
    };
    assert_eq!(lease("m", "7"), number(7));
    assert_eq!(lease("m", "\"18446744073709551615\""), number(u64::MAX));
    assert!(lease(&long, "1").is_ok());
    assert!(lease(&format!("{long}m"), "1").is_err());
    for generation in ["\"\"", "-1", "1.0", "\"1s\"", "18446744073709551616", "true"] {
        assert!(lease("m", generation).is_err(), "{generation}");
    }
    check(
        |body| AckRequest::parse(Kind::Queue, body),
        &[
            (r#"{"leases":[{"message_id":"m"}]}"#, "leases[0].lease_generation is missing"),
            (r#"{"leases":[{"message_id":"","lease_generation":1}]}"#, "expected a string of 1 to 128 bytes"),
            (r#"{"leases":[{"id":"m"}]}"#, "leases[0].id is not a field"),
            (r#"{"leases":{}}"#, "leases is {}, expected an array"),
            ("{}", "leases is missing"),
            ("", "body is not valid json"),
            (r#"{"leases":[],"delay":"1s"}"#, "delay is not a field, known are leases"),
        ],
    );
}

#[test]
fn a_nack_has_a_delay_and_an_extension_a_timeout() {
    let with = |field: &str| {
        format!(r#"{{"leases":[{{"message_id":"m","lease_generation":1}}],{field}}}"#).into_bytes()
    };
    let delay = |text: &str| {
        NackRequest::parse(Kind::Queue, &with(&format!(r#""delay":"{text}""#))).map(|nack| nack.delay)
    };
    assert_eq!(delay("0s"), Ok(Some(Duration::ZERO)));
    assert_eq!(delay("43200s"), Ok(Some(limits::DELAY_MAX)));
    assert!(delay("43200.001s").is_err());
    assert_eq!(NackRequest::parse(Kind::Queue, &with(r#""delay":null"#)).map(|nack| nack.delay), Ok(None));
    let timeout = |text: &str| {
        let body = with(&format!(r#""visibility_timeout":"{text}""#));
        ExtendRequest::parse(Kind::Queue, &body).map(|extend| extend.visibility_timeout)
    };
    assert_eq!(timeout("1s"), Ok(Some(limits::VISIBILITY_TIMEOUT_MIN)));
    assert!(timeout("0s").is_err());
    assert!(timeout("43201s").is_err());
}

#[test]
fn a_send_has_a_delay() {
    let delay = |text: &str| {
        let body = format!(r#"{{"events":[{{"id":"1","source":"/s","type":"t"}}],"delay":{text}}}"#);
        SendRequest::parse(SendForm::Native, body.as_bytes()).map(|send| send.delay)
    };
    assert_eq!(delay("null"), Ok(None));
    assert_eq!(delay("\"0s\""), Ok(Some(Duration::ZERO)));
    assert_eq!(delay("\"43200s\""), Ok(Some(limits::DELAY_MAX)));
    let error = delay("\"43201s\"").expect_err("too long");
    assert_eq!(error.detail, "delay is \"43201s\", expected a duration from 0s to 43200s");
    assert_eq!(error.limit.as_deref(), Some("43200s"));
    assert_eq!(parse_delay("delay", "5s"), Ok(Duration::from_secs(5)));
    assert!(parse_delay("delay", "43201s").is_err());
}

#[test]
fn options_of_a_send_may_stand_in_the_query() {
    assert_eq!(parse_time_to_live("ttl", "1s"), Ok(limits::TTL_MIN));
    assert_eq!(parse_time_to_live("ttl", "1209600s"), Ok(limits::TTL_MAX));
    assert!(parse_time_to_live("ttl", "0.999s").is_err());
    assert!(parse_time_to_live("ttl", "1209600.001s").is_err());
    assert_eq!(parse_priority("priority", "-2147483648"), Ok(i32::MIN));
    assert_eq!(parse_priority("priority", "2147483647"), Ok(i32::MAX));
    for text in ["", "2147483648", "1.0", "high"] {
        let error = parse_priority("priority", text).expect_err(text);
        assert_eq!(error.field.as_deref(), Some("priority"));
    }
}

fn lease_text(number: usize) -> String {
    format!(r#"{{"message_id":"m{number}","lease_generation":"{number}"}}"#)
}

fn lease_id(number: usize) -> LeaseId {
    LeaseId { message_id: format!("m{number}"), lease_generation: number as u64, delivery: None }
}

#[test]
fn a_settle_call_holds_acks_nacks_extends_and_sends() {
    let body = r#"{"acks":[{"message_id":"m1","lease_generation":1}],
        "nacks":[{"message_id":"m2","lease_generation":"2","delay":"5s"},{"message_id":"m3","lease_generation":3}],
        "extends":[{"message_id":"m4","lease_generation":4,"visibility_timeout":"60s"},{"message_id":"m5","lease_generation":5}],
        "sends":[{"queue":"next","events":[{"id":"1","source":"/s","type":"t"}],"delay":"1s","priority":-7,"ttl":"60s"},
            {"events":[{"id":"2","source":"/s","type":"t"},{"id":"3","source":"/s","type":"t"}]}],
        "require":"all"}"#;
    let request = SettleRequest::parse(Kind::Queue, body.as_bytes()).expect("valid");
    assert_eq!(request.leases().cloned().collect::<Vec<_>>(), (1..=5).map(lease_id).collect::<Vec<_>>());
    assert_eq!(request.nacks, [(lease_id(2), Some(Duration::from_secs(5))), (lease_id(3), None)]);
    assert_eq!(request.extends, [(lease_id(4), Some(Duration::from_secs(60))), (lease_id(5), None)]);
    assert!(request.require_all);
    let [first, second] = &request.sends[..] else { panic!("two sends") };
    assert_eq!(first.to, SendTo::Queue(QueueReference::Id("next".to_owned())));
    assert_eq!((first.delay, first.priority), (Some(Duration::from_secs(1)), -7));
    assert_eq!((first.time_to_live, first.events.len()), (Some(Duration::from_secs(60)), 1));
    assert_eq!((&second.to, second.delay, second.priority), (&SendTo::Own, None, 0));
    assert_eq!((second.time_to_live, second.events.len()), (None, 2));
}

#[test]
fn a_settle_call_has_bounds() {
    let leases = |count: usize| (0..count).map(lease_text).collect::<Vec<_>>().join(",");
    let body = |acks, nacks, extends| {
        format!(
            r#"{{"acks":[{}],"nacks":[{}],"extends":[{}]}}"#,
            leases(acks),
            leases(nacks),
            leases(extends)
        )
    };
    let events = |count: usize| vec![r#"{"id":"1","source":"/s","type":"t"}"#; count].join(",");
    let sends = |counts: [usize; 2]| {
        let [one, two] = counts.map(|count| format!(r#"{{"events":[{}]}}"#, events(count)));
        format!(r#"{{"sends":[{one},{two}]}}"#)
    };
    check(
        |body| SettleRequest::parse(Kind::Queue, body),
        &[
            (&body(40, 30, 30), "ok"),
            (
                &body(40, 30, 31),
                "extends is an array of 31, expected at most 100 leases in acks, nacks and extends",
            ),
            (&body(101, 0, 0), "acks is an array of 101, expected an array of 0 to 100 items"),
            (&body(0, 0, 0), "expected a lease in acks, nacks or extends, or a send"),
            ("{}", "body is {}, expected a lease in acks, nacks or extends, or a send"),
            ("", "body is not valid json"),
            (&sends([50, 50]), "ok"),
            (&sends([50, 51]), "sends[1].events is an array of 51, expected at most 100 events in all sends"),
            (&sends([1, 0]), "sends[1].events is an array of 0, expected an array of 1 to 100 items"),
            (r#"{"sends":[{}]}"#, "sends[0].events is missing"),
            (
                r#"{"sends":[{"events":[{"id":"1","source":"/s","type":"t"}],"ttl":"0.5s"}]}"#,
                "sends[0].ttl is",
            ),
            (
                r#"{"sends":[{"events":[{"id":"1","source":"/s","type":"t"}],"priority":1.5}]}"#,
                "sends[0].priority is 1.5",
            ),
            (
                r#"{"sends":[{"events":[{"id":"1","source":"/s","type":"t"}],"queue":"Q"}]}"#,
                "sends[0].queue is",
            ),
            (
                r#"{"acks":[{"message_id":"m","lease_generation":1,"delay":"1s"}]}"#,
                "acks[0].delay is not a field",
            ),
            (r#"{"nacks":[{"message_id":"m","lease_generation":1,"delay":"43201s"}]}"#, "nacks[0].delay is"),
            (
                r#"{"extends":[{"message_id":"m","lease_generation":1,"visibility_timeout":"0s"}]}"#,
                "extends[0].visibility_timeout is",
            ),
            (r#"{"acks":[],"require":"fresh"}"#, "require is \"fresh\", expected one of all"),
            (r#"{"leases":[]}"#, "leases is not a field"),
        ],
    );
}

#[test]
fn a_purge_has_a_target() {
    let target = |body: &str| PurgeRequest::parse(body.as_bytes()).map(|purge| purge.target);
    for body in ["", "{}", r#"{"target":null}"#, r#"{"target":"waiting"}"#] {
        assert_eq!(target(body), Ok(PurgeTarget::Waiting), "{body}");
    }
    assert_eq!(target(r#"{"target":"dead_letters"}"#), Ok(PurgeTarget::DeadLetters));
    assert_eq!(target(r#"{"target":"all"}"#), Ok(PurgeTarget::All));
    check(
        PurgeRequest::parse,
        &[
            (r#"{"target":"leased"}"#, "target is \"leased\", expected one of all, dead_letters, waiting"),
            (r#"{"force":true}"#, "force is not a field"),
        ],
    );
    assert_eq!(render_purged(u64::MAX), r#"{"purged_count":"18446744073709551615"}"#);
}

#[test]
fn the_form_follows_content_type_then_headers() {
    use SendForm::{Batch, Binary, Native, Structured};
    for (content_type, event_headers, expected) in [
        (Some("application/json"), false, Some(Native)),
        (Some("Application/JSON; charset=UTF-8"), false, Some(Native)),
        (Some("application/json; charset=utf-16"), false, None),
        (Some("application/json"), true, Some(Binary)),
        (Some("image/png"), true, Some(Binary)),
        (None, true, Some(Binary)),
        (Some("application/cloudevents+json"), false, Some(Structured)),
        (Some("APPLICATION/CloudEvents+JSON; charset=utf-8"), true, Some(Structured)),
        (Some("application/cloudevents-batch+json"), true, Some(Batch)),
        (Some("application/cloudevents+avro"), true, None),
        (Some("application/cloudevents"), false, None),
        (Some("text/plain"), false, None),
        (Some("application/jsonx"), false, None),
        (None, false, None),
    ] {
        let form = SendForm::choose(content_type, event_headers);
        assert_eq!(form.as_ref().ok(), expected.as_ref(), "{content_type:?} {event_headers}");
        assert!(form.err().is_none_or(|error| error.code == ErrorCode::UnsupportedMediaType));
    }
    assert!(has_event_headers(["accept", "CE-SpecVersion"]));
    assert!(!has_event_headers(["accept", "x-ce-id"]));
}

fn event() -> Event {
    let attributes = r#"{"id":"1","source":"/s","type":"t","time":"2026-10-07T12:30:00Z","n":5,"millpondmessageid":"own"}"#;
    Event::from_stored(attributes, Some((DataKind::Json, b"{\"a\" : 1.0}".to_vec()))).expect("valid")
}

fn leased(event: &Event) -> LeasedMessage<'_> {
    LeasedMessage {
        message_id: "msg_1",
        event,
        data_url: None,
        delivery: None,
        lease_generation: u64::MAX,
        delivery_count: 2,
        lease_expire_time: 1_791_369_000_500,
    }
}

#[test]
fn a_lease_answer_holds_event_lease_and_counts() {
    assert_eq!(render_leased(&[]), r#"{"messages":[]}"#);
    let event = event();
    let expected = concat!(
        r#"{"messages":[{"message_id":"msg_1","event":{"id":"1","source":"/s","type":"t","#,
        r#""event_time":"2026-10-07T12:30:00Z","extensions":{"n":5,"millpondmessageid":"own"},"data":{"a" : 1.0}},"#,
        r#""lease":{"message_id":"msg_1","lease_generation":"18446744073709551615"},"delivery_count":2,"#,
        r#""lease_expire_time":"2026-10-07T10:30:00.500Z"}]}"#
    );
    assert_eq!(render_leased(&[leased(&event)]), expected);
}

#[test]
fn data_that_is_elsewhere_is_named_by_its_address() {
    let mut event = event();
    event.data = None;
    let message = LeasedMessage { data_url: Some("/v1/x/data"), ..leased(&event) };
    let answer = render_leased(std::slice::from_ref(&message));
    let expected = r#""extensions":{"n":5,"millpondmessageid":"own"},"data_url":"/v1/x/data"},"lease""#;
    assert!(answer.contains(expected), "{answer}");
    let batch = render_leased_batch(&[message]);
    assert!(batch.ends_with(r#","dataref":"/v1/x/data"}]"#), "{batch}");
}

#[test]
fn a_lease_answer_as_a_batch_holds_the_lease_in_extensions() {
    assert_eq!(render_leased_batch(&[]), "[]");
    let event = event();
    let text = render_leased_batch(&[leased(&event), leased(&event)]);
    let events = millpond_api::event::batch::parse(text.as_bytes()).expect("a valid batch");
    assert_eq!(events.len(), 2);
    for received in &events {
        assert_eq!(received.text("millpondmessageid"), Some("msg_1"));
        assert_eq!(received.text("millpondgeneration"), Some("18446744073709551615"));
        assert_eq!(received.text("millponddeliveries"), Some("2"));
        assert_eq!(received.text("millpondleaseend"), Some("2026-10-07T10:30:00.500Z"));
        assert_eq!(received.attribute("n"), Some(&AttributeValue::Integer(5)));
        assert_eq!(received.data, event.data);
    }
}

#[test]
fn the_other_answers_are_lists() {
    assert_eq!(render_sent(&["b", "a\""]), r#"{"message_ids":["b","a\""]}"#);
    assert_eq!(render_sent::<&str>(&[]), r#"{"message_ids":[]}"#);
    let stale = [LeaseId { message_id: "m".to_owned(), lease_generation: 3, delivery: None }];
    let answer: Value = serde_json::from_str(&render_stale(&stale)).expect("json");
    assert_eq!(answer, json!({"stale_leases": [{"message_id": "m", "lease_generation": "3"}]}));
    let settled: Value =
        serde_json::from_str(&render_settled(&stale, &[vec!["a".to_owned()], vec![]])).expect("json");
    assert_eq!(settled["stale_leases"], answer["stale_leases"]);
    assert_eq!(settled["sends"], json!([{"message_ids": ["a"]}, {"message_ids": []}]));
    let echoed =
        AckRequest::parse(Kind::Queue, render_stale(&stale).replace("stale_leases", "leases").as_bytes());
    assert_eq!(echoed.map(|ack| ack.leases), Ok(stale.to_vec()), "what is answered can be sent");
}
