//! Lists, changes, dead letters and single messages, against the server that they are for.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_client::request::{SettleExtend, SettleNack};
use millpond_client::{
    Client, Data, DeadLetterQuery, ErrorCode, Event, Lease, LeaseOptions, MessageState, NewQueue,
    PurgeTarget, QueueQuery, QueueSpec, QueueUpdate, Redriven, Selection, SendOptions, Settle, SettleSend,
};

use crate::server::Server;

/// A server whose queue `q` gives a message one attempt.
async fn with_one_attempt() -> Server {
    let spec = QueueSpec { max_deliveries: Some(1), ..QueueSpec::default() };
    Server::with_queue(NewQueue { spec, ..NewQueue::default() }).await
}

async fn send(client: &Client, queue: &str, count: u64) -> Vec<String> {
    let events: Vec<Event> = (0..count).map(|number| Event::new("/s", "t").json(&number)).collect();
    client.send(queue, &events, &SendOptions::default()).await.expect("sent")
}

async fn take(client: &Client, queue: &str) -> Vec<Lease> {
    let options = LeaseOptions { max_messages: 100, ..LeaseOptions::default() };
    let messages = client.lease(queue, &options).await.expect("leased");
    messages.into_iter().map(|message| message.lease).collect()
}

/// Sends messages and lets them die; their ids.
async fn kill(client: &Client, count: u64) -> Vec<String> {
    let ids = send(client, "q", count).await;
    let leases = take(client, "q").await;
    assert_eq!(client.nack("q", &leases, None).await.expect("nacked"), []);
    ids
}

fn ids(messages: &[millpond_client::Message]) -> Vec<String> {
    messages.iter().map(|message| message.message_id.clone()).collect()
}

#[tokio::test]
async fn queues_are_listed_page_by_page() {
    let server = Server::start().await;
    for (id, team) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
        let new = NewQueue { id: id.to_owned(), labels, ..NewQueue::default() };
        server.client.create_queue(&new).await.expect("it is made");
    }
    let mut query = QueueQuery {
        page_size: Some(1),
        filter: "labels.team = \"x\"".to_owned(),
        order_by: "name desc".to_owned(),
        ..QueueQuery::default()
    };
    let mut found = Vec::new();
    loop {
        let page = server.client.list_queues(&query).await.expect("a page");
        assert!(page.queues.len() <= 1);
        found.extend(page.queues.iter().map(|queue| queue.id().to_owned()));
        if page.next_page_token.is_empty() {
            break;
        }
        query.page_token = page.next_page_token;
    }
    assert_eq!(found, ["c", "a"]);
    query.page_token = "not one".to_owned();
    let error = server.client.list_queues(&query).await.expect_err("refused");
    assert_eq!(error.code(), Some(&ErrorCode::PageTokenInvalid));
    server.stop().await;
}

#[tokio::test]
async fn a_queue_is_changed_under_its_etag() {
    let server = with_one_attempt().await;
    let client = &server.client;
    let before = client.get_queue("q").await.expect("it is there");
    let update = QueueUpdate {
        spec: QueueSpec { visibility_timeout: Some(Duration::from_secs(45)), ..QueueSpec::default() },
        labels: Some(BTreeMap::from([("team".to_owned(), "mail".to_owned())])),
        display_name: Some("Mail".to_owned()),
        etag: Some(before.meta.etag.clone()),
        ..QueueUpdate::default()
    };
    let after = client.update_queue("q", &update).await.expect("changed");
    assert_eq!(after.spec.visibility_timeout, Some(Duration::from_secs(45)));
    assert_eq!(after.spec.max_deliveries, Some(1), "what was not named stays");
    assert_eq!((after.meta.display_name.as_deref(), after.meta.labels.len()), (Some("Mail"), 1));
    let error = client.update_queue("q", &update).await.expect_err("the etag is old");
    assert_eq!(error.code(), Some(&ErrorCode::EtagMismatch));

    let mask = Some(vec!["spec.max_deliveries".to_owned(), "meta.display_name".to_owned()]);
    let reset = QueueUpdate { update_mask: mask, ..QueueUpdate::default() };
    let reset = client.update_queue("q", &reset).await.expect("changed");
    assert_eq!((reset.spec.max_deliveries, reset.meta.display_name), (Some(5), None));

    let missing = QueueUpdate { allow_missing: true, ..QueueUpdate::default() };
    assert_eq!(client.update_queue("new", &missing).await.expect("made").id(), "new");
    server.stop().await;
}

