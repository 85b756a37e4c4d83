//! Each call against the server that it is for.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_client::queue::Backoff;
use millpond_client::{
    Client, Data, DeleteQueue, ErrorCode, Event, LeaseOptions, NewQueue, PurgeTarget, QueueSpec, SendOptions,
};

use crate::server::Server;

fn take(max_messages: u32) -> LeaseOptions {
    LeaseOptions { max_messages, ..LeaseOptions::default() }
}

#[tokio::test]
async fn a_queue_is_made_as_it_was_asked_for() {
    let server = Server::start().await;
    let backoff = Backoff { initial: Some(Duration::from_millis(1_500)), ..Backoff::default() };
    let spec = QueueSpec {
        visibility_timeout: Some(Duration::from_secs(45)),
        max_deliveries: Some(7),
        backoff: Some(backoff),
        ..QueueSpec::default()
    };
    let labels = BTreeMap::from([("team".to_owned(), "mail".to_owned())]);
    let new = NewQueue { id: "mail".to_owned(), spec, labels: labels.clone(), ..NewQueue::default() };
    let made = server.client.create_queue(&new).await.expect("it is made");
    assert_eq!((made.id(), &made.meta.labels), ("mail", &labels));
    assert_eq!(made.spec.max_deliveries, Some(7));
    assert_eq!(
        made.spec.backoff.as_ref().and_then(|backoff| backoff.initial),
        Some(Duration::from_millis(1_500))
    );
    assert!(made.spec.others.is_empty(), "the client knows every field: {:?}", made.spec.others);
    let read = server.client.get_queue(&made.name).await.expect("it is there");
    assert_eq!((&read.uid, &read.spec), (&made.uid, &made.spec));

    let error = server.client.create_queue(&new).await.expect_err("it is there");
    assert_eq!(error.code(), Some(&ErrorCode::QueueAlreadyExists));
    server.stop().await;
}

