//! `millpond work`: has a command work on each message, and acks what it did.
//!
//! The command is run by `sh -c`, in a process group of its own: a Ctrl-C in the terminal reaches this program alone,
//! which takes nothing more and lets what runs finish. A second signal ends the commands too, a third leaves all as it is.

mod child;
mod report;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use millpond_client::{CancellationToken, Client, Delivery, Error, ErrorCode, Nack, Tally, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::child::Runner;
use self::report::Report;
use super::Common;
use super::reader::{GroupArguments, Reader};
use crate::exit::{Exit, Failure, Outcome};
use crate::value;

/// With `--drain`, a server that is away for so long ends the work.
const GIVE_UP: Duration = Duration::from_secs(60);
/// A message that this machine could not work on comes back after so long, for another machine or when this one is mended.
const FAULT_DELAY: Duration = Duration::from_secs(30);
/// After the third signal, how long what was told so far may take to be written.
const LAST_WORDS: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Id or name of the queue
    #[arg(required_unless_present = "topic", conflicts_with = "topic")]
    queue: Option<String>,

    #[command(flatten)]
    group: GroupArguments,

    /// Only messages of this partition
    #[arg(long, value_name = "PARTITION", requires = "topic")]
    partition: Option<String>,

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

    /// End when the queue is empty, or the group has had everything: nothing ready, delayed or leased
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
    /// Wait for nothing.
    abandon: CancellationToken,
}

impl Work {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.common.client()?;
        let reader = self.group.reader(self.queue.as_deref(), self.partition.as_deref());
        let stops = Stops::default();
        let json = self.common.format.json;
        let report = Arc::new(Report::new(&reader, json, self.concurrency.into(), stops.drain.clone())?);
        let watch = tokio::spawn(watch_signals(stops.clone(), Arc::clone(&report))?);
        let tally = self.work(client, &reader, &stops, &report).await;
        let told = tally.as_ref().ok().map(|Tally { acked, nacked, lost, .. }| {
            format!("{}: {acked} done, {nacked} failed, {lost} lost", reader.called())
        });
        tokio::select! {
            () = report.finish(told) => {}
            // Who does not read is not waited for.
            () = async {
                stops.abandon.cancelled().await;
                tokio::time::sleep(LAST_WORDS).await;
            } => {}
        }
        watch.abort();
        report.failure()?;
        let tally = tally.map_err(|error| Failure::call(&format!("work on {}", reader.called()), &error))?;
        let stopped = stops.drain.is_cancelled();
        Ok(match () {
            () if stops.kill.is_cancelled() || (self.drain && stopped) => Exit::Interrupted,
            () if self.drain && tally.nacked > 0 => Exit::CommandFailed,
            () => Exit::Done,
        })
    }

    async fn work(
        &self,
        client: Client,
        reader: &Reader,
        stops: &Stops,
        report: &Arc<Report>,
    ) -> Result<Tally, Error> {
        if self.drain {
            tokio::select! {
                biased;
                () = stops.drain.cancelled() => return Ok(Tally::default()),
                count = unfinished(&client, reader) => report.expect(count?),
            }
        }
        let runner = Arc::new(Runner {
            command: self.exec.clone(),
            reader: reader.clone(),
            environment: self.common.environment(),
            keep_stdout: self.common.format.json,
            kill: stops.kill.clone(),
            client: client.clone(),
        });
        let worker = self.worker(client, reader, report).abandon_on(stops.abandon.clone());
        let report = Arc::clone(report);
        let function = move |delivery| {
            let (runner, report) = (Arc::clone(&runner), Arc::clone(&report));
            async move { work_on(delivery, &runner, &report).await }
        };
        worker.run(stops.drain.clone(), function).await
    }

    fn worker(&self, client: Client, reader: &Reader, report: &Arc<Report>) -> Worker {
        let report = Arc::clone(report);
        let mut worker = Worker::new(client, reader.source())
            .concurrency(usize::from(self.concurrency))
            .observe(move |event| report.event(event));
        if let Some(timeout) = self.visibility_timeout {
            worker = worker.visibility_timeout(timeout);
        }
        if self.drain { worker.until_empty().give_up_after(GIVE_UP) } else { worker }
    }
}

/// Messages that are still to be done.
async fn unfinished(client: &Client, reader: &Reader) -> Result<u64, Error> {
    match reader {
        Reader::Group { topic, group, .. } => match client.get_group(topic, group).await {
            Ok(group) => Ok(group.status.unfinished_count()),
            // It will be made; how many messages it begins with is known then.
            Err(error) if error.code() == Some(&ErrorCode::GroupNotFound) => Ok(0),
            Err(error) => Err(error),
        },
        Reader::Queue(queue) => Ok(client.get_queue(queue).await?.status.unfinished_count()),
    }
}

/// Has the command work on one message, when there is room for what will be told of it.
async fn work_on(delivery: Delivery, runner: &Runner, report: &Report) -> Result<(), Nack> {
    let (id, lost) = (delivery.message.message_id.clone(), delivery.lost.clone());
    tokio::select! {
        biased;
        () = lost.cancelled() => return Err(Nack::new("its lease was lost before the command began")),
        () = runner.kill.cancelled() => return Err(Nack::new("this worker was told to stop before the command began")),
        () = report.room(&id) => {}
    }
    let ended = runner.run(delivery).await;
    let nack = |reason: String| match ended.is_fault {
        true => {
            report.fault(&reason);
            Nack::new(reason).after(FAULT_DELAY)
        }
        false => Nack::new(reason),
    };
    let result = ended.result.map_err(nack);
    if !lost.is_cancelled() {
        report.ended(&id, ended.code);
    }
    result
}

/// Waits for SIGHUP, SIGINT and SIGTERM: the first drains, the second ends what runs, the third waits for nothing.
fn watch_signals(stops: Stops, report: Arc<Report>) -> Outcome<impl Future<Output = ()>> {
    let mut caught = vec![SignalKind::interrupt(), SignalKind::terminate()];
    if !is_hangup_ignored() {
        caught.push(SignalKind::hangup());
    }
    let signals: std::io::Result<Vec<Signal>> = caught.into_iter().map(signal).collect();
    let mut signals =
        signals.map_err(|error| Failure::new(Exit::Refused, "cannot catch signals", error.to_string()))?;
    Ok(async move {
        for (token, told) in [
            (&stops.drain, "finishing what runs; a second signal ends it"),
            (&stops.kill, "ending what runs; a third signal waits for nothing"),
            (&stops.abandon, "leaving the rest to others, when its leases run out"),
        ] {
            std::future::poll_fn(|context| {
                let came = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
                if came { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            report.say(told);
            token.cancel();
        }
        std::future::pending().await
    })
}

/// Under `nohup` a hangup means nothing. Where it can't be told it does.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (SignalKind::hangup().as_raw_value() - 1) != 0)
}
