//! Rounds: in each, every server is started, put through all scenarios, and stopped.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use clap::ValueEnum as _;
use millpond_load::{
    Figures, LoadOptions, Processes, Progress, Scenario, block_on, describe, measure_flush, sum_up,
};
use serde_json::{Map, Value, json};

use crate::RunOptions;
use crate::daemon::first_line;
use crate::peers::beanstalkd::Beanstalkd;
use crate::peers::millpond::Own;
use crate::peers::nats::{Nats, Sync};
use crate::peers::postgresql::{Database, OnDatabase, SETTINGS, load};
use crate::peers::rabbitmq::Rabbitmq;
use crate::peers::redis::Redis;
use crate::peers::{Family, Peer, Server, program};

/// The sends come last, since they leave messages behind.
const SCENARIOS: [Scenario; 4] = [Scenario::Lifecycle, Scenario::Batches, Scenario::Latency, Scenario::Sends];

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
    let of_family = |peer: &&Peer| peer.family() == options.family;
    let all: Vec<Peer> = Peer::value_variants().iter().filter(of_family).copied().collect();
    let chosen = if options.peers.is_empty() { &all } else { &options.peers };
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
        Peer::MillpondPostgresql => {
            Ok(format!("{}, {}", flag(&options.millpond, "--version")?, server_version()?))
        }
        Peer::PgBoss => on_node("pg-boss"),
        Peer::GraphileWorker => on_node("graphile-worker"),
        Peer::Awa => Ok(pinned(concat!(env!("CARGO_MANIFEST_DIR"), "/awa/Cargo.toml"), "awa = \"=")?),
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

/// The version of a library of Node's, and of the Node that runs it.
fn on_node(library: &str) -> anyhow::Result<String> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/postgresql/");
    let manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{directory}package.json"))?)?;
    let version = manifest["dependencies"][library].as_str().unwrap_or_default();
    let node = format!("{directory}node_modules/node/bin/node");
    Ok(format!("{version}, Node {}", first_line(Command::new(node).arg("--version"))?))
}

fn pinned(manifest: &str, before: &str) -> anyhow::Result<String> {
    let manifest = std::fs::read_to_string(manifest)?;
    let version = manifest.split(before).nth(1).and_then(|rest| rest.split('"').next());
    Ok(version.context("no version is pinned")?.to_owned())
}

/// Of the PostgreSQL that all of its family use, with its settings.
pub(crate) fn server_version() -> anyhow::Result<String> {
    let rows = Database::start()?.cluster().sql("postgres", "show server_version")?;
    let version = rows.into_iter().flatten().next().flatten().context("it has a version")?;
    let settings = SETTINGS.iter().map(|(name, value)| format!("{name} = {value}"));
    Ok(format!("PostgreSQL {version} with {}", settings.collect::<Vec<_>>().join(", ")))
}

struct Turn<'a> {
    options: &'a RunOptions,
    progress: &'a Progress,
    label: String,
}

impl Turn<'_> {
    async fn measure(&self, peer: Peer) -> anyhow::Result<Vec<Figures>> {
        let made = tempfile::Builder::new().prefix("bench-peers-").tempdir_in(&self.options.directory)?;
        let (directory, data_bytes): (PathBuf, _) =
            (made.path().canonicalize()?, self.options.load.data_bytes);
        match peer {
            Peer::Millpond => self.all(&Own::start(&self.options.millpond, &directory, data_bytes)?).await,
            Peer::Redis => self.all(&Redis::start(&directory, data_bytes).await?).await,
            Peer::Bullmq => {
                let redis = Redis::start(&directory, data_bytes).await?;
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bullmq/load.mjs");
                let load = || {
                    let mut node = tokio::process::Command::new("node");
                    node.arg(script);
                    node
                };
                self.all_by_program(load, &redis.port.to_string(), redis.processes(), None).await
            }
            Peer::MillpondPostgresql => {
                self.all(&OnDatabase::start(&self.options.millpond, data_bytes)?).await
            }
            Peer::PgBoss | Peer::GraphileWorker | Peer::Awa => {
                let database = Database::start()?;
                let program = || load(peer, &self.options.awa);
                self.all_by_program(program, &database.url(), database.processes(), Some(&database)).await
            }
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
            let measured = async {
                let queue = server.queue(scenario.name(), self.options.load.connections).await?;
                let processes = Some(server.processes());
                scenario.measure(&queue, &self.options.load, processes, self.progress).await
            };
            figures.push(self.one(scenario, server.database(), measured).await?);
        }
        Ok(figures)
    }

    async fn all_by_program(
        &self,
        load: impl Fn() -> tokio::process::Command,
        target: &str,
        server: Processes,
        database: Option<&Database>,
    ) -> anyhow::Result<Vec<Figures>> {
        let mut figures = Vec::new();
        for scenario in SCENARIOS {
            let measured = program::measure(load(), target, server, scenario, &self.options.load);
            figures.push(self.one(scenario, database, measured).await?);
        }
        Ok(figures)
    }

    /// One scenario, and what the database has grown by for each message.
    async fn one(
        &self,
        scenario: Scenario,
        database: Option<&Database>,
        measured: impl Future<Output = anyhow::Result<Figures>>,
    ) -> anyhow::Result<Figures> {
        self.progress.begin(format!("{}, {}", self.label, scenario.name()));
        let before = database.map(Database::stored_bytes).transpose()?;
        let mut figures = measured.await.with_context(|| scenario.name())?;
        if let (Some(database), Some(before)) = (database, before) {
            let seconds = self.options.load.measured() + self.options.load.warm_up();
            let messages = figures.messages_per_second * seconds.as_secs_f64();
            let grown = database.stored_bytes()? - before;
            figures.further.push(("database_bytes_per_message", grown / messages.max(1.0)));
        }
        self.progress.end();
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
        "family": if measured.iter().any(|own| own.peer.family() == Family::Postgresql) { "postgresql" } else { "servers" },
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
