//! Pushes in Vercel's form, header by header.

use millpond_core::id::{LeaseGeneration, MessageId, Sequence};
use proptest::prelude::*;

use super::*;

const MESSAGE: &str = "msg_01KC9Z1V0G00000004Q3HRAZRX";
const SENT: &str =
    r#"{"source":"/topics/orders","type":"com.vercel.queue.v2beta","datacontenttype":"text/plain"}"#;

fn content(attributes: &str, kind: row::DataKind, data: &[u8]) -> Arc<MessageContent> {
    let data = Data::Whole(data.into());
    Arc::new(MessageContent { attributes: attributes.into(), data_kind: kind, data })
}

fn grant() -> Grant {
    Grant {
        delivery: Sequence(7),
        message: MESSAGE.parse::<MessageId>().expect("an id"),
        generation: LeaseGeneration(1 << 20),
        delivery_count: 3,
        leased_at: Timestamp::from_millis(1_800_000_000_000),
        lease_until: Timestamp::from_millis(1_800_000_300_000),
        sent_at: Timestamp::from_millis(1_799_999_990_007),
        expires_at: Timestamp::from_millis(1_800_086_390_007),
        dead_letter: None,
    }
}

fn rendered(content: &Arc<MessageContent>, mode: Mode) -> Result<Rendered, FormError> {
    let grant = grant();
    let push = Push {
        topic: "orders",
        group: "app_Sroute_Dts",
        grant: &grant,
        content,
        mode,
        region: None,
        token: Some("a.b.c"),
        now: Timestamp::from_millis(1_800_000_000_120),
    };
    Form::VercelV2Beta.render(&push)
}

/// All headers, one a line, in the order of their names.
fn lines(rendered: &Rendered) -> Vec<String> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}", value.to_str().expect("printable ascii"))
    };
    let mut lines: Vec<String> = rendered.headers.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_push_inline_has_the_lease_and_the_data() {
    let push =
        rendered(&content(SENT, row::DataKind::Text, b"hello"), Mode::Inline).expect("it can be written");
    let handle = ReceiptHandle {
        message_id: MESSAGE.to_owned(),
        group_tag: group_tag("app_Sroute_Dts"),
        delivery: 7,
        generation: 1 << 20,
    };
    let expected = [
        &format!("ce-id: {MESSAGE}"),
        "ce-source: /topic/orders/consumer/app_Sroute_Dts",
        "ce-specversion: 1.0",
        "ce-time: 2027-01-15T08:00:00.120Z",
        "ce-type: com.vercel.queue.v2beta",
        "ce-vqsconsumergroup: app_Sroute_Dts",
        "ce-vqscreatedat: 2027-01-15T07:59:50.007Z",
        "ce-vqsdeliverycount: 3",
        "ce-vqsexpiresat: 2027-01-16T07:59:50.007Z",
        &format!("ce-vqsmessageid: {MESSAGE}"),
        "ce-vqsqueuename: orders",
        &format!("ce-vqsreceipthandle: {}", handle.render()),
        "ce-vqsvisibilitydeadline: 2027-01-15T08:05:00.000Z",
        "content-type: text/plain",
        "x-vercel-oidc-token: a.b.c",
    ];
    assert_eq!(lines(&push), expected);
    assert_eq!(push.body, "hello");
}

#[test]
fn a_push_by_reference_has_neither_lease_nor_data() {
    let push =
        rendered(&content(SENT, row::DataKind::Text, b"hello"), Mode::Reference).expect("it can be written");
    let expected = [
        &format!("ce-id: {MESSAGE}"),
        "ce-source: /topic/orders/consumer/app_Sroute_Dts",
        "ce-specversion: 1.0",
        "ce-time: 2027-01-15T08:00:00.120Z",
        "ce-type: com.vercel.queue.v2beta",
        "ce-vqsconsumergroup: app_Sroute_Dts",
        &format!("ce-vqsmessageid: {MESSAGE}"),
        "ce-vqsqueuename: orders",
        "x-vercel-oidc-token: a.b.c",
    ];
    assert_eq!(lines(&push), expected);
    assert!(push.body.is_empty());
}

