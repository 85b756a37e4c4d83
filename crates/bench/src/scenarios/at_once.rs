//! A million messages that become visible, or expire, at one instant, beside callers who want nothing of them.

use std::path::Path;
use std::time::{Duration, Instant};

use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome};
use serde_json::{Value, json};

use super::times;
use crate::Options;
use crate::load::{Reached, SendOptions, Target, closed_loop, fill};

const CALLERS: usize = 16;
/// The shortest a message may live.
const LIFE_MIN: Duration = Duration::from_secs(60);

/// What happens to all of them at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtOnce {
    Mature,
    Expire,
}

impl AtOnce {
    fn options(self, after: Duration) -> SendOptions {
        match self {
            Self::Mature => SendOptions { delay: Some(after), ..SendOptions::default() },
            Self::Expire => SendOptions { time_to_live: Some(after), ..SendOptions::default() },
        }
    }
}

pub(super) async fn run(path: &Path, options: &Options, what: AtOnce) -> anyhow::Result<Value> {
    let target = Target::open(path, options.data_bytes).await?;
    target.create("others", QueueSpec::default()).await?;
    target.create("many", QueueSpec::default()).await?;
    let scale = options.scale.unwrap_or(1_000_000);
    let begun = Instant::now();
    // All are due at the same time, however long the filling takes.
    let mut due_in = Duration::from_secs(30.max(scale / 20_000));
    if what == AtOnce::Expire {
        due_in += LIFE_MIN;
    }
    let due_at = begun + due_in;
    let mut sent = 0;
    while sent < scale {
        let part = (scale - sent).min(10_000);
        fill(&target, "many", part, &what.options(due_at.saturating_duration_since(Instant::now()))).await?;
        sent += part;
    }
    let (warm_up, measure) = times(options);
    let before = others(&target, warm_up, measure.min(Duration::from_secs(10))).await?;
    tokio::time::sleep_until(due_at.into()).await;
    let begun = Instant::now();
    let watch = tokio::spawn(done_within(target.clone(), what, scale, begun));
    let during = others(&target, Duration::ZERO, measure.min(Duration::from_secs(10))).await?;
    let done_after = watch.await??;
    target.engine.shut_down().await;
    Ok(json!({
        "per_second": (scale as f64 / done_after.as_secs_f64()).round(),
        "done_after_seconds": done_after.as_secs_f64(),
        "others_p99_micros_before": before.quantile(0.99),
        "others_p99_micros_during": during.quantile(0.99),
        "others_per_second_before": before.per_second.round(),
        "others_per_second_during": during.per_second.round(),
    }))
}

/// Callers of a queue of their own.
pub(super) async fn others(target: &Target, warm_up: Duration, measure: Duration) -> anyhow::Result<Reached> {
    let caller = target.clone();
    closed_loop(target, CALLERS, warm_up, measure, move |_, _| {
        let caller = caller.clone();
        async move { caller.lifecycle("others").await }
    })
    .await
}

async fn done_within(target: Target, what: AtOnce, scale: u64, begun: Instant) -> anyhow::Result<Duration> {
    loop {
        let answer = target.run(Command::GetQueue { queue: "many".into() }).await?;
        let Outcome::Queue(view) = answer.outcome else { anyhow::bail!("no view") };
        let done = match what {
            AtOnce::Mature => view.counters.ready >= scale,
            AtOnce::Expire => view.counters.ready == 0,
        };
        if done {
            return Ok(begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
