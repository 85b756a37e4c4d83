//! Topics and groups: as resources, and as what is sent to and worked on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_client::request::SettleSend;
use millpond_client::{
    CancellationToken, Client, DeleteQueue, Delivery, Destination, ErrorCode, Event, GroupReader, GroupSpec,
    GroupUpdate, LeaseOptions, MessageState, Nack, NewGroup, NewQueue, NewTopic, QueueQuery, RetryPolicy,
    SendOptions, Settle, Start, Tally, TopicSpec, TopicUpdate, Worker,
};

use crate::server::Server;

async fn with_topic() -> Server {
    let server = Server::start().await;
    server.client.create_topic(&NewTopic::named("T")).await.expect("it is made");
    server
}

fn reader() -> GroupReader {
    GroupReader::new("T", "g")
}

fn take(max_messages: u32) -> LeaseOptions {
    LeaseOptions { max_messages, ..LeaseOptions::default() }
}

async fn send(server: &Server, to: impl Into<Destination>, numbers: &[u32]) -> Vec<String> {
    let events: Vec<Event> = numbers.iter().map(|number| Event::new("/s", "t").json(number)).collect();
    server.client.send(to, &events, &SendOptions::default()).await.expect("sent")
}

fn number(event: &Event) -> u32 {
    event.data_as().expect("a number")
}

#[tokio::test]
async fn topics_and_groups_are_made_listed_changed_and_deleted() {
    let server = with_topic().await;
    let client = &server.client;
    let spec = TopicSpec { retention: Some(Duration::from_secs(60)), ..TopicSpec::default() };
    let update = TopicUpdate { spec: spec.clone(), ..TopicUpdate::default() };
    let changed = client.update_topic("T", &update).await.expect("changed");
    assert_eq!((changed.id(), changed.spec.retention), ("T", spec.retention));
    assert!(changed.spec.others.is_empty(), "the client knows every field: {:?}", changed.spec.others);
    let read = client.get_topic(&changed.name).await.expect("by its whole name");
    assert_eq!(read, changed);
    let error = client.create_topic(&NewTopic::named("T")).await.expect_err("it is there");
    assert_eq!(error.code(), Some(&ErrorCode::TopicAlreadyExists));

    send(&server, Destination::topic("T"), &[1]).await;
    let spec = GroupSpec { visibility_timeout: Some(Duration::from_secs(5)), ..GroupSpec::default() };
    let late = NewGroup { spec, ..NewGroup::named("late") };
    let late = client.create_group("T", &late, Start::Latest).await.expect("it is made");
    assert_eq!((late.id(), late.status.ready_count), ("late", 0));
    assert!(late.spec.others.is_empty(), "the client knows every field: {:?}", late.spec.others);
    let early = client.create_group("T", &NewGroup::named("early"), Start::default()).await.expect("made");
    assert_eq!(early.status.unfinished_count(), 1);
    let groups = client.list_groups("T", &QueueQuery::default()).await.expect("a list").groups;
    assert_eq!(groups.iter().map(|group| group.id()).collect::<Vec<_>>(), ["early", "late"]);
    let spec = GroupSpec { max_deliveries: Some(3), ..GroupSpec::default() };
    let update = GroupUpdate { spec, ..GroupUpdate::default() };
    assert_eq!(
        client.update_group("T", "early", &update).await.expect("changed").spec.max_deliveries,
        Some(3)
    );
    assert!(client.pause_group("T", "early").await.expect("paused").status.paused);
    assert_eq!(client.why_group("T", "early").await.expect("a reason").reason, "paused");
    assert!(!client.resume_group("T", "early").await.expect("resumed").status.paused);

    send(&server, Destination::partition("T", "p"), &[2]).await;
    let partitions = client.list_partitions("T", &QueueQuery::default()).await.expect("a list").partitions;
    assert_eq!(
        partitions.iter().map(|own| (own.id(), own.status.ready_count)).collect::<Vec<_>>(),
        [("p", 1)]
    );
    client.delete_partition("T", "p").await.expect("it was there");
    client.delete_group("T", "early", &DeleteQueue::default()).await.expect("it was there");
    client.delete_topic("T", &DeleteQueue::default()).await.expect("it was there");
    assert!(client.list_topics(&QueueQuery::default()).await.expect("a list").topics.is_empty());
    let error = client.get_topic("T").await.expect_err("it is gone");
    assert_eq!(error.code(), Some(&ErrorCode::TopicNotFound));
    server.stop().await;
}

