//! Uploads and streams of data, as their callers hold them.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{
    AppendUpload, BeginUpload, FinishUpload, NewMessage, OpenData, PurgeTarget, Send, WaiterId,
};
use millpond_core::id::{MessageId, UploadId};
use millpond_core::limits::CHUNK_BYTES;
use millpond_core::row::{Data, DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome, Rejection};
use millpond_engine::{Answer, EngineError, Receipt};
use millpond_test_stores::{TestStore, new_store};

use crate::support::{ENVIRONMENT, World};

fn message(bytes: u64) -> NewMessage {
    let data = Data::Chunked { bytes };
    let content = MessageContent { attributes: "{}".into(), data_kind: DataKind::Binary, data };
    NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None }
}

pub(crate) async fn begin(world: &World, bytes: u64, wait: Duration) -> Answer {
    let (queue, waiter) = ("mail".into(), WaiterId(0));
    world
        .run(Command::BeginUpload(BeginUpload { queue, message: message(bytes), key: None, wait, waiter }))
        .await
}

/// Begins an upload and stores so many chunks of it.
async fn store_chunks(world: &World, chunks: u32) -> (UploadId, Receipt) {
    let Answer { outcome, receipt, .. } = begin(world, 0, Duration::ZERO).await;
    let Outcome::UploadBegun(Some(upload)) = outcome else { panic!("{outcome:?}") };
    for number in 0..chunks {
        let data = vec![u8::try_from(number).expect("few"); CHUNK_BYTES].into();
        let append = Command::AppendUpload(AppendUpload { upload, number, data });
        assert_eq!(world.run(append).await.outcome, Outcome::Done);
    }
    (upload, receipt.expect("an upload comes with a receipt"))
}

pub(crate) fn finish(upload: UploadId, chunks: u32) -> Command {
    let messages = vec![message(u64::from(chunks) * CHUNK_BYTES as u64)];
    let send = Send { queue: "mail".into(), messages, idempotency: None };
    Command::FinishUpload(FinishUpload { upload: Some(upload), send })
}

/// Sends a message of so many chunks.
pub(crate) async fn send_large(world: &World, chunks: u32) -> MessageId {
    let (upload, receipt) = store_chunks(world, chunks).await;
    let Outcome::Sent(sent) = world.run(finish(upload, chunks)).await.outcome else { panic!("not sent") };
    receipt.delivered();
    sent.ids[0]
}

pub(crate) async fn open(world: &World, message: MessageId) -> Answer {
    let open = OpenData { queue: "mail".into(), message, generation: None };
    let answer = world.run(Command::OpenData(open)).await;
    assert!(matches!(answer.outcome, Outcome::Data(_)), "{answer:?}");
    answer
}

/// Waits until the store holds so many chunks.
async fn until_chunks(world: &World, store: &TestStore, chunks: usize) {
    let mut looks = 0;
    while store.stored(ENVIRONMENT).chunks.len() != chunks {
        world.run(Command::Tick).await;
        looks += 1;
        assert!(looks < 20_000, "{} chunks are stored", store.stored(ENVIRONMENT).chunks.len());
    }
}

async fn world() -> (World, TestStore) {
    let store = new_store();
    let world = World::over(Arc::new(store.clone())).await;
    world.create("mail", QueueSpec::default()).await;
    (world, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_receipt_is_dropped_is_given_up() {
    let (world, store) = world().await;
    let (upload, receipt) = store_chunks(&world, 3).await;
    assert_eq!(store.stored(ENVIRONMENT).chunks.len(), 3);
    drop(receipt);
    until_chunks(&world, &store, 0).await;
    let lost = world.run(finish(upload, 3)).await.outcome;
    assert_eq!(lost, Outcome::Rejected(Rejection::UploadLost));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_caller_left_before_it_began_leaves_no_trace() {
    let (world, _store) = world().await;
    for _ in 0..200 {
        let mut call = Box::pin(begin(&world, 0, Duration::ZERO));
        tokio::select! {
            biased;
            _ = &mut call => {}
            () = std::future::ready(()) => {}
        }
    }
    // There are never more than 64.
    let mut last = begin(&world, 0, Duration::ZERO).await.outcome;
    for _ in 0..20_000 {
        if matches!(last, Outcome::UploadBegun(Some(_))) {
            break;
        }
        last = begin(&world, 0, Duration::ZERO).await.outcome;
    }
    assert!(matches!(last, Outcome::UploadBegun(Some(_))), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_kept_until_the_pin_is_dropped() {
    let (world, store) = world().await;
    let message = send_large(&world, 3).await;
    let pin = open(&world, message).await.pin.expect("data in chunks is pinned");
    world.run(Command::PurgeQueue { queue: "mail".into(), target: PurgeTarget::Waiting }).await;
    for number in 0..3 {
        let chunk = pin.chunk(number).await.expect("it is there");
        assert_eq!((chunk.len(), chunk[0]), (CHUNK_BYTES, number as u8));
    }
    assert!(matches!(pin.chunk(3).await, Err(EngineError::Unavailable(_))));
    assert_eq!(store.stored(ENVIRONMENT).chunks.len(), 3);
    drop(pin);
    until_chunks(&world, &store, 0).await;
    assert_eq!(store.stored(ENVIRONMENT).uploads, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_turn_is_answered_when_the_engine_goes_down() {
    let (world, _store) = world().await;
    let first = begin(&world, 100 << 20, Duration::ZERO).await;
    let second = begin(&world, 100 << 20, Duration::ZERO).await;
    assert!(first.receipt.is_some() && second.receipt.is_some());
    let engine = world.engine.clone();
    let third = tokio::spawn(async move {
        let (queue, wait) = ("mail".into(), Duration::from_secs(20));
        let begin = BeginUpload { queue, message: message(100 << 20), key: None, wait, waiter: WaiterId(0) };
        engine.submit(ENVIRONMENT, Command::BeginUpload(begin)).await
    });
    // It is answered nothing else, since nobody makes room for it.
    world.engine.shut_down().await;
    let refused = third.await.expect("task");
    assert!(matches!(refused, Err(EngineError::ShuttingDown)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_in_which_somebody_sends_or_reads_chunks_is_not_idle() {
    let (world, store) = world().await;
    let message = send_large(&world, 2).await;
    let pin = open(&world, message).await.pin.expect("data in chunks is pinned");
    for _ in 0..5 {
        world.pass(Duration::from_secs(61));
        world.run(Command::GetQueue { queue: "mail".into() }).await;
        pin.chunk(0).await.expect("it is still the same opening");
    }
    drop(pin);
    world.run(Command::PurgeQueue { queue: "mail".into(), target: PurgeTarget::Waiting }).await;
    until_chunks(&world, &store, 0).await;
}
