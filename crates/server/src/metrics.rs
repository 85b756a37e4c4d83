//! `/metrics`: what an operator alerts on, in the text format of Prometheus.
//!
//! | module | holds |
//! | --- | --- |
//! | `names` | every metric with its help |
//! | `text` | the format |
//! | `http` | what the server counts |
//! | `queues` | what is in the queues, looked at when somebody asks |
//! | `process` | what the system says of the process |
//!
//! Invariant: nobody who sends or leases waits for whoever asks for this: counting takes no locks, and environments are
//! looked at a bounded number of queues at a time.

mod http;
mod names;
mod process;
mod queues;
mod text;

use std::sync::Arc;

use millpond_engine::histogram::HistogramReading;
use millpond_engine::{Engine, EngineMetrics};
use tokio::sync::Mutex;

use crate::error::ApiError;
use crate::runtime_cache::{CacheReading, RuntimeCache};
pub(crate) use http::{Ending, HttpMetrics};
use queues::{Queues, Risen};
pub(crate) use text::MEDIA_TYPE;
use text::{Family, Text};

/// Queues that are shown singly unless told otherwise.
pub const METRICS_QUEUES: usize = 1_000;
/// The most that may be.
pub const METRICS_QUEUES_MAX: usize = 20_000;

/// Nanoseconds in a second.
const NANOSECONDS: f64 = 1e9;

/// What pages are made of.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) http: Arc<HttpMetrics>,
    pub(crate) queues_max: usize,
    /// Held while a page is made: one at a time is enough.
    risen: Mutex<Risen>,
}

impl Metrics {
    /// A page.
    pub(crate) async fn page(
        &self,
        engine: &Engine,
        cache: Option<&Arc<RuntimeCache>>,
    ) -> Result<String, ApiError> {
        let mut risen = self.risen.lock().await;
        let queues = Queues::survey(engine, self.queues_max, &mut risen).await;
        let (engine, http) = (engine.clone(), Arc::clone(&self.http));
        let cache = cache.map(|cache| cache.read()).unwrap_or_default();
        // Thousands of lines take milliseconds to write, which the threads that serve have better use for.
        let written = tokio::task::spawn_blocking(move || {
            let mut text = Text::default();
            text.begin(&names::BUILD_INFO);
            text.sample(&names::BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1);
            http.write(&mut text);
            write_engine(&engine.metrics(), &mut text);
            queues.write(&mut text);
            write_cache(&cache, &mut text);
            process::write(&mut text);
            text.finish()
        });
        written.await.map_err(|error| ApiError::internal(format!("metrics could not be written: {error}")))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { http: Arc::default(), queues_max: METRICS_QUEUES, risen: Mutex::default() }
    }
}

fn write_engine(engine: &EngineMetrics, text: &mut Text) {
    text.only(&names::COMMANDS, engine.commands);
    text.only(&names::COMMANDS_WAITING, engine.commands_waiting);
    let overloaded = [("bytes", engine.overloaded_by_bytes), ("commands", engine.overloaded_by_commands)];
    by_label(&names::COMMANDS_OVERLOADED, "bound", overloaded, text);
    text.only(&names::COMMITS, engine.commits);
    text.only(&names::COMMIT_ROWS, engine.rows);
    let mut histogram = |family: &Family, reading: &HistogramReading, unit: f64| {
        text.begin(family);
        text.histogram(family, &[], reading, unit);
    };
    histogram(&names::COMMIT_COMMANDS, &engine.commit_commands, 1.0);
    histogram(&names::COMMIT_WAIT, &engine.commit_wait, NANOSECONDS);
    histogram(&names::COMMIT_DURATION, &engine.commit_duration, NANOSECONDS);
    histogram(&names::COMMIT_FLUSH, &engine.commit_flush, NANOSECONDS);
    text.begin(&names::WRITER_JOBS);
    for (writer, jobs) in engine.writer_jobs.iter().enumerate() {
        text.sample(&names::WRITER_JOBS, &[("writer", &writer.to_string())], jobs);
    }
    let environments = [("failed", engine.environments_failed), ("open", engine.environments_open)];
    by_label(&names::ENVIRONMENTS, "state", environments, text);
    text.only(&names::ENVIRONMENTS_REOPENED, engine.reopened);
    let failures = engine.failures;
    let failures = [
        ("commit", failures.commit),
        ("open", failures.open),
        ("panic", failures.panic),
        ("read", failures.read),
    ];
    by_label(&names::ENVIRONMENT_FAILURES, "cause", failures, text);
    text.only(&names::RECEIPTS_UNDONE, engine.receipts_undone);
    text.only(&names::GRANTS_UNDONE, engine.grants_undone);
    let refused = engine.external_refused;
    let refused = [
        ("deduplicated", refused.deduplicated),
        ("queue_deleted", refused.queue_deleted),
        ("refused", refused.refused),
    ];
    by_label(&names::EXTERNAL_REFUSED, "reason", refused, text);
}

fn write_cache(cache: &CacheReading, text: &mut Text) {
    text.only(&names::CACHE_VALUES, cache.values);
    text.only(&names::CACHE_BYTES, cache.bytes);
    text.only(&names::CACHE_BYTES_MAX, cache.bytes_max);
    text.only(&names::CACHE_HITS, cache.hits);
    text.only(&names::CACHE_MISSES, cache.misses);
}

fn by_label<const N: usize>(
    family: &Family,
    label: &'static str,
    values: [(&'static str, u64); N],
    text: &mut Text,
) {
    text.begin(family);
    for (value, count) in values {
        text.sample(family, &[(label, value)], count);
    }
}
