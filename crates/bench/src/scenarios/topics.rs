//! Topics: what groups cost a publisher, and what a group costs that has something stuck, reads two deployments, or fails now and
//! then (design-holes A8).

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use millpond_core::spec::QueueSpec;
use millpond_load::Processes;
use serde_json::{Value, json};

use super::{figures, times};
use crate::Options;
use crate::load::{SendOptions, Target, closed_loop};

const TOPIC: &str = "topics/bench";
/// Messages of a call, and calls at once, of the scenarios that count to a million.
const BATCH: usize = 100;
/// After so many messages the cost of an ack and the memory are noted.
const PARTS: u64 = 10;

/// Which messages a group of [`steady`] does not ack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stays {
    /// The first, which is leased for the whole time.
    First,
    /// One in a hundred fails each time that it is delivered.
    OneInHundred,
}

/// Single sends to a topic with so many groups, each of which has read from it. 64 in flight.
pub(super) async fn publish(path: &Path, options: &Options, groups: usize) -> anyhow::Result<Value> {
    let target = Target::open(path, options.data_bytes).await?;
    target.create(TOPIC, QueueSpec::topic()).await?;
    target.send(TOPIC, 1, SendOptions::default()).await?;
    for number in 0..groups {
        let group = group(number);
        target.create(&group, QueueSpec::topic()).await?;
        ensure!(target.lease(&group, 1, Duration::ZERO).await?.len() == 1, "{group} has nothing");
    }
    let (warm_up, measure) = times(options);
    let caller = target.clone();
    let reached = closed_loop(&target, 64, warm_up, measure, move |_, _| {
        let caller = caller.clone();
        async move { caller.send(TOPIC, 1, SendOptions::default()).await }
    })
    .await?;
    target.engine.shut_down().await;
    Ok(figures(&reached))
}

fn group(number: usize) -> String {
    format!("{TOPIC}/groups/g{number}")
}

/// One group takes a million messages, a hundred a call, and acks all but those that stay: what an ack costs and what memory there
/// is, at the beginning and at the end. Scale: messages.
pub(super) async fn steady(path: &Path, options: &Options, stays: Stays) -> anyhow::Result<Value> {
    let scale = options.scale.unwrap_or(1_000_000);
    let target = Target::open(path, options.data_bytes).await?;
    target.create(TOPIC, QueueSpec::topic()).await?;
    let group = group(0);
    target.create(&group, QueueSpec { leased_max: 1_000_000, ..QueueSpec::topic() }).await?;
    if stays == Stays::First {
        target.send(TOPIC, 1, SendOptions::default()).await?;
        target.lease(&group, 1, Duration::ZERO).await?;
    }
    let mut meter = Meter::default();
    let part = scale / PARTS;
    for number in 0..PARTS {
        meter.begin();
        for _ in 0..part / BATCH as u64 {
            target.send(TOPIC, BATCH, SendOptions::default()).await?;
            let leases = target.lease(&group, 100, Duration::ZERO).await?;
            let (mut acked, mut failed) = (leases, Vec::new());
            if stays == Stays::OneInHundred {
                failed = acked.split_off(acked.len().saturating_sub(1));
            }
            target.nack(&group, failed).await?;
            target.ack(&group, acked).await?;
        }
        meter.end(number, part);
    }
    target.engine.shut_down().await;
    Ok(meter.value())
}

/// Messages of two deployments in turn; one group reads one of them, another both. Scale: messages.
pub(super) async fn deployments(path: &Path, options: &Options) -> anyhow::Result<Value> {
    let scale = options.scale.unwrap_or(1_000_000);
    let target = Target::open(path, options.data_bytes).await?;
    target.create(TOPIC, QueueSpec::topic()).await?;
    let partition = |name: &str| format!("{TOPIC}/partitions/{name}");
    for name in ["one", "two"] {
        target.create(&partition(name), QueueSpec::topic()).await?;
    }
    let (pinned, all) = (group(0), group(1));
    target.create(&pinned, QueueSpec::topic()).await?;
    target.create(&all, QueueSpec::topic()).await?;
    let mut meter = Meter::default();
    let part = scale / PARTS;
    for number in 0..PARTS {
        meter.begin();
        for _ in 0..part / (2 * BATCH as u64) {
            // Ten of each in turn.
            for _ in 0..BATCH / 10 {
                target.send(&partition("one"), 10, SendOptions::default()).await?;
                target.send(&partition("two"), 10, SendOptions::default()).await?;
            }
            let leases = target.lease_of(&pinned, 100, "two").await?;
            target.ack(&pinned, leases).await?;
            for _ in 0..2 {
                let leases = target.lease(&all, 100, Duration::ZERO).await?;
                target.ack(&all, leases).await?;
            }
        }
        meter.end(number, part);
    }
    target.engine.shut_down().await;
    Ok(meter.value())
}

/// Time and memory of the first and the last part of a run.
#[derive(Default)]
struct Meter {
    begun: Option<Instant>,
    micros_each: Vec<f64>,
    memory_kib: Vec<u64>,
}

impl Meter {
    fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    fn end(&mut self, number: u64, messages: u64) {
        let elapsed = self.begun.take().map(|begun| begun.elapsed()).unwrap_or_default();
        self.micros_each.push(elapsed.as_micros() as f64 / messages as f64);
        self.memory_kib.push(Processes::Own.memory_kib());
        eprintln!("part {number}: {:?} µs a message", self.micros_each.last());
    }

    fn value(&self) -> Value {
        let first = self.micros_each.get(1).copied().unwrap_or_default();
        let last = self.micros_each.last().copied().unwrap_or_default();
        json!({
            "micros_each_second_part": (first * 10.0).round() / 10.0,
            "micros_each_last_part": (last * 10.0).round() / 10.0,
            "memory_kib_second_part": self.memory_kib.get(1),
            "memory_kib_last_part": self.memory_kib.last(),
        })
    }
}
