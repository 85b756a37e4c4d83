//! The worker: what it takes, how long it holds it, and how it ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_client::{
    CancellationToken, DeleteQueue, Delivery, ErrorCode, Event, LeaseOptions, Nack, NewQueue, QueueSpec,
    RetryPolicy, SendOptions, Tally, Worker, WorkerEvent,
};
use millpond_test_stores::new_store;
use tokio::sync::{Semaphore, watch};

use crate::server::Server;

/// The shortest timeout there is, so that extensions come soon.
fn short_leases() -> NewQueue {
    let spec = QueueSpec { visibility_timeout: Some(Duration::from_secs(1)), ..QueueSpec::default() };
    NewQueue { spec, ..NewQueue::named("q") }
}

async fn send(server: &Server, count: u32) {
    for first in (0..count).step_by(100) {
        let events: Vec<Event> =
            (first..count.min(first + 100)).map(|number| Event::new("/s", "t").json(&number)).collect();
        server.client.send("q", &events, &SendOptions::default()).await.expect("sent");
    }
}

fn worker(server: &Server) -> Worker {
    Worker::new(server.client.clone(), "q")
}

fn number(delivery: &Delivery) -> u32 {
    delivery.message.event.data_as().expect("a number")
}

async fn unfinished(server: &Server) -> u64 {
    server.client.get_queue("q").await.expect("it is there").status.unfinished_count()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_is_done_once_and_no_more_run_at_once_than_allowed() {
    let server = Server::with_queue(NewQueue::default()).await;
    send(&server, 250).await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let done = Arc::new(Mutex::new(Vec::new()));
    let (seen, peak) = (Arc::clone(&done), Arc::clone(&most));
    let all_there = Arc::new(tokio::sync::Barrier::new(8));
    let tally = worker(&server)
        .concurrency(8)
        .until_empty()
        .run(CancellationToken::new(), move |delivery| {
            let (running, most, done) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&done));
            let all_there = Arc::clone(&all_there);
            async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                // The first eight wait for each other, which they can only do side by side.
                if number(&delivery) < 8 {
                    all_there.wait().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                done.lock().expect("nobody panics").push(number(&delivery));
                Ok(())
            }
        })
        .await
        .expect("it works");
    assert_eq!(tally, Tally { acked: 250, ..Tally::default() });
    assert_eq!(peak.load(Ordering::SeqCst), 8);
    let mut seen = seen.lock().expect("nobody panics").clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..250).collect::<Vec<_>>());
    assert_eq!(unfinished(&server).await, 0);
    server.stop().await;
}

#[tokio::test]
async fn what_fails_or_panics_comes_back_and_its_reason_is_told() {
    let server = Server::with_queue(NewQueue::default()).await;
    send(&server, 3).await;
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&reasons);
    let tally = worker(&server)
        .concurrency(3)
        .until_empty()
        .observe(move |event| {
            if let WorkerEvent::Nacked { reason, .. } = event {
                told.lock().expect("nobody panics").push(reason.to_owned());
            }
        })
        .run(CancellationToken::new(), async |delivery: Delivery| {
            match (number(&delivery), delivery.message.delivery_count) {
                (0, 1) => Err(Nack::new("not now").after(Duration::ZERO)),
                (1, 1) => panic!("as the test wants it"),
                (2, 1) => Ok("x".parse::<u8>().map(|_| ())?),
                _ => Ok(()),
            }
        })
        .await
        .expect("it works");
    assert_eq!(tally, Tally { acked: 3, nacked: 3, ..Tally::default() });
    let mut reasons = reasons.lock().expect("nobody panics").clone();
    reasons.sort_unstable();
    assert_eq!(reasons, ["invalid digit found in string", "its function panicked", "not now"]);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_function_keeps_its_message() {
    let server = Server::with_queue(short_leases()).await;
    send(&server, 2).await;
    let (renewals, renewed) = watch::channel(0);
    let tally = worker(&server)
        .concurrency(2)
        .until_empty()
        .observe(move |event| {
            if let WorkerEvent::Renewed { .. } = event {
                renewals.send_modify(|count| *count += 1);
            }
        })
        .run(CancellationToken::new(), move |delivery| {
            let mut renewed = renewed.clone();
            async move {
                // Four thirds of the timeout at least: without extensions the messages would have come again.
                renewed.wait_for(|count| *count >= 4).await?;
                assert_eq!(delivery.message.delivery_count, 1);
                assert!(!delivery.lost.is_cancelled());
                Ok(())
            }
        })
        .await
        .expect("it works");
    assert_eq!(tally, Tally { acked: 2, ..Tally::default() });
    server.stop().await;
}