#[tokio::test]
async fn what_was_sent_is_what_is_leased_whatever_its_kind() {
    let server = Server::with_queue(NewQueue::default()).await;
    let raw = serde_json::value::RawValue::from_string(r#"{"n":   1.10}"#.to_owned()).expect("json");
    let mut first = Event::new("/s", "t");
    first.data = Some(Data::Json(raw));
    let events = [
        first,
        Event::new("/s", "t").text("grüße"),
        Event::new("/s", "t").bytes("image/png", [0xff, 0]),
        Event::new("/s", "t"),
    ];
    let ids = server.client.send("q", &events, &SendOptions::default()).await.expect("sent");
    let messages = server.client.lease("q", &take(10)).await.expect("leased");
    assert_eq!(
        messages.iter().map(|message| &message.message_id).collect::<Vec<_>>(),
        ids.iter().collect::<Vec<_>>()
    );
    let bytes = |at: usize| messages[at].event.data.as_ref().and_then(|data| data.bytes());
    assert_eq!(bytes(0).as_deref(), Some(&br#"{"n":   1.10}"#[..]));
    assert_eq!(bytes(1).as_deref(), Some("grüße".as_bytes()));
    assert_eq!(bytes(2).as_deref(), Some(&[0xff, 0][..]));
    assert_eq!(bytes(3), None);
    assert_eq!(messages[2].event.data_content_type.as_deref(), Some("image/png"));
    server.stop().await;
}

#[tokio::test]
async fn an_event_in_headers_keeps_its_attributes() {
    let server = Server::with_queue(NewQueue::default()).await;
    let mut event = Event::new("/ä b", "t");
    event.subject = Some("50% \"off\"".to_owned());
    event.data_content_type = Some("text/plain".to_owned());
    event.extensions.insert("trace".to_owned(), millpond_client::AttributeValue::String("x".to_owned()));
    let data = bytes::Bytes::from_static(b"body");
    let id = server.client.send_large("q", &event, data, &SendOptions::default()).await.expect("sent");
    let messages = server.client.lease("q", &take(1)).await.expect("leased");
    let got = &messages[0].event;
    assert_eq!(messages[0].message_id, id);
    assert_eq!((&got.id, &got.source, &got.subject), (&event.id, &event.source, &event.subject));
    assert_eq!(got.extensions, event.extensions);
    assert!(matches!(&got.data, Some(Data::Text(text)) if text == "body"), "{got:?}");
    server.stop().await;
}

#[tokio::test]
async fn leases_are_settled_and_stale_ones_are_told() {
    let server = Server::with_queue(NewQueue::default()).await;
    let client = &server.client;
    let events: Vec<Event> = (0..3).map(|number| Event::new("/s", "t").json(&number)).collect();
    client.send("q", &events, &SendOptions::default()).await.expect("sent");
    let leases: Vec<_> =
        client.lease("q", &take(3)).await.expect("leased").into_iter().map(|message| message.lease).collect();
    assert_eq!(client.extend("q", &leases, Some(Duration::from_secs(60))).await.expect("extended"), []);
    assert_eq!(client.ack("q", &leases[..1]).await.expect("acked"), []);
    assert_eq!(client.ack("q", &leases[..2]).await.expect("acked"), leases[..1]);
    let delay = Some(Duration::from_secs(3_600));
    assert_eq!(client.nack("q", &leases[2..], delay).await.expect("nacked"), []);
    let status = client.get_queue("q").await.expect("it is there").status;
    assert_eq!((status.ready_count, status.delayed_count, status.leased_count), (0, 1, 0));
    assert_eq!(status.unfinished_count(), 1);
    assert_eq!(client.why("q").await.expect("a reason").reason, "all_delayed");
    server.stop().await;
}

#[tokio::test]
async fn options_of_a_send_are_kept() {
    let server = Server::with_queue(NewQueue::default()).await;
    let client = &server.client;
    let key = Some("order-7".to_owned());
    let delayed = SendOptions {
        delay: Some(Duration::from_secs(60)),
        ttl: Some(Duration::from_secs(120)),
        idempotency_key: key,
        ..SendOptions::default()
    };
    let event = [Event::new("/s", "t")];
    let first = client.send("q", &event, &delayed).await.expect("sent");
    assert_eq!(client.send("q", &event, &delayed).await.expect("sent"), first, "under the same key");
    assert_eq!(client.get_queue("q").await.expect("it is there").status.delayed_count, 1);
    let error = client.send("q", &[Event::new("/s", "t")], &delayed).await.expect_err("another event");
    assert_eq!(error.code(), Some(&ErrorCode::IdempotencyKeyReused));

    let urgent = SendOptions { priority: Some(9), ..SendOptions::default() };
    client.send("q", &event, &SendOptions::default()).await.expect("sent");
    let urgent = client.send("q", &event, &urgent).await.expect("sent");
    let leased = client.lease("q", &take(1)).await.expect("leased");
    assert_eq!(leased[0].message_id, urgent[0]);
    server.stop().await;
}

#[tokio::test]
async fn a_queue_is_paused_resumed_purged_and_deleted() {
    let server = Server::with_queue(NewQueue::default()).await;
    let client = &server.client;
    client.send("q", &[Event::new("/s", "t")], &SendOptions::default()).await.expect("sent");
    assert!(client.pause_queue("q").await.expect("paused").status.paused);
    assert_eq!(client.why("q").await.expect("a reason").reason, "paused");
    assert!(!client.resume_queue("q").await.expect("resumed").status.paused);
    assert_eq!(client.purge_queue("q", PurgeTarget::Waiting).await.expect("purged"), 1);
    client.delete_queue("q", &DeleteQueue::default()).await.expect("deleted");
    let error = client.get_queue("q").await.expect_err("it is gone");
    assert_eq!(error.code(), Some(&ErrorCode::QueueNotFound));
    let missing = DeleteQueue { allow_missing: true, ..DeleteQueue::default() };
    client.delete_queue("q", &missing).await.expect("it may be missing");
    server.stop().await;
}

#[tokio::test]
async fn a_refusal_names_field_value_and_limit() {
    let server = Server::with_queue(NewQueue::default()).await;
    let error = server.client.lease("q", &take(101)).await.expect_err("refused");
    let millpond_client::Error::Refused(problem) = error else { panic!("{error:?}") };
    assert_eq!(problem.code, ErrorCode::InvalidField);
    assert_eq!(problem.field.as_deref(), Some("max_messages"));
    assert_eq!((problem.value.as_deref(), problem.limit.as_deref()), (Some("101"), Some("100")));
    server.stop().await;
}

#[tokio::test]
async fn an_environment_of_its_own_has_queues_of_its_own() {
    let server = Server::with_queue(NewQueue::default()).await;
    server.client.create_environment("acme", "shop", "prod").await.expect("it is made");
    let name = "orgs/acme/projects/shop/envs/prod";
    let url = format!("http://{}", server.address);
    let prod = Client::builder(url).environment(name).build().expect("a client");
    let error = prod.get_queue("q").await.expect_err("it is elsewhere");
    assert_eq!(error.code(), Some(&ErrorCode::QueueNotFound));
    let made = prod.create_queue(&NewQueue::named("q")).await.expect("it is made");
    assert_eq!(made.name, format!("{name}/queues/q"));
    server.client.get_queue(&made.name).await.expect("a whole name is found from anywhere");
    server.client.health().await.expect("it is well");
    server.stop().await;
}
