//! The load: an engine over SQLite in a directory of its own, and what callers do with it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use millpond_core::command::{
    CreateQueue, Holder, Idempotency, Lease, LeaseRef, NewMessage, Reading, Require, Send, Settle,
    SettleAction, Settlement, Start, WaiterId,
};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome};
use millpond_engine::{Answer, Engine, EngineSettings};
use millpond_load::Processes;
use millpond_store::StoreFactory;
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};

pub(crate) const ENVIRONMENT: &str = "orgs/bench/projects/bench/envs/bench";

/// What a send says besides its messages.
#[derive(Clone, Default)]
pub(crate) struct SendOptions {
    pub(crate) delay: Option<Duration>,
    pub(crate) time_to_live: Option<Duration>,
    pub(crate) key: Option<String>,
}

/// An engine under load.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) engine: Engine,
    content: Arc<MessageContent>,
}

impl Target {
    pub(crate) async fn open(directory: &Path, data_bytes: usize) -> anyhow::Result<Self> {
        let factory =
            SqliteFactory::open(directory, SqliteSettings::default()).context("opening the store")?;
        Self::over(Arc::new(factory), data_bytes).await
    }

    pub(crate) async fn over(factory: Arc<dyn StoreFactory>, data_bytes: usize) -> anyhow::Result<Self> {
        let engine = Engine::start(EngineSettings::default(), factory);
        engine.create_environment(ENVIRONMENT).await?;
        let attributes = r#"{"id":"A234-1234-1234","source":"/bench","type":"com.example.bench"}"#;
        let data = (0..data_bytes).map(|index| b'a' + u8::try_from(index % 26).unwrap_or(0));
        let data = data.collect::<Vec<u8>>().into();
        let content = MessageContent { attributes: attributes.into(), data_kind: DataKind::Text, data };
        Ok(Self { engine, content: Arc::new(content) })
    }

    pub(crate) async fn run(&self, command: Command) -> anyhow::Result<Answer> {
        let answer = self.engine.submit(ENVIRONMENT, command).await?;
        if let Outcome::Rejected(rejection) = &answer.outcome {
            bail!("refused: {rejection:?}");
        }
        Ok(answer)
    }

    pub(crate) async fn create(&self, name: &str, spec: QueueSpec) -> anyhow::Result<()> {
        let create = CreateQueue {
            name: name.into(),
            start: Start::Earliest,
            spec,
            annotations: "{}".into(),
            validate_only: false,
        };
        self.run(Command::CreateQueue(create)).await.map(drop)
    }

    /// Sends `count` messages in one call.
    pub(crate) async fn send(&self, queue: &str, count: usize, options: SendOptions) -> anyhow::Result<()> {
        let SendOptions { delay, time_to_live, key } = options;
        let message = NewMessage { content: Arc::clone(&self.content), delay, priority: 0, time_to_live };
        let idempotency = key.map(|key| Idempotency { key: key.into(), digest: 7 });
        let send = Send { queue: queue.into(), messages: vec![message; count], idempotency };
        self.run(Command::Send(send)).await.map(drop)
    }

    /// Leases up to `most` messages; the answer counts as delivered.
    pub(crate) async fn lease(
        &self,
        queue: &str,
        most: u32,
        wait: Duration,
    ) -> anyhow::Result<Vec<LeaseRef>> {
        self.lease_as(queue, most, wait, Reading::default()).await
    }

    /// Leases up to `most` messages of a partition to a group.
    pub(crate) async fn lease_of(
        &self,
        group: &str,
        most: u32,
        partition: &str,
    ) -> anyhow::Result<Vec<LeaseRef>> {
        let reading = Reading { partition: Some(partition.into()), ..Reading::default() };
        self.lease_as(group, most, Duration::ZERO, reading).await
    }

    async fn lease_as(
        &self,
        queue: &str,
        most: u32,
        wait: Duration,
        reading: Reading,
    ) -> anyhow::Result<Vec<LeaseRef>> {
        let lease = Lease {
            queue: queue.into(),
            max_messages: most,
            min_messages: 1,
            visibility_timeout: Some(Duration::from_secs(600)),
            wait,
            max_wait: None,
            waiter: WaiterId(0),
            reading,
        };
        let mut answer = self.run(Command::Lease(lease)).await?;
        if let Some(receipt) = answer.receipt.take() {
            receipt.delivered();
        }
        let Outcome::Leased(grants) = answer.outcome else { bail!("not leased") };
        Ok(grants.iter().map(millpond_core::outcome::Grant::lease).collect())
    }