#[tokio::test]
async fn a_function_is_told_that_its_lease_is_lost() {
    let server = Server::with_queue(short_leases()).await;
    send(&server, 1).await;
    let client = server.client.clone();
    let tally = worker(&server)
        .until_empty()
        .run(CancellationToken::new(), move |delivery| {
            let client = client.clone();
            async move {
                // Somebody else settles it; the next extension finds that out.
                let stale = client.ack("q", std::slice::from_ref(&delivery.message.lease)).await?;
                assert!(stale.is_empty());
                delivery.lost.cancelled().await;
                Ok(())
            }
        })
        .await
        .expect("it works");
    assert_eq!(tally, Tally { lost: 1, ..Tally::default() });
    server.stop().await;
}

#[tokio::test]
async fn what_was_settled_too_late_is_told_as_lost() {
    let server = Server::with_queue(NewQueue::default()).await;
    send(&server, 1).await;
    let client = server.client.clone();
    let tally = worker(&server)
        .until_empty()
        .run(CancellationToken::new(), move |delivery| {
            let client = client.clone();
            async move {
                client.nack("q", std::slice::from_ref(&delivery.message.lease), None).await?;
                // This one's own ack comes too late, the next one's does not.
                if delivery.message.delivery_count == 1 { Ok(()) } else { Err(Nack::new("never acked")) }
            }
        })
        .await
        .expect("it works");
    assert_eq!(tally, Tally { lost: 5, ..Tally::default() }, "until the attempts are spent");
    server.stop().await;
}

#[tokio::test]
async fn a_stop_lets_what_runs_finish_and_takes_nothing_more() {
    let server = Server::with_queue(NewQueue::default()).await;
    send(&server, 5).await;
    let stop = CancellationToken::new();
    let gate = Arc::new(Semaphore::new(0));
    let begun = Arc::new(Semaphore::new(0));
    let (inside, tell) = (Arc::clone(&gate), Arc::clone(&begun));
    let run = worker(&server).concurrency(2).run(stop.clone(), move |_| {
        let (inside, tell) = (Arc::clone(&inside), Arc::clone(&tell));
        async move {
            tell.add_permits(1);
            inside.acquire().await?.forget();
            Ok(())
        }
    });
    let run = tokio::spawn(run);
    begun.acquire_many(2).await.expect("two are begun").forget();
    stop.cancel();
    gate.add_permits(5);
    let tally = run.await.expect("no panic").expect("it works");
    assert_eq!(tally, Tally { acked: 2, ..Tally::default() });
    assert_eq!(unfinished(&server).await, 3);
    server.stop().await;
}

#[tokio::test]
async fn what_was_taken_and_not_begun_is_given_back_at_once() {
    let server = Server::with_queue(NewQueue::default()).await;
    send(&server, 10).await;
    let stop = CancellationToken::new();
    let at_first = stop.clone();
    let tally = worker(&server)
        .concurrency(10)
        // The stop comes while the lease is being handed out.
        .observe(move |event| {
            if let WorkerEvent::Taken { .. } = event {
                at_first.cancel();
            }
        })
        .run(stop, async |_| Ok(()))
        .await
        .expect("it works");
    assert_eq!(tally, Tally { acked: 1, returned: 9, ..Tally::default() });
    let status = server.client.get_queue("q").await.expect("it is there").status;
    assert_eq!((status.ready_count, status.leased_count), (9, 0));
    server.stop().await;
}

#[tokio::test]
async fn a_worker_that_waits_is_stopped_at_once() {
    let server = Server::with_queue(NewQueue::default()).await;
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (worker, stop) = (worker(&server), stop.clone());
        async move { worker.run(stop, async |_| Ok(())).await }
    });
    send(&server, 1).await;
    while unfinished(&server).await > 0 {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    assert_eq!(run.await.expect("no panic").expect("it works").acked, 1);
    server.stop().await;
}