#[test]
fn traces_go_with_the_push_however_the_message_was_sent() {
    let traced = |attributes: &str| {
        let push = rendered(&content(attributes, row::DataKind::Json, b"{}"), Mode::Inline);
        let headers = push.expect("it can be written").headers;
        let text = |name: &str| headers.get(name).map(|value| value.to_str().expect("ascii").to_owned());
        [
            text("x-vercel-queue-traceparent"),
            text("x-vercel-queue-tracestate"),
            text("x-vercel-queue-baggage"),
            text("content-type"),
        ]
    };
    let some = |text: &str| Some(text.to_owned());
    // As an event of the native API, with extensions of these names.
    let event = r#"{"id":"1","source":"/s","type":"t","traceparent":"00-aa-bb-01","tracestate":"k=v","baggage":"a=1"}"#;
    let expected = [some("00-aa-bb-01"), some("k=v"), some("a=1"), some("application/json")];
    assert_eq!(traced(event), expected);
    let event =
        r#"{"id":"1","source":"/s","type":"t","traceparent":7,"baggage":"grün","datacontenttype":"a/b"}"#;
    assert_eq!(traced(event), [None, None, None, some("a/b")]);
}

#[test]
fn data_that_is_large_or_empty_goes_by_reference() {
    let bytes = usize::try_from(INLINE_BYTES_MAX).expect("it fits");
    for (data, mode) in [
        (vec![], Mode::Reference),
        (vec![0], Mode::Inline),
        (vec![0; bytes], Mode::Inline),
        (vec![0; bytes + 1], Mode::Reference),
    ] {
        assert_eq!(Mode::of(&content("{}", row::DataKind::Binary, &data)), mode, "{}", data.len());
    }
    let data = Data::Chunked { bytes: 1 << 20 };
    let chunked = MessageContent { attributes: "{}".into(), data_kind: row::DataKind::Binary, data };
    assert_eq!(Mode::of(&chunked), Mode::Reference);
    let chunked = Arc::new(chunked);
    assert_eq!(rendered(&chunked, Mode::Inline).err(), Some(FormError::NotInline));
    assert!(rendered(&chunked, Mode::Reference).is_ok());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let damaged = content("{", row::DataKind::Json, b"{}");
    assert!(matches!(rendered(&damaged, Mode::Inline), Err(FormError::Unreadable(_))));
    let content = content(SENT, row::DataKind::Text, b"hello");
    let grant = grant();
    let push = Push {
        topic: "orders",
        group: "a\r\nx: y",
        grant: &grant,
        content: &content,
        mode: Mode::Inline,
        region: None,
        token: None,
        now: Timestamp::ZERO,
    };
    let error = Form::VercelV2Beta.render(&push).expect_err("a line break");
    let expected = r#"ce-source is "/topic/orders/consumer/a\r\nx: y", expected printable ascii"#;
    assert_eq!(error.to_string(), expected);
    let long = "é".repeat(1_000);
    let error = Form::VercelV2Beta.render(&Push { group: &long, ..push }).expect_err("no ascii");
    assert!(error.to_string().len() < 1_300, "{error}");
    let error = Form::VercelV2Beta
        .render(&Push { group: "g", token: Some("a\nb"), ..push })
        .expect_err("a line break");
    assert_eq!(error.to_string(), r#"x-vercel-oidc-token is "", expected printable ascii"#);
    let shown =
        format!("{:?}", Form::VercelV2Beta.render(&Push { group: "g", token: Some("a.b.c"), ..push }));
    assert!(shown.contains("x-vercel-oidc-token") && !shown.contains("a.b.c"), "{shown}");
}

proptest! {
    #[test]
    fn any_names_attributes_and_times_are_written_or_refused(
        topic: String, token: String, value: String, millis: i64, count: u32,
    ) {
        let attributes = serde_json::json!({"datacontenttype": value, "traceparent": value, "baggage": topic});
        let content = content(&attributes.to_string(), row::DataKind::Binary, b"x");
        let time = Timestamp::from_millis(millis);
        let grant = Grant { delivery_count: count, sent_at: time, expires_at: time, lease_until: time, ..grant() };
        let push = Push {
            topic: &topic,
            group: "g",
            grant: &grant,
            content: &content,
            mode: Mode::Inline,
            region: None,
            token: Some(&token),
            now: time,
        };
        if let Ok(push) = Form::VercelV2Beta.render(&push) {
            prop_assert!(push.headers.values().all(|value| value.to_str().is_ok() || value.is_sensitive()));
        }
    }
}
