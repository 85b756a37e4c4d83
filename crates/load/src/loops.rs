//! The two kinds of load: callers that wait for each answer, and arrivals that do not wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::options::LoadOptions;
use crate::process::Processes;
use crate::progress::Progress;
use crate::running::{Running, Tally};
use crate::statistics::Figures;
use crate::system::{Caller, Stamp, System};

/// Callers that wait for messages in an open loop, each for one at a time.
pub const HANDLERS: usize = 4;

/// What each caller of a closed loop does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sends one message.
    Sends,
    /// Leases and acks up to so many messages that somebody else sent.
    Receives(usize),
    /// Sends, leases and acks so many messages, each step in one call.
    Lifecycle(usize),
}

/// `callers` callers, each doing `work` again as soon as it is answered.
///
/// # Errors
/// A call failed.
pub async fn closed_loop<S: System>(
    system: &S,
    work: (Work, usize),
    options: &LoadOptions,
    server: Option<Processes>,
    progress: &Progress,
) -> anyhow::Result<Figures> {
    start(system, work).await?.measure(options, server, progress).await
}

/// The same for as long as it is wanted.
///
/// # Errors
/// A caller has no connection.
pub async fn start<S: System>(system: &S, (work, callers): (Work, usize)) -> anyhow::Result<Running> {
    let mut running = Running::default();
    for _ in 0..callers {
        let (caller, tally) = (system.caller().await?, running.tally());
        running.spawn(async move {
            match work {
                Work::Sends => send_again(caller, &tally).await,
                Work::Receives(batch) => receive_again(caller, batch, &tally).await,
                Work::Lifecycle(batch) => live_again(caller, batch, &tally).await,
            }
        });
    }
    Ok(running)
}

async fn send_again<C: Caller>(mut caller: C, tally: &Tally) -> anyhow::Result<Infallible> {
    loop {
        let begun = Stamp::now();
        caller.send(1, begun).await?;
        tally.took(begun);
        tally.add(1);
    }
}

async fn receive_again<C: Caller>(mut caller: C, batch: usize, tally: &Tally) -> anyhow::Result<Infallible> {
    loop {
        let leases = caller.lease(batch).await?;
        let count = leases.len();
        if count > 0 {
            let first = leases.iter().map(|leased| leased.stamp).min();
            caller.ack(leases).await?;
            first.into_iter().for_each(|first| tally.took(first));
            tally.add(count);
        }
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
    let mut running = Running::default();
    for _ in 0..HANDLERS {
        running.spawn(handle(system.caller().await?, running.tally()));
    }
    let (idle, arrivals) = mpsc::unbounded_channel();
    for _ in 0..options.connections {
        idle.send(system.caller().await?).ok().context("the other end is in scope")?;
    }
    let every = Duration::from_secs(1) / u32::try_from(options.rate)?;
    running.spawn(arrive(every, idle, arrivals));
    running.measure(options, server, progress).await
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
