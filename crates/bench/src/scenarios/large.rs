//! Bodies of 100 MiB, one after the other, beside callers who send small ones.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use millpond_core::command::{AppendUpload, BeginUpload, FinishUpload, NewMessage, Send, WaiterId};
use millpond_core::limits::{CHUNK_BYTES, DATA_BYTES_MAX};
use millpond_core::row::{Data, DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome};
use serde_json::{Value, json};

use super::at_once::others;
use super::times;
use crate::Options;
use crate::load::Target;

const QUEUE: &str = "large";

pub(super) async fn run(path: &Path, options: &Options) -> anyhow::Result<Value> {
    let target = Target::open(path, options.data_bytes).await?;
    target.create("others", QueueSpec::default()).await?;
    target.create(QUEUE, QueueSpec::default()).await?;
    let (warm_up, measure) = times(options);
    let before = others(&target, warm_up, measure).await?;
    let (over, bodies) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let sender = tokio::spawn(send_and_ack(target.clone(), Arc::clone(&over), Arc::clone(&bodies)));
    let during = others(&target, Duration::ZERO, measure).await?;
    over.store(true, Ordering::Relaxed);
    sender.await??;
    let seconds = begun.elapsed().as_secs_f64();
    let mib = bodies.load(Ordering::Relaxed) * (DATA_BYTES_MAX >> 20);
    target.engine.shut_down().await;
    Ok(json!({
        "per_second": mib as f64 / seconds,
        "mib_per_second": mib as f64 / seconds,
        "others_p99_micros_before": before.quantile(0.99),
        "others_p99_micros_during": during.quantile(0.99),
        "others_per_second_before": before.per_second.round(),
        "others_per_second_during": during.per_second.round(),
    }))
}

/// Sends bodies, and acks each before the next, so that chunks come and go.
async fn send_and_ack(target: Target, over: Arc<AtomicBool>, bodies: Arc<AtomicU64>) -> anyhow::Result<()> {
    let chunk: Arc<[u8]> = (0..CHUNK_BYTES).map(|at| (at % 251) as u8).collect();
    let data = Data::Chunked { bytes: DATA_BYTES_MAX };
    let content = MessageContent { attributes: "{}".into(), data_kind: DataKind::Binary, data };
    let message = NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None };
    while !over.load(Ordering::Relaxed) {
        let begin = BeginUpload {
            queue: QUEUE.into(),
            message: message.clone(),
            key: None,
            wait: Duration::ZERO,
            waiter: WaiterId(0),
        };
        let begun = target.run(Command::BeginUpload(begin)).await?;
        let Outcome::UploadBegun(Some(upload)) = begun.outcome else { bail!("no upload") };
        for number in 0..u32::try_from(DATA_BYTES_MAX / CHUNK_BYTES as u64)? {
            let append = AppendUpload { upload, number, data: Arc::clone(&chunk) };
            target.run(Command::AppendUpload(append)).await?;
        }
        let send = Send { queue: QUEUE.into(), messages: vec![message.clone()], idempotency: None };
        target.run(Command::FinishUpload(FinishUpload { upload: Some(upload), send })).await?;
        if let Some(receipt) = begun.receipt {
            receipt.delivered();
        }
        let leases = target.lease(QUEUE, 1, Duration::ZERO).await?;
        target.ack(QUEUE, leases).await?;
        bodies.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