#[tokio::test]
async fn a_group_leases_extends_nacks_and_acks() {
    let server = with_topic().await;
    let client = &server.client;
    let ids = send(&server, Destination::topic("T"), &[1, 2]).await;
    let held = client.lease(&reader(), &take(10)).await.expect("leased");
    assert_eq!(held.iter().map(|message| number(&message.event)).collect::<Vec<_>>(), [1, 2]);
    let lease = |at: usize| std::slice::from_ref(&held[at].lease);
    assert!(client.extend(reader(), lease(0), None).await.expect("extended").is_empty());
    assert!(client.nack(reader(), lease(1), Some(Duration::from_secs(60))).await.expect("nacked").is_empty());
    assert!(client.ack(reader(), lease(0)).await.expect("acked").is_empty());
    assert_eq!(client.ack(reader(), lease(0)).await.expect("an answer"), lease(0));
    let status = client.get_group("T", "g").await.expect("it is there").status;
    assert_eq!((status.ready_count, status.leased_count, status.delayed_count), (0, 0, 1));

    let message = client.get_message(Destination::topic("T"), &ids[0]).await.expect("others may want it");
    assert_eq!((message.queue.as_str(), message.state), ("", MessageState::Ready));
    assert!(message.topic.is_some_and(|topic| topic.ends_with("/topics/T")));
    let data = client.message_data(Destination::topic("T"), &ids[0], None, None).await.expect("its data");
    assert_eq!(&data.bytes[..], b"1");
    let seen = client.peek(Destination::topic("T"), MessageState::Ready, 10).await.expect("a look");
    assert_eq!(seen.len(), 2);
    let error = client.lease(GroupReader::new("none", "g"), &take(1)).await.expect_err("no topic");
    assert_eq!(error.code(), Some(&ErrorCode::TopicNotFound));
    server.stop().await;
}

#[tokio::test]
async fn a_reader_says_how_it_reads() {
    let server = with_topic().await;
    let client = &server.client;
    send(&server, Destination::topic("T"), &[1]).await;
    send(&server, Destination::partition("T", "p"), &[2, 3]).await;
    let pinned = GroupReader { partition: Some("p".to_owned()), max_in_flight: Some(1), ..reader() };
    let held = client.lease(&pinned, &take(10)).await.expect("leased");
    assert_eq!(held.iter().map(|message| number(&message.event)).collect::<Vec<_>>(), [2]);
    let once = Client::builder(client.url()).retry(RetryPolicy::never()).build().expect("a client");
    let error = once.lease(&pinned, &take(10)).await.expect_err("one is in flight");
    assert_eq!((error.code(), error.is_retryable()), (Some(&ErrorCode::ConcurrencyLimit), true));
    let late = GroupReader { start: Start::Latest, ..GroupReader::new("T", "late") };
    assert!(client.lease(&late, &take(10)).await.expect("an answer").is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_settle_passes_on_to_a_partition() {
    let server = with_topic().await;
    let client = &server.client;
    client.create_queue(&NewQueue::named("q")).await.expect("it is made");
    send(&server, Destination::topic("T"), &[1]).await;
    let held = client.lease(reader(), &take(1)).await.expect("leased");
    let event = || vec![Event::new("/s", "t").json(&2)];
    let settle = Settle {
        acks: vec![held[0].lease.clone()],
        sends: vec![
            SettleSend { queue: Some("q".to_owned()), events: event(), ..SettleSend::default() },
            SettleSend {
                topic: Some("T".to_owned()),
                partition: Some("p".to_owned()),
                events: event(),
                ..SettleSend::default()
            },
        ],
        ..Settle::default()
    };
    let settled = client.settle(reader(), &settle).await.expect("settled");
    assert_eq!((settled.stale_leases.len(), settled.sends.len()), (0, 2));
    let held = client.lease(reader(), &take(10)).await.expect("leased");
    assert_eq!(held.iter().map(|message| number(&message.event)).collect::<Vec<_>>(), [2]);
    assert_eq!(client.get_queue("q").await.expect("it is there").status.ready_count, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_a_group_works_on_all_partitions_until_the_group_is_done() {
    let server = with_topic().await;
    for (partition, first) in [("p", 0), ("q", 50)] {
        let numbers: Vec<u32> = (first..first + 50).collect();
        send(&server, Destination::partition("T", partition), &numbers).await;
    }
    for group in ["one", "two"] {
        let done = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&done);
        let worker =
            Worker::new(server.client.clone(), GroupReader::new("T", group)).concurrency(8).until_empty();
        let tally = worker
            .run(CancellationToken::new(), move |delivery: Delivery| {
                let seen = Arc::clone(&seen);
                async move {
                    let number = number(&delivery.message.event);
                    if number == 7 && delivery.message.delivery_count == 1 {
                        return Err(Nack::new("once").after(Duration::ZERO));
                    }
                    seen.lock().expect("nobody panics").push(number);
                    Ok(())
                }
            })
            .await
            .expect("it ends");
        assert_eq!(tally, Tally { acked: 100, nacked: 1, ..Tally::default() });
        let mut done = done.lock().expect("nobody panics").clone();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
    }
    let nowhere = Worker::new(server.client.clone(), GroupReader::new("none", "g"));
    let error = nowhere.run(CancellationToken::new(), |_| async { Ok(()) }).await.expect_err("no topic");
    assert_eq!(error.code(), Some(&ErrorCode::TopicNotFound));
    server.stop().await;
}
