//! What it costs to be there: many queues, many waiting calls, many environments.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_core::Command;
use millpond_core::command::{CreateQueue, Start};
use millpond_core::spec::QueueSpec;
use millpond_engine::{Engine, EngineSettings};
use millpond_load::Processes;
use millpond_store::{StoreError, StoreErrorKind};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};
use serde_json::{Value, json};

use super::times;
use crate::Options;
use crate::load::Target;

/// Processor time over the measured time, in percent of a core.
async fn idle_percent(time: Duration) -> f64 {
    let (begun, cpu) = (Instant::now(), Processes::Own.cpu_micros());
    tokio::time::sleep(time).await;
    (Processes::Own.cpu_micros() - cpu) as f64 / begun.elapsed().as_micros() as f64 * 100.0
}

pub(super) async fn queues(path: &Path, options: &Options) -> anyhow::Result<Value> {
    let target = Target::open(path, options.data_bytes).await?;
    let scale = options.scale.unwrap_or(10_000);
    for queue in 0..scale {
        target.create(&format!("q-{queue}"), QueueSpec::default()).await?;
    }
    let memory_before_waits = Processes::Own.memory_kib();
    for queue in 0..scale {
        let target = target.clone();
        tokio::spawn(async move {
            let queue = format!("q-{queue}");
            while target.lease(&queue, 1, Duration::from_secs(20)).await.is_ok() {}
        });
    }
    let (warm_up, measure) = times(options);
    tokio::time::sleep(warm_up).await;
    let percent = idle_percent(measure).await;
    Ok(json!({
        "cpu_percent": percent,
        "memory_kib": Processes::Own.memory_kib(),
        "memory_kib_before_waits": memory_before_waits,
        "queues": scale,
        "waiting": scale,
    }))
}

pub(super) async fn environments(path: &Path, options: &Options) -> anyhow::Result<Value> {
    let scale = options.scale.unwrap_or(10_000);
    let (warm_up, measure) = times(options);
    let name = |index: u64| format!("orgs/o/projects/p/envs/e-{index}");
    let active: Vec<String> = (0..scale).step_by(100).map(name).collect();
    {
        let factory = Arc::new(SqliteFactory::open(path, SqliteSettings::default())?);
        let engine = Engine::start(EngineSettings::default(), factory);
        for index in 0..scale {
            engine.create_environment(&name(index)).await?;
        }
        for environment in &active {
            engine.submit(environment, create()).await?;
        }
        engine.shut_down().await;
    }
    let begun = Instant::now();
    let engine = Engine::start(EngineSettings::default(), Arc::new(reopen(path).await?));
    let first = active.first().cloned().unwrap_or_default();
    engine.submit(&first, Command::GetQueue { queue: "bench".into() }).await?;
    let started = begun.elapsed();
    for environment in active {
        let engine = engine.clone();
        tokio::spawn(async move {
            loop {
                let look = Command::GetQueue { queue: "bench".into() };
                if engine.submit(&environment, look).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    tokio::time::sleep(warm_up).await;
    let percent = idle_percent(measure).await;
    Ok(json!({
        "cpu_percent": percent,
        "memory_kib": Processes::Own.memory_kib(),
        "start_seconds": started.as_secs_f64(),
        "environments": scale,
        "environments_open": engine.stats().environments_open,
    }))
}

/// Opens a directory that was served by this process until just now: the engine's threads end by themselves, and until
/// then it is taken.
async fn reopen(path: &Path) -> Result<SqliteFactory, StoreError> {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match SqliteFactory::open(path, SqliteSettings::default()) {
            Err(error) if error.kind == StoreErrorKind::Unavailable && Instant::now() < give_up => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            result => return result,
        }
    }
}

fn create() -> Command {
    Command::CreateQueue(CreateQueue {
        start: Start::Earliest,
        name: "bench".into(),
        spec: QueueSpec::default(),
        annotations: "{}".into(),
        validate_only: false,
    })
}
