//! Tables and indexes while millions of messages pass: sent, leased and acked by the hundred.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use millpond_load::{Progress, Work, block_on, start};
use serde_json::{Value, json};

use super::{Binary, json_of, sizes};
use crate::peers::Server as _;
use crate::peers::postgresql::OnDatabase;

const BATCH: usize = 100;
const STEP: Duration = Duration::from_secs(1);
const MIB: f64 = 1_048_576.0;

#[derive(Args)]
pub(crate) struct PassedOptions {
    #[command(flatten)]
    binary: Binary,

    /// How many messages pass
    #[arg(long, default_value_t = 10_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,

    /// How many pass between two looks at the sizes
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,

    /// Callers, each with a hundred messages at a time
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_024))]
    connections: u64,

    /// Bytes of data of each message
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u64).range(20..=8_192))]
    data_bytes: u64,

    /// Seconds without a load before the last look
    #[arg(long, default_value_t = 60, value_name = "N")]
    rest: u64,
}

pub(crate) fn run(options: &PassedOptions) -> anyhow::Result<String> {
    let looks = block_on(measure(options))?;
    let settings = json!({
        "messages": options.messages,
        "connections": options.connections,
        "batch": BATCH,
        "data_bytes": options.data_bytes,
        "rest_seconds": options.rest,
    });
    options.binary.report("passed", &settings, &Value::from(looks))
}

async fn measure(options: &PassedOptions) -> anyhow::Result<Vec<Value>> {
    let server = OnDatabase::start(&options.binary.millpond, options.data_bytes)?;
    let database = server.database().context("it is in one")?;
    let queue = server.queue("passed", options.connections).await?;
    let progress = Progress::new(options.messages.div_ceil(options.every));
    let look = |messages: u64, seconds: f64| -> anyhow::Result<Value> {
        let bytes = database.stored_bytes()?;
        let memory = server.server().processes().memory_kib();
        eprintln!("{messages} messages: {:.0} MiB, {:.0} messages/s", bytes / MIB, messages as f64 / seconds);
        Ok(json!({
            "messages": messages,
            "seconds": seconds,
            "database_bytes": bytes,
            "server_memory_kib": memory,
            "relations": sizes(database)?,
        }))
    };
    let mut looks = Vec::new();
    let begun = Instant::now();
    let mut running = start(&queue, (Work::Lifecycle(BATCH), usize::try_from(options.connections)?)).await?;
    let mut next = options.every.min(options.messages);
    while running.messages() < options.messages {
        progress.begin(format!("{} messages", running.messages()));
        let figures = running.window(STEP, Some(server.processes()), &progress).await?;
        if running.messages() >= next {
            let mut seen = look(running.messages(), begun.elapsed().as_secs_f64())?;
            if let Value::Object(fields) = &mut seen {
                fields.insert("last_second".into(), Value::Object(json_of(&figures)));
            }
            looks.push(seen);
            next = (running.messages() / options.every + 1) * options.every;
            progress.end();
        }
    }
    let passed = running.messages();
    drop(running);
    if options.rest > 0 {
        tokio::time::sleep(Duration::from_secs(options.rest)).await;
        looks.push(look(passed, begun.elapsed().as_secs_f64())?);
    }
    Ok(looks)
}