    pub(crate) async fn ack(&self, queue: &str, leases: Vec<LeaseRef>) -> anyhow::Result<()> {
        self.settle(queue, leases, SettleAction::Ack).await
    }

    /// Gives messages back, to be had again at once.
    pub(crate) async fn nack(&self, queue: &str, leases: Vec<LeaseRef>) -> anyhow::Result<()> {
        self.settle(queue, leases, SettleAction::Nack(None)).await
    }

    async fn settle(&self, queue: &str, leases: Vec<LeaseRef>, action: SettleAction) -> anyhow::Result<()> {
        if leases.is_empty() {
            return Ok(());
        }
        let settlement = |lease| Settlement { queue: queue.into(), lease, action, holder: Holder::default() };
        let settlements: Vec<_> = leases.into_iter().map(settlement).collect();
        let settle = Settle { settlements, sends: Vec::new(), require: Require::All };
        self.run(Command::Settle(settle)).await.map(drop)
    }

    /// Send, lease and ack of one message, each durable before the next.
    pub(crate) async fn lifecycle(&self, queue: &str) -> anyhow::Result<()> {
        self.send(queue, 1, SendOptions::default()).await?;
        let leases = self.lease(queue, 1, Duration::from_secs(20)).await?;
        self.ack(queue, leases).await
    }
}

/// Fills a queue with `count` messages, hundreds at a time.
pub(crate) async fn fill(
    target: &Target,
    queue: &str,
    count: u64,
    options: &SendOptions,
) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(count.div_ceil(100)));
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (target, queue, left) = (target.clone(), queue.to_owned(), Arc::clone(&left));
        let options = options.clone();
        tasks.push(tokio::spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                target.send(&queue, 100, options.clone()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// What a closed loop of callers reached.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) per_second: f64,
    pub(crate) cpu_micros_each: f64,
    pub(crate) operations_per_commit: f64,
    pub(crate) latencies: Vec<u32>,
}

/// Runs `callers` loops of `body` for the given time after a warm-up. Each call of `body` counts once; its duration in
/// microseconds is kept for at most a million calls.
pub(crate) async fn closed_loop<F, B>(
    target: &Target,
    callers: usize,
    warm_up: Duration,
    measure: Duration,
    body: B,
) -> anyhow::Result<Reached>
where
    B: Fn(usize, u64) -> F + std::marker::Send + Sync + 'static,
    F: Future<Output = anyhow::Result<()>> + std::marker::Send,
{
    let (counting, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let body = Arc::new(body);
    let keep = 1_000_000 / callers.max(1);
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let (counting, over, body) = (Arc::clone(&counting), Arc::clone(&over), Arc::clone(&body));
        tasks.push(tokio::spawn(async move {
            let (mut count, mut latencies) = (0u64, Vec::new());
            let mut turn = 0;
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                body(caller, turn).await?;
                turn += 1;
                if counting.load(Ordering::Relaxed) {
                    count += 1;
                    if latencies.len() < keep {
                        latencies.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
                    }
                }
            }
            anyhow::Ok((count, latencies))
        }));
    }
    tokio::time::sleep(warm_up).await;
    let (begun, cpu, stats) = (Instant::now(), Processes::Own.cpu_micros(), target.engine.stats());
    counting.store(true, Ordering::Relaxed);
    tokio::time::sleep(measure).await;
    counting.store(false, Ordering::Relaxed);
    let (elapsed, cpu) = (begun.elapsed(), Processes::Own.cpu_micros() - cpu);
    let after = target.engine.stats();
    over.store(true, Ordering::Relaxed);
    let (mut count, mut latencies) = (0, Vec::new());
    for task in tasks {
        let (done, mut took) = task.await??;
        count += done;
        latencies.append(&mut took);
    }
    latencies.sort_unstable();
    let commits = after.commits - stats.commits;
    Ok(Reached {
        per_second: count as f64 / elapsed.as_secs_f64(),
        cpu_micros_each: cpu as f64 / count.max(1) as f64,
        operations_per_commit: (after.commands - stats.commands) as f64 / commits.max(1) as f64,
        latencies,
    })
}

impl Reached {
    /// A quantile of the latencies, in microseconds.
    pub(crate) fn quantile(&self, quantile: f64) -> u32 {
        let last = self.latencies.len().saturating_sub(1);
        let index = (last as f64 * quantile).round() as usize;
        self.latencies.get(index).copied().unwrap_or(0)
    }
}
