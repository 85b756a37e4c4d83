//! A backlog: filled and half drained by the hundred, and the first lease behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio::task::JoinSet;

use crate::progress::Progress;
use crate::scenario::BATCH;
use crate::system::{Caller, Stamp, System};

const CALLERS: usize = 16;
const SHOW_EVERY: Duration = Duration::from_millis(250);

#[derive(Clone, Copy)]
enum Step {
    Fill,
    Drain,
}

/// Sends `count` messages; how many a second.
pub(crate) async fn fill<S: System>(system: &S, count: u64, progress: &Progress) -> anyhow::Result<f64> {
    work_off(system, count, Step::Fill, progress).await
}

/// Leases and acks `count` messages; how many a second.
pub(crate) async fn drain<S: System>(system: &S, count: u64, progress: &Progress) -> anyhow::Result<f64> {
    work_off(system, count, Step::Drain, progress).await
}

/// Leases one message and acks it.
pub(crate) async fn first_lease<S: System>(system: &S) -> anyhow::Result<()> {
    let mut caller = system.caller().await?;
    let leases = caller.lease(1).await?;
    ensure!(!leases.is_empty(), "the backlog is gone");
    caller.ack(leases).await
}

async fn work_off<S: System>(system: &S, count: u64, step: Step, progress: &Progress) -> anyhow::Result<f64> {
    let (begun, left) = (Instant::now(), Arc::new(AtomicU64::new(count)));
    let mut tasks = JoinSet::new();
    for _ in 0..CALLERS {
        tasks.spawn(repeat(system.caller().await?, step, Arc::clone(&left)));
    }
    let mut show = tokio::time::interval(SHOW_EVERY);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => ended??,
                None => break,
            },
            _ = show.tick() => progress.show(),
        }
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

async fn repeat<C: Caller>(mut caller: C, step: Step, left: Arc<AtomicU64>) -> anyhow::Result<()> {
    let batch = BATCH as u64;
    loop {
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left > 0).then(|| left.saturating_sub(batch))
        });
        let Ok(before) = taken else { return Ok(()) };
        let mut messages = usize::try_from(before.min(batch))?;
        match step {
            Step::Fill => caller.send(messages, Stamp::now()).await?,
            Step::Drain => {
                while messages > 0 {
                    let leases = caller.lease(messages).await?;
                    messages = messages.saturating_sub(leases.len());
                    if !leases.is_empty() {
                        caller.ack(leases).await?;
                    }
                }
            }
        }
    }
}
