//! What is measured. Each scenario answers one line of the design's table of goals.

mod at_once;
mod backlog;
mod bare;
mod idle;
mod large;
mod topics;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use millpond_core::spec::QueueSpec;
use millpond_load::Processes;
use serde_json::{Value, json};

use self::at_once::AtOnce;
use self::topics::Stays;
use crate::Options;
use crate::load::{Reached, SendOptions, Target, closed_loop};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Scenario {
    /// Fill, drain half, end the process; then reopen, lease and go on with the rest. Scale: messages (10 million).
    Backlog,
    /// The same with 100,000 messages leased when the process ends.
    BacklogLeased,
    /// The rows of a lifecycle run, written again by a bare loop. 256 in flight.
    Bare256,
    /// The same with 1,024 in flight.
    Bare1024,
    /// Many queues and as many waiting calls, over a minute. Scale: both (10,000).
    Idle,
    /// Many environments, one in a hundred of them in use, over a minute. Scale: environments (10,000).
    IdleEnvironments,
    /// Sends with an idempotency key while many are live. Scale: keys (10 million).
    Keyed,
    /// Bodies of 100 MiB, one after the other, beside a lifecycle load.
    Large,
    /// Send, lease and ack of one message a call with 256 operations in flight.
    Lifecycle256,
    /// The same with 1,024 in flight.
    Lifecycle1024,
    /// The same with one in flight: what one caller waits.
    Lifecycle1,
    /// Many messages that mature at one instant, beside a lifecycle load. Scale: messages (1 million).
    Maturing,
    /// Many messages that expire at one instant, beside a lifecycle load. Scale: messages (1 million).
    Expiring,
    /// Single sends with 64 in flight.
    Sends64,
    /// Messages of two partitions in turn, read by a group of one of them and by a group of both. Scale: messages (1 million).
    TopicDeployments,
    /// A group in which one message in a hundred fails for ever. Scale: messages (1 million).
    TopicFailing,
    /// Single sends to a topic with one group, 64 in flight.
    TopicPublish1,
    /// The same with 200 groups.
    TopicPublish200,
    /// A group with a stuck message, and acks behind it. Scale: messages (1 million).
    TopicStuck,
}

pub(crate) async fn run(scenario: Scenario, options: &Options) -> anyhow::Result<Value> {
    let directory = tempfile::Builder::new()
        .prefix("millpond-bench-")
        .tempdir_in(&options.directory)
        .context("making a directory for the data")?;
    let path = directory.path();
    let mut result = match scenario {
        Scenario::Backlog => backlog::run(path, options, "backlog", 0).await,
        Scenario::BacklogLeased => backlog::run(path, options, "backlog-leased", 100_000).await,
        Scenario::Bare256 => bare::run(path, options, 256).await,
        Scenario::Bare1024 => bare::run(path, options, 1_024).await,
        Scenario::Idle => idle::queues(path, options).await,
        Scenario::IdleEnvironments => idle::environments(path, options).await,
        Scenario::Keyed => keyed(path, options).await,
        Scenario::Lifecycle1 => lifecycle(path, options, 1).await,
        Scenario::Large => large::run(path, options).await,
        Scenario::Lifecycle256 => lifecycle(path, options, 256).await,
        Scenario::Lifecycle1024 => lifecycle(path, options, 1_024).await,
        Scenario::Maturing => at_once::run(path, options, AtOnce::Mature).await,
        Scenario::Expiring => at_once::run(path, options, AtOnce::Expire).await,
        Scenario::Sends64 => sends(path, options).await,
        Scenario::TopicDeployments => topics::deployments(path, options).await,
        Scenario::TopicFailing => topics::steady(path, options, Stays::OneInHundred).await,
        Scenario::TopicPublish1 => topics::publish(path, options, 1).await,
        Scenario::TopicPublish200 => topics::publish(path, options, 200).await,
        Scenario::TopicStuck => topics::steady(path, options, Stays::First).await,
    }?;
    if let Value::Object(fields) = &mut result {
        fields.insert("peak_memory_kib".into(), json!(Processes::Own.peak_memory_kib()));
    }
    Ok(result)
}

pub(crate) fn times(options: &Options) -> (Duration, Duration) {
    (Duration::from_secs(options.warm_up), Duration::from_secs(options.seconds))
}

pub(crate) fn figures(reached: &Reached) -> Value {
    json!({
        "per_second": reached.per_second.round(),
        "cpu_micros_each": (reached.cpu_micros_each * 10.0).round() / 10.0,
        "operations_per_commit": reached.operations_per_commit.round(),
        "p50_micros": reached.quantile(0.5),
        "p99_micros": reached.quantile(0.99),
    })
}

async fn lifecycle(path: &Path, options: &Options, in_flight: usize) -> anyhow::Result<Value> {
    let target = Target::open(path, options.data_bytes).await?;
    target.create("bench", QueueSpec::default()).await?;
    let (warm_up, measure) = times(options);
    let caller = target.clone();
    let reached = closed_loop(&target, in_flight, warm_up, measure, move |_, _| {
        let caller = caller.clone();
        async move { caller.lifecycle("bench").await }
    })
    .await?;
    target.engine.shut_down().await;
    Ok(figures(&reached))
}

async fn sends(path: &Path, options: &Options) -> anyhow::Result<Value> {
    let target = Target::open(path, options.data_bytes).await?;
    target.create("bench", QueueSpec::default()).await?;
    let (warm_up, measure) = times(options);
    let caller = target.clone();
    let reached = closed_loop(&target, 64, warm_up, measure, move |_, _| {
        let caller = caller.clone();
        async move { caller.send("bench", 1, SendOptions::default()).await }
    })
    .await?;
    target.engine.shut_down().await;
    Ok(figures(&reached))
}

/// Fills the table of keys with sends of one message each, then measures more of them; each message is kept.
async fn keyed(path: &Path, options: &Options) -> anyhow::Result<Value> {
    let target = Target::open(path, options.data_bytes).await?;
    target.create("bench", QueueSpec::default()).await?;
    let (warm_up, measure) = times(options);
    // Room for the keys of the measurement below the limit of ten million.
    let scale = options.scale.unwrap_or(9_000_000);
    let begun = Instant::now();
    let per_caller = scale / 1_024;
    let mut tasks = Vec::new();
    for caller in 0..1_024u64 {
        let target = target.clone();
        tasks.push(tokio::spawn(async move {
            for turn in 0..per_caller {
                target.send("bench", 1, keyed_by(key(caller, turn))).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let filled = begun.elapsed();
    let caller = target.clone();
    let reached = closed_loop(&target, 256, warm_up, measure, move |task, turn| {
        let caller = caller.clone();
        async move { caller.send("bench", 1, keyed_by(key(10_000 + task as u64, turn))).await }
    })
    .await?;
    target.engine.shut_down().await;
    let mut result = figures(&reached);
    result["live_keys_before"] = json!(per_caller * 1_024);
    result["filled_per_second"] = json!((per_caller * 1_024) as f64 / filled.as_secs_f64());
    Ok(result)
}

fn keyed_by(key: String) -> SendOptions {
    SendOptions { key: Some(key), ..SendOptions::default() }
}

/// Keys as clients draw them: without any order.
fn key(caller: u64, turn: u64) -> String {
    let high = millpond_core::mix(caller);
    format!("{:016x}-{:016x}", millpond_core::mix(high ^ turn), millpond_core::mix(high.wrapping_add(turn)))
}
