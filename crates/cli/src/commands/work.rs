//! `millpond work`: has a command work on each message, and acks what it did.
//!
//! The command is run by `sh -c`, in a process group of its own: a Ctrl-C in the terminal reaches this program alone,
//! which takes nothing more and lets what runs finish. A second signal ends the commands too.

mod child;
mod report;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use millpond_client::{CancellationToken, Nack, Tally, Worker};
use tokio::signal::unix::{SignalKind, signal};

use self::child::Runner;
use self::report::Report;
use super::Common;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::tell;
use crate::value;

/// With `--drain`, a server that is away for so long ends the work.
const GIVE_UP: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Id or name of the queue
    queue: String,

    /// Command for each message, run by sh -c: the data on its stdin, attributes in its environment (MILLPOND_MESSAGE_ID,
    /// MILLPOND_TYPE and so on, see docs/cli.md). Exit code 0 acks the message, any other nacks it
    #[arg(long, value_name = "COMMAND")]
    exec: String,

    /// How many run at once
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    concurrency: u16,

    /// How long a lease lasts; it is extended at a third of that while the command runs. The queue's timeout unless given
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    visibility_timeout: Option<Duration>,

    /// End when the queue is empty: nothing ready, delayed or leased
    #[arg(long)]
    drain: bool,

    #[command(flatten)]
    common: Common,
}

/// What signals asked for.
#[derive(Clone, Debug, Default)]
struct Stops {
    /// Take nothing more.
    drain: CancellationToken,
    /// End what runs.
    kill: CancellationToken,
}

impl Work {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.common.client()?;
        let failed = |error| Failure::call(&format!("work on {}", self.queue), &error);
        let stops = Stops::default();
        let watch = tokio::spawn(watch_signals(stops.clone())?);
        let json = self.common.format.json;
        let total = if self.drain {
            Some(client.get_queue(&self.queue).await.map_err(failed)?.status.unfinished_count())
        } else {
            None
        };
        let report = Arc::new(Report::new(&self.queue, json, total, stops.drain.clone()));
        let runner = Arc::new(Runner {
            command: self.exec.clone(),
            queue: self.queue.clone(),
            environment: self.common.environment(),
            keep_stdout: json,
            kill: stops.kill.clone(),
            client: client.clone(),
        });
        let tally = self.worker(client, &report).run(stops.drain.clone(), {
            let report = Arc::clone(&report);
            move |delivery| {
                let (runner, report) = (Arc::clone(&runner), Arc::clone(&report));
                async move {
                    let (id, lost) = (delivery.message.message_id.clone(), delivery.lost.clone());
                    let ended = runner.run(delivery).await;
                    if !lost.is_cancelled() {
                        report.ended(id, &ended);
                    }
                    ended.result.map_err(Nack::new)
                }
            }
        });
        let tally = tally.await;
        watch.abort();
        report.finish();
        self.outcome(&tally.map_err(failed)?, &stops, &report)
    }

    fn worker(&self, client: millpond_client::Client, report: &Arc<Report>) -> Worker {
        let report = Arc::clone(report);
        let mut worker = Worker::new(client, &self.queue)
            .concurrency(usize::from(self.concurrency))
            .observe(move |event| report.event(event));
        if let Some(timeout) = self.visibility_timeout {
            worker = worker.visibility_timeout(timeout);
        }
        if self.drain { worker.until_empty().give_up_after(GIVE_UP) } else { worker }
    }

    fn outcome(&self, tally: &Tally, stops: &Stops, report: &Report) -> Outcome {
        report.failure()?;
        let Tally { acked, nacked, lost, .. } = tally;
        tell(&format!("millpond: {}: {acked} done, {nacked} failed, {lost} lost", self.queue));
        let stopped = stops.drain.is_cancelled();
        Ok(match () {
            () if stops.kill.is_cancelled() || (self.drain && stopped) => Exit::Interrupted,
            () if self.drain && *nacked > 0 => Exit::CommandFailed,
            () => Exit::Done,
        })
    }
}

/// Waits for SIGINT and SIGTERM: the first drains, the second ends what runs.
fn watch_signals(stops: Stops) -> Outcome<impl Future<Output = ()>> {
    let cannot =
        |error: std::io::Error| Failure::new(Exit::Refused, "cannot catch signals", error.to_string());
    let mut interrupts = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminates = signal(SignalKind::terminate()).map_err(cannot)?;
    Ok(async move {
        for (token, told) in [
            (&stops.drain, "finishing what runs; a second signal ends it"),
            (&stops.kill, "ending what runs"),
        ] {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terminates.recv() => {}
            }
            tell(&format!("millpond: {told}"));
            token.cancel();
        }
        std::future::pending().await
    })
}
