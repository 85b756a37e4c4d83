//! The worker against a server that refuses, hangs or loses leases, as the real one does seldom or late.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_client::{CancellationToken, Nack, Tally, Worker, WorkerEvent};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::server::{Reacting, Reaction};

const STALE_NONE: &str = r#"{"stale_leases": []}"#;

fn queue(visibility_timeout: &str) -> Reaction {
    Reaction::Ok(format!(
        r#"{{"name": "orgs/a/projects/b/envs/c/queues/q", "uid": "1",
            "meta": {{"generation": "1", "etag": "1", "create_time": "2026-10-07T12:30:00Z",
                "update_time": "2026-10-07T12:30:00Z"}},
            "spec": {{"visibility_timeout": "{visibility_timeout}"}},
            "status": {{"observed_generation": "1", "ready_count": "0", "delayed_count": "0", "leased_count": "0", "dead_letter_count": "0",
                "finished_count": "0", "paused": false}}}}"#
    ))
}

/// So many messages, `msg_1` and so on.
fn messages(count: u64) -> Reaction {
    let message = |number| {
        format!(
            r#"{{"message_id": "msg_{number}", "queue": "q", "priority": 0, "delivery_count": 1,
                "failure_count": 0, "lost_lease_count": 0, "send_time": "2026-10-07T12:30:00Z",
                "lease": {{"message_id": "msg_{number}", "lease_generation": "1"}},
                "lease_expire_time": "2026-10-07T12:31:00Z",
                "event": {{"specversion": "1.0", "id": "{number}", "source": "/s", "type": "t"}}}}"#
        )
    };
    let messages: Vec<String> = (1..=count).map(message).collect();
    Reaction::Ok(format!(r#"{{"messages": [{}]}}"#, messages.join(",")))
}

/// A server whose queue has this timeout and hands out so many messages, once. The rest of what it is asked for is for
/// `react`, which is given the verb and the body.
async fn server(
    timeout: &'static str,
    count: u64,
    mut react: impl FnMut(&str, &str) -> Reaction + Send + 'static,
) -> Reacting {
    let mut is_leased = false;
    Reacting::start(move |line, body| match line.rsplit_once(':') {
        None => queue(timeout),
        Some((_, "lease")) if std::mem::replace(&mut is_leased, true) => Reaction::Hang,
        Some((_, "lease")) => messages(count),
        Some((_, verb)) => react(verb, body),
    })
    .await
}

/// Tells how often leases were extended.
fn watch_renewals() -> (impl Fn(WorkerEvent<'_>) + Send + Sync + 'static, watch::Receiver<usize>) {
    let (renewals, renewed) = watch::channel(0);
    let observer = move |event: WorkerEvent<'_>| {
        if let WorkerEvent::Renewed { leases } = event {
            renewals.send_modify(|count| *count += leases.len());
        }
    };
    (observer, renewed)
}

#[tokio::test]
async fn leases_and_extensions_name_the_timeout_by_which_they_are_counted() {
    let server = server("1s", 1, |_, _| Reaction::Ok(STALE_NONE.to_owned())).await;
    let (observer, renewed) = watch_renewals();
    let stop = CancellationToken::new();
    let at_end = stop.clone();
    let worker = Worker::new(server.client.clone(), "q").observe(observer);
    let tally = worker.run(stop, move |_| {
        let (mut renewed, stop) = (renewed.clone(), at_end.clone());
        async move {
            renewed.wait_for(|count| *count >= 1).await?;
            stop.cancel();
            Ok(())
        }
    });
    assert_eq!(tally.await.expect("it works"), Tally { acked: 1, ..Tally::default() });
    for verb in [":lease ", ":extend "] {
        let requests = server.requests();
        let request = requests.iter().find(|request| request.contains(verb)).expect("it was made");
        assert!(request.contains(r#""visibility_timeout":"1s""#), "{request}");
    }
}

#[tokio::test]
async fn a_lease_that_can_last_no_longer_does_not_take_others_with_it() {
    let react = |verb: &str, body: &str| {
        if verb == "extend" && body.contains(r#""msg_1""#) {
            return Reaction::Refuse(400, "invalid_field", "");
        }
        Reaction::Ok(STALE_NONE.to_owned())
    };
    let server = server("3s", 3, react).await;
    let (observer, renewed) = watch_renewals();
    let stop = CancellationToken::new();
    let at_end = stop.clone();
    let worker = Worker::new(server.client.clone(), "q").concurrency(3).observe(observer);
    let tally = worker.run(stop, move |delivery| {
        let (mut renewed, stop) = (renewed.clone(), at_end.clone());
        async move {
            if delivery.message.message_id == "msg_1" {
                delivery.lost.cancelled().await;
                stop.cancel();
                return Ok(());
            }
            // Each of them once in the first two thirds, and again after msg_1 has run out.
            renewed.wait_for(|count| *count >= 6).await?;
            Ok(())
        }
    });
    assert_eq!(tally.await.expect("it works"), Tally { acked: 2, lost: 1, ..Tally::default() });
    let requests = server.requests();
    let others = ["msg_2", "msg_3"];
    let alone = requests.iter().filter(|request| request.contains(":extend ") && request.contains("msg_1"));
    let alone = alone.filter(|request| !others.iter().any(|other| request.contains(other))).count();
    assert_eq!(alone, 1, "it is not asked for again");
}

#[tokio::test]
async fn an_extension_that_hangs_leaves_time_for_another() {
    let mut hung = false;
    let react = move |verb: &str, _: &str| match verb {
        "extend" if !std::mem::replace(&mut hung, true) => Reaction::Hang,
        _ => Reaction::Ok(STALE_NONE.to_owned()),
    };
    let server = server("6s", 1, react).await;
    let (observer, renewed) = watch_renewals();
    let stop = CancellationToken::new();
    let at_end = stop.clone();
    let worker = Worker::new(server.client.clone(), "q").observe(observer);
    let tally = worker.run(stop, move |delivery| {
        let (mut renewed, stop) = (renewed.clone(), at_end.clone());
        async move {
            tokio::select! {
                _ = renewed.wait_for(|count| *count >= 1) => {}
                () = delivery.lost.cancelled() => {}
            }
            stop.cancel();
            Ok(())
        }
    });
    assert_eq!(tally.await.expect("it works"), Tally { acked: 1, ..Tally::default() });
}

#[tokio::test]
async fn a_message_counts_once_although_the_server_took_its_ack_after_all() {
    let react = |verb: &str, _: &str| match verb {
        "extend" => Reaction::Refuse(503, "storage_unavailable", ""),
        _ => Reaction::Ok(STALE_NONE.to_owned()),
    };
    for result in [Ok(()), Err(Nack::new("it was ended"))] {
        let server = server("1s", 1, react).await;
        let stop = CancellationToken::new();
        let at_end = stop.clone();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let worker = Worker::new(server.client.clone(), "q").observe(move |event| match event {
            WorkerEvent::Acked { .. } | WorkerEvent::Lost { .. } | WorkerEvent::Nacked { .. } => {
                tell.lock().expect("nobody panics").push(format!("{event:?}"));
            }
            _ => {}
        });
        let tally = worker.run(stop, move |delivery| {
            let (stop, result) = (at_end.clone(), result.clone());
            async move {
                delivery.lost.cancelled().await;
                stop.cancel();
                result
            }
        });
        assert_eq!(tally.await.expect("it works"), Tally { lost: 1, ..Tally::default() });
        assert_eq!(*told.lock().expect("nobody panics"), [r#"Lost { message_id: "msg_1" }"#]);
    }
}

#[tokio::test]
async fn a_pause_that_the_server_asks_for_is_kept() {
    // With one try a call, as the tries of a call keep the pause by themselves.
    let mut refused = 0;
    let server = Reacting::start(move |line, _| match line.rsplit_once(':') {
        None => queue("30s"),
        Some((_, "lease")) if refused == 0 => {
            refused += 1;
            Reaction::Refuse(503, "server_overloaded", "retry-after: 1\r\n")
        }
        Some((_, "lease")) if refused == 1 => {
            refused += 1;
            messages(1)
        }
        Some((_, "ack")) if refused == 2 => {
            refused += 1;
            Reaction::Refuse(503, "server_overloaded", "retry-after: 1\r\n")
        }
        Some((_, "ack")) => Reaction::Ok(STALE_NONE.to_owned()),
        _ => Reaction::Hang,
    })
    .await;
    let retry = millpond_client::RetryPolicy {
        tries: 1,
        base: Duration::from_millis(1),
        cap: Duration::from_millis(1),
    };
    let client =
        millpond_client::Client::builder(server.client.url()).retry(retry).build().expect("a client");
    let (stop, times) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
    let (at_end, seen) = (stop.clone(), Arc::clone(&times));
    let worker = Worker::new(client, "q").observe(move |_| {
        seen.lock().expect("nobody panics").push(Instant::now());
    });
    let tally = worker.run(stop, move |_| {
        at_end.cancel();
        async { Ok(()) }
    });
    assert_eq!(tally.await.expect("it works"), Tally { acked: 1, ..Tally::default() });
    // Trouble, taken, trouble, acked.
    let times = times.lock().expect("nobody panics").clone();
    assert_eq!(times.len(), 4);
    for pair in times.chunks(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(1), "{times:?}");
    }
}

#[tokio::test]
async fn a_stop_is_heard_before_the_queue_was_read() {
    let asked = Arc::new(Notify::new());
    let tell = Arc::clone(&asked);
    let server = Reacting::start(move |_, _| {
        tell.notify_one();
        Reaction::Hang
    })
    .await;
    let stop = CancellationToken::new();
    let run = Worker::new(server.client.clone(), "q").run(stop.clone(), async |_| Ok(()));
    let run = tokio::spawn(run);
    asked.notified().await;
    stop.cancel();
    assert_eq!(run.await.expect("no panic").expect("it ends well"), Tally::default());
}

#[tokio::test]
async fn a_run_that_is_abandoned_ends_at_once_and_drops_its_functions() {
    let asked = Arc::new(Notify::new());
    let tell = Arc::clone(&asked);
    // Settling one of them hangs, and the other runs for ever.
    let server = server("43200s", 2, move |_, _| {
        tell.notify_one();
        Reaction::Hang
    })
    .await;
    let (abandon, held) = (CancellationToken::new(), Arc::new(()));
    let inside = Arc::clone(&held);
    let worker = Worker::new(server.client.clone(), "q").concurrency(2).abandon_on(abandon.clone());
    let run = tokio::spawn(worker.run(CancellationToken::new(), move |delivery| {
        let held = Arc::clone(&inside);
        async move {
            if delivery.message.message_id == "msg_2" {
                std::future::pending::<()>().await;
            }
            drop(held);
            Ok(())
        }
    }));
    asked.notified().await;
    abandon.cancel();
    assert_eq!(run.await.expect("no panic").expect("it ends"), Tally::default());
    assert_eq!(Arc::strong_count(&held), 1, "nothing runs any more");
}
