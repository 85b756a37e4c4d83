//! The two kinds of load: callers that wait for each answer, and arrivals that do not wait.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::options::LoadOptions;
use crate::process::Processes;
use crate::progress::Progress;
use crate::statistics::{Figures, Quantiles};
use crate::system::{Caller, Stamp, System};

/// Callers that wait for messages in an open loop, each for one at a time.
pub const HANDLERS: usize = 4;
/// How often the progress is shown anew.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// What each caller of a closed loop does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sends one message.
    Sends,
    /// Sends, leases and acks so many messages, each step in one call.
    Lifecycle(usize),
}

/// What the tasks of a loop count while it is measured.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: AtomicBool,
    messages: AtomicU64,
    micros: Mutex<Vec<u32>>,
}

impl Tally {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn add(&self, messages: usize) {
        self.messages.fetch_add(messages as u64, Ordering::Relaxed);
    }

    pub(crate) fn took(&self, since: Stamp) {
        if self.counts.load(Ordering::Relaxed) {
            self.micros.lock().unwrap_or_else(PoisonError::into_inner).push(since.elapsed_micros());
        }
    }
}

pub(crate) type Tasks = JoinSet<anyhow::Result<Infallible>>;

/// `callers` callers, each doing `work` again as soon as it is answered.
///
/// # Errors
/// A call failed.
pub async fn closed_loop<S: System>(
    system: &S,
    (work, callers): (Work, usize),
    options: &LoadOptions,
    server: Option<Processes>,
    progress: &Progress,
) -> anyhow::Result<Figures> {
    let tally = Tally::shared();
    let mut tasks = Tasks::new();
    for _ in 0..callers {
        let (caller, tally) = (system.caller().await?, Arc::clone(&tally));
        tasks.spawn(async move {
            match work {
                Work::Sends => send_again(caller, &tally).await,
                Work::Lifecycle(batch) => live_again(caller, batch, &tally).await,
            }
        });
    }
    measure(tasks, &tally, options, server, progress).await
}

async fn send_again<C: Caller>(mut caller: C, tally: &Tally) -> anyhow::Result<Infallible> {
    loop {
        let begun = Stamp::now();
        caller.send(1, begun).await?;
        tally.took(begun);
        tally.add(1);
    }
}

async fn live_again<C: Caller>(mut caller: C, batch: usize, tally: &Tally) -> anyhow::Result<Infallible> {
    loop {
        let begun = Stamp::now();
        caller.send(batch, begun).await?;
        let mut left = batch;
        // Others may have been faster; what they took of ours, they leave of theirs.
        while left > 0 {
            let leases = caller.lease(left).await?;
            let count = leases.len();
            if count > 0 {
                caller.ack(leases).await?;
            }
            left = left.checked_sub(count).context("more messages came than were asked for")?;
            tally.add(count);
        }
        tally.took(begun);
    }
}

/// `rate` messages a second, each sent when its time comes whether or not those before it were answered, to [`HANDLERS`]
/// waiting callers. The durations are those from the send to the handler. The queue is empty at the start.
///
/// # Errors
/// A call failed.
pub async fn open_loop<S: System>(
    system: &S,
    options: &LoadOptions,
    server: Option<Processes>,
    progress: &Progress,
) -> anyhow::Result<Figures> {
    let tally = Tally::shared();
    let mut tasks = Tasks::new();
    for _ in 0..HANDLERS {
        let (caller, tally) = (system.caller().await?, Arc::clone(&tally));
        tasks.spawn(handle(caller, tally));
    }
    let (idle, arrivals) = mpsc::unbounded_channel();
    for _ in 0..options.connections {
        idle.send(system.caller().await?).ok().context("the other end is in scope")?;
    }
    let every = Duration::from_secs(1) / u32::try_from(options.rate)?;
    tasks.spawn(arrive(every, idle, arrivals));
    measure(tasks, &tally, options, server, progress).await
}

async fn handle<C: Caller>(mut caller: C, tally: Arc<Tally>) -> anyhow::Result<Infallible> {
    loop {
        let leases = caller.lease(1).await?;
        for leased in &leases {
            tally.took(leased.stamp);
        }
        if !leases.is_empty() {
            tally.add(leases.len());
            caller.ack(leases).await?;
        }
    }
}

async fn arrive<C: Caller>(
    every: Duration,
    idle: mpsc::UnboundedSender<C>,
    mut callers: mpsc::UnboundedReceiver<C>,
) -> anyhow::Result<Infallible> {
    let (failed, mut failures) = mpsc::unbounded_channel();
    let mut clock = tokio::time::interval(every);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut waiting = std::collections::VecDeque::new();
    loop {
        // A message that finds no idle connection is late from the moment of its arrival.
        let caller = tokio::select! {
            _ = clock.tick() => {
                waiting.push_back(Stamp::now());
                callers.try_recv().ok()
            }
            caller = callers.recv(), if !waiting.is_empty() => caller,
            Some(error) = failures.recv() => return Err(error),
        };
        let Some(mut caller) = caller else { continue };
        let Some(stamp) = waiting.pop_front() else { bail!("a connection without an arrival") };
        let (idle, failed) = (idle.clone(), failed.clone());
        tokio::spawn(async move {
            // Nobody listens any more once the measurement has ended.
            match caller.send(1, stamp).await {
                Ok(()) => drop(idle.send(caller)),
                Err(error) => drop(failed.send(error)),
            }
        });
    }
}

/// Lets the tasks run for the warm-up and the measured time, and says what they did in the latter.
pub(crate) async fn measure(
    mut tasks: Tasks,
    tally: &Tally,
    options: &LoadOptions,
    server: Option<Processes>,
    progress: &Progress,
) -> anyhow::Result<Figures> {
    keep_running(&mut tasks, options.warm_up(), progress).await?;
    let cpu = || (server.map(Processes::cpu_micros), Processes::Own.cpu_micros());
    let (begun, cpu_before) = (Instant::now(), cpu());
    let before = tally.messages.load(Ordering::Relaxed);
    tally.counts.store(true, Ordering::Relaxed);
    keep_running(&mut tasks, options.measured(), progress).await?;
    tally.counts.store(false, Ordering::Relaxed);
    let (elapsed, cpu_after) = (begun.elapsed(), cpu());
    let messages = (tally.messages.load(Ordering::Relaxed) - before) as f64;
    let peak = server.map(|server| server.peak_memory_kib() as f64);
    tasks.shutdown().await;

    let each = |after: u64, before: u64| after.saturating_sub(before) as f64 / messages.max(1.0);
    let micros = std::mem::take(&mut *tally.micros.lock().unwrap_or_else(PoisonError::into_inner));
    let quantiles = Quantiles::of(micros);
    Ok(Figures {
        messages_per_second: messages / elapsed.as_secs_f64(),
        p50_micros: quantiles.at(0.5),
        p99_micros: quantiles.at(0.99),
        server_cpu_micros: cpu_after.0.zip(cpu_before.0).map(|(after, before)| each(after, before)),
        load_cpu_micros: each(cpu_after.1, cpu_before.1),
        server_peak_memory_kib: peak,
        further: Vec::new(),
    })
}

/// The tasks never end by themselves; one that does has failed.
async fn keep_running(tasks: &mut Tasks, time: Duration, progress: &Progress) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + time;
    loop {
        progress.show();
        let next = end.min(tokio::time::Instant::now() + SHOW_EVERY);
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            Some(ended) = tasks.join_next() => match ended? {
                Ok(never) => match never {},
                Err(error) => return Err(error),
            },
        }
        if next >= end {
            return Ok(());
        }
    }
}
