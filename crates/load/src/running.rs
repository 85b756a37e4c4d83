//! A load that runs: its tasks, what they count, and what they did in a while.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::options::LoadOptions;
use crate::process::Processes;
use crate::progress::Progress;
use crate::statistics::{Figures, Quantiles};
use crate::system::Stamp;

/// How often the progress is shown anew.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// What the tasks of a load count.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: AtomicBool,
    messages: AtomicU64,
    micros: Mutex<Vec<u32>>,
}

impl Tally {
    pub(crate) fn add(&self, messages: usize) {
        self.messages.fetch_add(messages as u64, Ordering::Relaxed);
    }

    /// Durations count in a window only.
    pub(crate) fn took(&self, since: Stamp) {
        if self.counts.load(Ordering::Relaxed) {
            self.micros.lock().unwrap_or_else(PoisonError::into_inner).push(since.elapsed_micros());
        }
    }
}

/// Tasks that go on until this is dropped.
#[derive(Debug, Default)]
pub struct Running {
    tasks: JoinSet<anyhow::Result<Infallible>>,
    tally: Arc<Tally>,
}

impl Running {
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = anyhow::Result<Infallible>> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Messages that went all the way so far.
    pub fn messages(&self) -> u64 {
        self.tally.messages.load(Ordering::Relaxed)
    }

    /// Lets it warm up, says what it did in the measured time, and ends it.
    pub(crate) async fn measure(
        mut self,
        options: &LoadOptions,
        server: Option<Processes>,
        progress: &Progress,
    ) -> anyhow::Result<Figures> {
        self.keep_running(options.warm_up(), progress).await?;
        let figures = self.window(options.measured(), server, progress).await?;
        self.tasks.shutdown().await;
        Ok(figures)
    }

    /// Lets it run so long, and says what it did meanwhile.
    ///
    /// # Errors
    /// A task failed.
    pub async fn window(
        &mut self,
        time: Duration,
        server: Option<Processes>,
        progress: &Progress,
    ) -> anyhow::Result<Figures> {
        let parts = server.map(|processes| (processes.server(), processes.database()));
        let (server_part, database) = parts.unwrap_or_default();
        let cpu =
            || [server_part, database, Some(Processes::Own)].map(|part| part.map(Processes::cpu_micros));
        let (begun, cpu_before, before) = (Instant::now(), cpu(), self.messages());
        self.tally.counts.store(true, Ordering::Relaxed);
        self.keep_running(time, progress).await?;
        self.tally.counts.store(false, Ordering::Relaxed);
        let (elapsed, cpu_after) = (begun.elapsed(), cpu());
        let messages = (self.messages() - before) as f64;
        let each = |part: usize| {
            let (after, before) = (cpu_after.get(part)?.as_ref()?, cpu_before.get(part)?.as_ref()?);
            Some(after.saturating_sub(*before) as f64 / messages.max(1.0))
        };
        let micros = std::mem::take(&mut *self.tally.micros.lock().unwrap_or_else(PoisonError::into_inner));
        let quantiles = Quantiles::of(micros);
        Ok(Figures {
            messages_per_second: messages / elapsed.as_secs_f64(),
            p50_micros: quantiles.at(0.5),
            p99_micros: quantiles.at(0.99),
            server_cpu_micros: each(0),
            database_cpu_micros: each(1),
            load_cpu_micros: each(2).unwrap_or(0.0),
            server_peak_memory_kib: server_part.map(|server| server.peak_memory_kib() as f64),
            further: Vec::new(),
        })
    }

    /// The tasks never end by themselves; one that does has failed.
    async fn keep_running(&mut self, time: Duration, progress: &Progress) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + time;
        loop {
            progress.show();
            let next = end.min(tokio::time::Instant::now() + SHOW_EVERY);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                Some(ended) = self.tasks.join_next() => match ended? {
                    Ok(never) => match never {},
                    Err(error) => return Err(error),
                },
            }
            if next >= end {
                return Ok(());
            }
        }
    }
}