#[tokio::test]
async fn what_is_settled_and_sent_together_happens_together() {
    let server = Server::with_queue(NewQueue::default()).await;
    let client = &server.client;
    client.create_queue(&NewQueue::named("next")).await.expect("it is made");
    send(client, "q", 3).await;
    let leases = take(client, "q").await;
    let events = vec![Event::new("/s", "step")];
    let what = Settle {
        acks: leases[..1].to_vec(),
        nacks: vec![SettleNack { lease: leases[1].clone(), delay: Some(Duration::from_secs(60)) }],
        extends: vec![SettleExtend { lease: leases[2].clone(), visibility_timeout: None }],
        sends: vec![SettleSend { queue: Some("next".to_owned()), events, ..SettleSend::default() }],
        require_all: true,
    };
    let settled = client.settle("q", &what).await.expect("settled");
    assert_eq!((settled.stale_leases, settled.sends.len()), (vec![], 1));
    let status = client.get_queue("q").await.expect("it is there").status;
    assert_eq!((status.delayed_count, status.leased_count), (1, 1));
    let next = client.peek("next", MessageState::Ready, 10).await.expect("a look");
    assert_eq!(ids(&next), settled.sends[0].message_ids);

    let error = client.settle("q", &what).await.expect_err("two leases are stale");
    assert_eq!(error.code(), Some(&ErrorCode::LeaseStale));
    let alone = Settle { acks: leases.clone(), ..Settle::default() };
    let settled = client.settle("q", &alone).await.expect("settled");
    assert_eq!((settled.stale_leases, settled.sends), (leases[..2].to_vec(), vec![]));
    assert_eq!(client.get_queue("next").await.expect("it is there").status.ready_count, 1);
    server.stop().await;
}

#[tokio::test]
async fn messages_are_looked_at_and_deleted_one_by_one() {
    let server = Server::with_queue(NewQueue::default()).await;
    let client = &server.client;
    let sent = send(client, "q", 2).await;
    let peeked = client.peek("q", MessageState::Ready, 1).await.expect("a look");
    assert_eq!(ids(&peeked), sent[..1]);
    let message = client.get_message("q", &sent[1]).await.expect("it is there");
    assert_eq!((message.state, message.delivery_count), (MessageState::Ready, 0));
    assert!(matches!(&message.event.data, Some(Data::Json(json)) if json.get() == "1"), "{message:?}");
    assert!(message.queue.ends_with("/queues/q") && message.size_bytes > Some(0), "{message:?}");
    assert!(message.expire_time > Some(message.send_time));

    client.delete_message("q", &sent[1]).await.expect("deleted");
    let error = client.get_message("q", &sent[1]).await.expect_err("it is gone");
    assert_eq!(error.code(), Some(&ErrorCode::MessageNotFound));
    take(client, "q").await;
    let leased = client.get_message("q", &sent[0]).await.expect("it is there");
    assert!(leased.state == MessageState::Leased && leased.lease_expire_time.is_some(), "{leased:?}");
    let error = client.delete_message("q", &sent[0]).await.expect_err("it is being worked on");
    assert_eq!(error.code(), Some(&ErrorCode::InvalidState));
    server.stop().await;
}

#[tokio::test]
async fn dead_letters_are_listed_and_brought_back() {
    let server = with_one_attempt().await;
    let client = &server.client;
    let dead = kill(client, 3).await;
    let mut query = DeadLetterQuery { page_size: Some(2), ..DeadLetterQuery::default() };
    let first = client.list_dead_letters("q", &query).await.expect("a page");
    query.page_token = first.next_page_token;
    let second = client.list_dead_letters("q", &query).await.expect("a page");
    assert_eq!([ids(&first.messages), ids(&second.messages)].concat(), dead);
    assert_eq!(second.next_page_token, "");
    let letter = &first.messages[0];
    assert!(letter.dead_letter_time.is_some() && letter.dead_letter_reason.is_some(), "{letter:?}");

    let before = DeadLetterQuery { end_time: letter.dead_letter_time, ..DeadLetterQuery::default() };
    let none = client.list_dead_letters("q", &before).await.expect("a page");
    assert_eq!(ids(&none.messages), [""; 0], "the end is exclusive");
    let early = Selection { end_time: letter.dead_letter_time, ..Selection::default() };
    assert_eq!(client.replay("q", &early).await.expect("replayed"), 0);
    let one = Selection { message_ids: Some(dead[..1].to_vec()), ..Selection::default() };
    assert_eq!(client.replay("q", &one).await.expect("replayed"), 1);
    assert_eq!(client.replay("q", &Selection::default()).await.expect("replayed"), 2);
    assert_eq!(client.get_queue("q").await.expect("it is there").status.ready_count, 3);
    server.stop().await;
}

#[tokio::test]
async fn dead_letters_are_moved_and_purged() {
    let server = with_one_attempt().await;
    let client = &server.client;
    client.create_queue(&NewQueue::named("by-hand")).await.expect("it is made");
    let dead = kill(client, 3).await;
    let one = Selection { message_ids: Some(dead[..1].to_vec()), ..Selection::default() };
    let moved = client.redrive("q", Some("by-hand"), &one).await.expect("moved");
    assert_eq!(moved, Redriven { redriven_count: 1, skipped_count: 0 });
    let moved = client.redrive("q", None, &Selection::default()).await.expect("none has another home");
    assert_eq!(moved, Redriven { redriven_count: 0, skipped_count: 2 });
    send(client, "q", 1).await;
    assert_eq!(client.purge_queue("q", PurgeTarget::DeadLetters).await.expect("purged"), 2);
    assert_eq!(client.purge_queue("q", PurgeTarget::All).await.expect("purged"), 1);
    assert_eq!(client.get_queue("by-hand").await.expect("it is there").status.ready_count, 1);
    server.stop().await;
}
