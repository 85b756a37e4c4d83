//! awa under load: `millpond-bench-peers-awa SCENARIO URL SECONDS WARM_UP CALLERS DATA_BYTES RATE`, with the scenarios and the output of
//! `../node/measure.mjs`.
//!
//! A job counts when its handler returns; awa stores that in batches, a moment later. Deadlines are off, which is its fast path.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use awa::model::{QueueStorage, QueueStorageConfig};
use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const BATCH: usize = 100;
/// Workers of the scenario latency, as many as it has unless told otherwise: with the four of the others it does not keep up.
const HANDLERS: u32 = 50;
/// A connection for each of 64 callers, and what its own tasks need.
const POOL: u32 = 80;
/// Its statistics for people are of no use here.
const STATISTICS: Duration = Duration::from_secs(300);

#[derive(Serialize, Deserialize, JobArgs)]
struct Task {
    stamp: u64,
    data: String,
}

/// What was reached.
struct Reached {
    messages: AtomicU64,
    counts: AtomicBool,
    micros: Mutex<Vec<u64>>,
}

impl Reached {
    fn took(&self, since: u64) {
        if self.counts.load(Ordering::Relaxed)
            && let Ok(mut micros) = self.micros.lock()
        {
            micros.push(now().saturating_sub(since));
        }
    }
}

fn now() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX)
}

struct Load {
    scenario: String,
    pool: PgPool,
    storage: QueueStorage,
    callers: usize,
    filler: String,
    rate: u64,
    reached: Arc<Reached>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, url, seconds, warm_up, callers, data_bytes, rate] = arguments.as_slice() else {
        bail!("SCENARIO URL SECONDS WARM_UP CALLERS DATA_BYTES RATE");
    };
    let reached =
        Reached { messages: AtomicU64::new(0), counts: AtomicBool::new(false), micros: Mutex::default() };
    let pool = PgPoolOptions::new().max_connections(POOL).connect(url).await?;
    awa::migrations::run(&pool).await?;
    let load = Arc::new(Load {
        scenario: scenario.clone(),
        pool,
        storage: QueueStorage::new(QueueStorageConfig::default())?,
        callers: callers.parse()?,
        filler: ('a'..='z').cycle().take(data_bytes.parse::<usize>()?).collect(),
        rate: rate.parse()?,
        reached: Arc::new(reached),
    });
    let client = load.begin().await?;
    tokio::time::sleep(Duration::from_secs(warm_up.parse()?)).await;
    println!("begin");
    load.report(Duration::from_secs(seconds.parse()?)).await?;
    drop(client);
    std::process::exit(0);
}

impl Load {
    fn task(&self, stamp: u64) -> Task {
        Task { stamp, data: self.filler.clone() }
    }

    async fn send(&self, stamp: u64, count: usize) -> anyhow::Result<()> {
        let options = || InsertOpts { queue: self.scenario.clone(), ..InsertOpts::default() };
        let task = self.task(stamp);
        if count == 1 {
            awa::insert_with(&self.pool, &task, options()).await?;
        } else {
            // What its documents prefer for many.
            let jobs = (0..count).map(|_| awa::model::insert::params_with(&task, options()));
            let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
            self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        }
        Ok(())
    }

    /// Starts the workers and the callers.
    async fn begin(self: &Arc<Self>) -> anyhow::Result<Option<Client>> {
        if self.scenario == "sends" {
            for _ in 0..self.callers {
                let load = Arc::clone(self);
                tokio::spawn(async move { load.send_again().await });
            }
            return Ok(None);
        }
        let batch = if self.scenario == "batches" { BATCH } else { 1 };
        let workers = match self.scenario.as_str() {
            "latency" => HANDLERS,
            _ => u32::try_from((self.callers * batch).min(1_024))?,
        };
        let (load, done) = (Arc::clone(self), Arc::new(AtomicU64::new(0)));
        let config =
            QueueConfig { max_workers: workers, deadline_duration: Duration::ZERO, ..QueueConfig::default() };
        let client = Client::builder(self.pool.clone())
            .queue(self.scenario.clone(), config)
            .queue_stats_interval(STATISTICS)
            .runtime_snapshot_interval(STATISTICS)
            .register::<Task, _, _>(move |task, _context| {
                let (load, done) = (Arc::clone(&load), Arc::clone(&done));
                async move {
                    load.handle(&task, batch, &done);
                    Ok(JobResult::Completed)
                }
            })
            .build()?;
        client.start().await?;
        let load = Arc::clone(self);
        if self.scenario == "latency" {
            tokio::spawn(async move { load.arrive().await });
        } else {
            for _ in 0..self.callers {
                let load = Arc::clone(self);
                tokio::spawn(async move { or_end(load.send(now(), batch).await) });
            }
        }
        Ok(Some(client))
    }

    /// So many are under way, whoever's: a new one, or a new hundred, follows each that is done.
    fn handle(self: &Arc<Self>, task: &Task, batch: usize, done: &AtomicU64) {
        self.reached.messages.fetch_add(1, Ordering::Relaxed);
        self.reached.took(task.stamp);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.scenario != "latency" && done.is_multiple_of(batch as u64) {
            let load = Arc::clone(self);
            tokio::spawn(async move { or_end(load.send(now(), batch).await) });
        }
    }

    async fn send_again(&self) {
        loop {
            let begun = now();
            or_end(self.send(begun, 1).await);
            self.reached.took(begun);
            self.reached.messages.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn arrive(self: &Arc<Self>) {
        let begun = Instant::now();
        let mut sent = 0;
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        loop {
            ticks.tick().await;
            let due = u64::try_from(begun.elapsed().as_millis()).unwrap_or(0) * self.rate / 1_000;
            for _ in sent..due {
                let load = Arc::clone(self);
                tokio::spawn(async move { or_end(load.send(now(), 1).await) });
            }
            sent = due.max(sent);
        }
    }

    async fn report(&self, measured: Duration) -> anyhow::Result<()> {
        let (before, cpu, begun) =
            (self.reached.messages.load(Ordering::Relaxed), cpu_micros()?, Instant::now());
        self.reached.counts.store(true, Ordering::Relaxed);
        tokio::time::sleep(measured).await;
        self.reached.counts.store(false, Ordering::Relaxed);
        let messages = self.reached.messages.load(Ordering::Relaxed) - before;
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = cpu_micros()? - cpu;
        let mut micros = self.reached.micros.lock().map(|micros| micros.clone()).unwrap_or_default();
        micros.sort_unstable();
        let quantile =
            |part: usize| micros.get(micros.len().saturating_sub(1) * part / 100).copied().unwrap_or(0);
        let report = serde_json::json!({
            "messages": messages,
            "seconds": seconds,
            "cpu_micros": cpu,
            "p50_micros": quantile(50),
            "p99_micros": quantile(99),
        });
        println!("{report}");
        Ok(())
    }
}

/// A load of which a part failed is none.
fn or_end(result: anyhow::Result<()>) {
    if let Err(error) = result {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
}

/// Processor time of this process so far; the kernel counts in ticks of 10 ms.
fn cpu_micros() -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().context("it has a name")?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? * 10_000)
}
