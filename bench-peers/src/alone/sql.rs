//! Connections that commit sends by SQL, beside as many that commit plain inserts.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use millpond_load::{Figures, LoadOptions, Processes, Progress, Work, block_on, closed_loop, sum_up};
use serde_json::{Map, Value, json};

use super::Binary;
use super::sender::{Insert, Sender};
use crate::peers::Server as _;
use crate::peers::postgresql::{Database, OnDatabase};

const QUEUE: &str = "sent";
/// How often it is looked whether all was taken in.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(crate) struct SqlOptions {
    #[command(flatten)]
    binary: Binary,

    #[command(flatten)]
    load: LoadOptions,
}

/// What is compared: what is committed, and whether the server takes it in meanwhile.
const VARIANTS: [(&str, Insert, bool); 4] = [
    ("same", Insert::Same, true),
    ("own", Insert::Own, true),
    ("send_without_server", Insert::Send, false),
    ("send", Insert::Send, true),
];

pub(crate) fn run(options: &SqlOptions) -> anyhow::Result<String> {
    let load = &options.load;
    let mut rounds: [Vec<Figures>; VARIANTS.len()] = Default::default();
    block_on(async {
        let progress = Progress::new(load.rounds * VARIANTS.len() as u64);
        for round in 1..=load.rounds {
            for ((name, insert, serves), figures) in VARIANTS.into_iter().zip(&mut rounds) {
                progress.begin(format!("{name}, round {round}"));
                let measured = measure(options, insert, serves, &progress).await;
                figures.push(measured.context(name)?);
                progress.end();
            }
        }
        Ok(())
    })?;
    let measured = VARIANTS.iter().zip(&rounds).map(|((name, ..), rounds)| {
        let figures = sum_up(rounds).into_iter().map(|(name, all)| (name.to_owned(), all.json()));
        ((*name).to_owned(), Value::Object(figures.collect()))
    });
    let settings = json!({
        "seconds": load.seconds,
        "warm_up_seconds": load.warm_up,
        "rounds": load.rounds,
        "connections": load.connections,
        "data_bytes": load.data_bytes,
    });
    options.binary.report("sql", &settings, &Value::Object(measured.collect::<Map<_, _>>()))
}

async fn measure(
    options: &SqlOptions,
    insert: Insert,
    serves: bool,
    progress: &Progress,
) -> anyhow::Result<Figures> {
    let load = &options.load;
    let mut server = OnDatabase::start(&options.binary.millpond, load.data_bytes)?;
    server.queue(QUEUE, load.connections).await?;
    let mut processes = server.processes();
    let database = || server.database().context("it is in one");
    let sender = Sender::new(database()?, insert, QUEUE, load.data_bytes)?;
    if !serves {
        processes = database()?.processes();
        server.stop()?;
    }
    let work = (Work::Sends, usize::try_from(load.connections)?);
    let mut figures = closed_loop(&sender, work, load, Some(processes), progress).await?;
    if serves && insert == Insert::Send {
        let database = server.database().context("it is in one")?;
        figures.further.extend(take_in(database, processes).await?);
    }
    Ok(figures)
}

/// How many were not taken in when the last was committed, and until when they were.
async fn take_in(database: &Database, processes: Processes) -> anyhow::Result<[(&'static str, f64); 3]> {
    let left = || -> anyhow::Result<f64> {
        let rows = database.cluster().sql("postgres", "select count(*) from millpond.intake")?;
        Ok(rows.into_iter().flatten().next().flatten().context("a count")?.parse()?)
    };
    let cpu = || processes.server().map_or(0, Processes::cpu_micros);
    let (begun, before, first) = (Instant::now(), cpu(), left()?);
    while left()? > 0.0 {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let each = cpu().saturating_sub(before) as f64 / first.max(1.0);
    Ok([
        ("left_messages", first),
        ("left_seconds", begun.elapsed().as_secs_f64()),
        ("left_server_cpu_micros_per_message", each),
    ])
}
