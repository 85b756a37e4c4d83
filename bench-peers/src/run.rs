//! Rounds: in each, every server is started, put through all scenarios, and stopped.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use clap::ValueEnum as _;
use millpond_load::{Figures, LoadOptions, Progress, Scenario, block_on, describe, measure_flush, sum_up};
use serde_json::{Map, Value, json};

use crate::RunOptions;
use crate::daemon::first_line;
use crate::peers::beanstalkd::Beanstalkd;
use crate::peers::millpond::Own;
use crate::peers::nats::{Nats, Sync};
use crate::peers::rabbitmq::Rabbitmq;
use crate::peers::redis::Redis;
use crate::peers::{Peer, Server, bullmq};

/// The sends come last, since they leave messages behind.
const SCENARIOS: [Scenario; 4] =
    [Scenario::Lifecycle, Scenario::Batches, Scenario::Latency, Scenario::Sends];

pub(crate) fn run(options: &RunOptions) -> anyhow::Result<String> {
    let report = block_on(measure_all(options))?;
    Ok(format!("{}\n", serde_json::to_string_pretty(&report)?))
}

/// A peer with what was measured, by scenario and round.
struct Measured {
    peer: Peer,
    version: String,
    rounds: [Vec<Figures>; SCENARIOS.len()],
}

async fn measure_all(options: &RunOptions) -> anyhow::Result<Value> {
    let chosen = if options.peers.is_empty() { Peer::value_variants() } else { &options.peers };
    let mut measured = Vec::new();
    for &peer in chosen {
        measured.push(Measured { peer, version: version(peer, options)?, rounds: Default::default() });
    }
    let rounds = options.load.rounds;
    let progress = Progress::new(rounds * (chosen.len() * SCENARIOS.len()) as u64);
    let mut flushes = Vec::new();
    for round in 1..=rounds {
        flushes.push(measure_flush(&options.directory)?.p50_micros);
        for own in &mut measured {
            let name = own.peer.name();
            let turn = Turn { options, progress: &progress, label: format!("{name}, round {round}") };
            let figures = turn.measure(own.peer).await;
            let figures = figures.with_context(|| format!("measuring {name}"))?;
            for (rounds, figures) in own.rounds.iter_mut().zip(figures) {
                rounds.push(figures);
            }
        }
    }
    Ok(report(&options.load, &flushes, &measured))
}

fn version(peer: Peer, options: &RunOptions) -> anyhow::Result<String> {
    let flag = |program: &Path, flag: &str| first_line(Command::new(program).arg(flag));
    match peer {
        Peer::Millpond => flag(&options.millpond, "--version"),
        Peer::Redis => flag(Path::new("redis-server"), "--version"),
        Peer::Bullmq => {
            let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/bullmq/package.json");
            let manifest: Value = serde_json::from_str(&std::fs::read_to_string(manifest)?)?;
            let version = manifest["dependencies"]["bullmq"].as_str().unwrap_or_default();
            Ok(format!("{version}, Node {}", flag(Path::new("node"), "--version")?))
        }
        Peer::Rabbitmq => first_line(&mut Rabbitmq::version()),
        Peer::Nats | Peer::NatsSync => flag(&options.nats_server, "--version"),
        Peer::Beanstalkd => flag(Path::new("beanstalkd"), "-v"),
    }
}

struct Turn<'a> {
    options: &'a RunOptions,
    progress: &'a Progress,
    label: String,
}

impl Turn<'_> {
    async fn measure(&self, peer: Peer) -> anyhow::Result<Vec<Figures>> {
        let made = tempfile::Builder::new().prefix("bench-peers-").tempdir_in(&self.options.directory)?;
        let (directory, data_bytes): (PathBuf, _) = (made.path().canonicalize()?, self.options.load.data_bytes);
        match peer {
            Peer::Millpond => {
                self.all(&Own::start(&self.options.millpond, &directory, data_bytes)?).await
            }
            Peer::Redis => self.all(&Redis::start(&directory, data_bytes).await?).await,
            Peer::Bullmq => self.all_bullmq(&Redis::start(&directory, data_bytes).await?).await,
            Peer::Rabbitmq => self.all(&Rabbitmq::start(&directory, data_bytes).await?).await,
            Peer::Beanstalkd => self.all(&Beanstalkd::start(&directory, data_bytes).await?).await,
            Peer::Nats | Peer::NatsSync => {
                let sync = if peer == Peer::NatsSync { Sync::Always } else { Sync::Default };
                let binary = &self.options.nats_server;
                self.all(&Nats::start(binary, &directory, sync, data_bytes).await?).await
            }
        }
    }

    async fn all<S: Server>(&self, server: &S) -> anyhow::Result<Vec<Figures>> {
        let mut figures = Vec::new();
        for scenario in SCENARIOS {
            self.progress.begin(format!("{}, {}", self.label, scenario.name()));
            let queue = server.queue(scenario.name(), self.options.load.connections).await?;
            let processes = Some(server.processes());
            let measured = scenario.measure(&queue, &self.options.load, processes, self.progress).await;
            figures.push(measured.with_context(|| scenario.name())?);
            self.progress.end();
        }
        Ok(figures)
    }

    async fn all_bullmq(&self, redis: &Redis) -> anyhow::Result<Vec<Figures>> {
        let mut figures = Vec::new();
        for scenario in SCENARIOS {
            self.progress.begin(format!("{}, {}", self.label, scenario.name()));
            let measured = bullmq::measure(redis.port, redis.processes(), scenario, &self.options.load).await;
            figures.push(measured.with_context(|| scenario.name())?);
            self.progress.end();
        }
        Ok(figures)
    }
}

fn report(load: &LoadOptions, flushes: &[f64], measured: &[Measured]) -> Value {
    let peers = measured.iter().map(|own| {
        let scenarios = SCENARIOS.iter().zip(&own.rounds).map(|(scenario, rounds)| {
            let figures = sum_up(rounds).into_iter().map(|(name, all)| (name.to_owned(), all.json()));
            (scenario.name().to_owned(), Value::Object(figures.collect()))
        });
        json!({
            "name": own.peer.name(),
            "version": own.version,
            "durability": own.peer.durability(),
            "client": own.peer.client(),
            "scenarios": Value::Object(scenarios.collect::<Map<_, _>>()),
        })
    });
    json!({
        "machine": describe(),
        "flush_p50_micros": flushes,
        "settings": {
            "seconds": load.seconds,
            "warm_up_seconds": load.warm_up,
            "callers": load.connections,
            "data_bytes": load.data_bytes,
            "latency_messages_per_second": load.rate,
        },
        "peers": peers.collect::<Vec<_>>(),
    })
}