#[tokio::test]
async fn a_delayed_message_is_waited_for_before_the_queue_counts_as_empty() {
    let server = Server::with_queue(NewQueue::default()).await;
    let options = SendOptions { delay: Some(Duration::from_millis(1_500)), ..SendOptions::default() };
    server.client.send("q", &[Event::new("/s", "t").json(&0)], &options).await.expect("sent");
    let tally = worker(&server)
        .until_empty()
        .run(CancellationToken::new(), async |_| Ok(()))
        .await
        .expect("it works");
    assert_eq!(tally.acked, 1);
    server.stop().await;
}

#[tokio::test]
async fn a_worker_outlives_a_restart_of_the_server() {
    let disk = Arc::new(new_store());
    let server = Server::start_on("127.0.0.1:0", Arc::clone(&disk)).await;
    server.client.create_queue(&short_leases()).await.expect("it is made");
    send(&server, 1).await;
    let (troubles, troubled) = watch::channel(0);
    let begun = Arc::new(Semaphore::new(0));
    let tell = Arc::clone(&begun);
    let retry = RetryPolicy { tries: 1, base: Duration::from_millis(10), cap: Duration::from_millis(100) };
    let client =
        millpond_client::Client::builder(server.client.url()).retry(retry).build().expect("a client");
    let worker = Worker::new(client, "q").until_empty().observe(move |event| {
        if let WorkerEvent::Trouble { .. } = event {
            troubles.send_modify(|count| *count += 1);
        }
    });
    let mut seen = troubled.clone();
    let run = tokio::spawn(async move {
        worker
            .run(CancellationToken::new(), move |delivery| {
                let (tell, mut troubled) = (Arc::clone(&tell), troubled.clone());
                async move {
                    tell.add_permits(1);
                    // The first time it ends only when the server is away.
                    if delivery.message.delivery_count == 1 {
                        troubled.wait_for(|count| *count >= 1).await?;
                    }
                    Ok(())
                }
            })
            .await
    });
    begun.acquire().await.expect("it is begun").forget();
    let address = server.address.clone();
    server.stop().await;
    seen.wait_for(|count| *count >= 2).await.expect("it notices");
    let server = Server::start_on(&address, disk).await;
    let tally = run.await.expect("no panic").expect("it works");
    assert!(tally.acked + tally.lost >= 1, "{tally:?}");
    assert_eq!(unfinished(&server).await, 0);
    server.stop().await;
}

#[tokio::test]
async fn a_worker_gives_up_when_it_was_told_to() {
    let server = Server::with_queue(short_leases()).await;
    let (address, url) = (server.address.clone(), server.client.url().to_owned());
    let client = millpond_client::Client::builder(url).retry(RetryPolicy::never()).build().expect("a client");
    let begun = Arc::new(Semaphore::new(0));
    let (tell, gone) = (Arc::clone(&begun), CancellationToken::new());
    send(&server, 1).await;
    let wait = gone.clone();
    let worker = Worker::new(client, "q").give_up_after(Duration::ZERO);
    let run = tokio::spawn(async move {
        worker
            .run(CancellationToken::new(), move |_| {
                let (tell, wait) = (Arc::clone(&tell), wait.clone());
                async move {
                    tell.add_permits(1);
                    wait.cancelled().await;
                    Err(Nack::new("nobody hears it"))
                }
            })
            .await
    });
    begun.acquire().await.expect("it is begun").forget();
    server.stop().await;
    gone.cancel();
    let error = run.await.expect("no panic").expect_err("it gives up");
    assert!(error.is_retryable(), "{error} at {address}");
}

#[tokio::test]
async fn a_queue_that_is_not_there_ends_the_worker() {
    let server = Server::start().await;
    let run = || worker(&server).run(CancellationToken::new(), async |_| Ok(()));
    let error = run().await.expect_err("it is not there");
    assert_eq!(error.code(), Some(&ErrorCode::QueueNotFound));

    server.client.create_queue(&NewQueue::named("q")).await.expect("it is made");
    send(&server, 1).await;
    let client = server.client.clone();
    let deletes = worker(&server).run(CancellationToken::new(), move |_| {
        let client = client.clone();
        async move {
            client.delete_queue("q", &DeleteQueue::default()).await?;
            Ok(())
        }
    });
    let error = deletes.await.expect_err("it is gone");
    assert_eq!(error.code(), Some(&ErrorCode::QueueNotFound));
    let leased = server.client.lease("q", &LeaseOptions::default()).await.expect_err("it is gone");
    assert_eq!(leased.code(), Some(&ErrorCode::QueueNotFound));
    server.stop().await;
}
