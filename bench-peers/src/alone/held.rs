//! A load before, while and after another transaction is open, which keeps everything that is removed from being vacuumed. In the
//! middle of it the server is stopped and started again.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use millpond_load::{Caller as _, Figures, Millpond, Progress, Running, System as _, Work, block_on, start};
use serde_json::{Value, json};

use super::sender::{Insert, Sender};
use super::{Binary, json_of, sizes};
use crate::peers::Server as _;
use crate::peers::postgresql::{Database, OnDatabase};

const QUEUE: &str = "held";
const BATCH: usize = 100;
/// Connections that send, and callers that take hundreds, where messages are sent by SQL.
const BY_SQL: (usize, usize) = (16, 8);
const WARM_UP: Duration = Duration::from_secs(10);
/// Windows before and after.
const AROUND: u64 = 2;

/// What is done meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Send, lease and ack of one message, each a call
    Lifecycle,
    /// The same by the hundred
    Hundreds,
    /// Sends by SQL; leases and acks by the hundred
    Sql,
}

#[derive(Args)]
pub(crate) struct HeldOptions {
    #[command(flatten)]
    binary: Binary,

    /// What is done meanwhile
    #[arg(long, value_enum, default_value_t = Load::Lifecycle)]
    load: Load,

    /// How many windows the transaction is open for
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    minutes: u64,

    /// Seconds of a window
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: u64,

    /// Callers; of sends by SQL there are fewer
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_024))]
    connections: u64,

    /// Bytes of data of each message
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u64).range(20..=8_192))]
    data_bytes: u64,
}

pub(crate) fn run(options: &HeldOptions) -> anyhow::Result<String> {
    let measured = block_on(measure(options))?;
    let settings = json!({
        "load": options.load.to_possible_value().map(|value| value.get_name().to_owned()),
        "windows": options.minutes,
        "window_seconds": options.window,
        "connections": options.connections,
        "data_bytes": options.data_bytes,
    });
    options.binary.report("held", &settings, &measured)
}

/// What runs: who finishes messages, and who sends them if that is somebody else.
struct Loads {
    finished: Running,
    sent: Option<Running>,
}

struct Held<'a> {
    options: &'a HeldOptions,
    server: OnDatabase,
    progress: Progress,
    windows: Vec<Value>,
}

async fn measure(options: &HeldOptions) -> anyhow::Result<Value> {
    let server = OnDatabase::start(&options.binary.millpond, options.data_bytes)?;
    server.queue(QUEUE, options.connections).await?;
    let progress = Progress::new(2 * AROUND + options.minutes);
    let mut held = Held { options, server, progress, windows: Vec::new() };
    let mut loads = held.start().await?;
    loads.finished.window(WARM_UP, None, &held.progress).await?;
    held.windows("before", AROUND, &mut loads).await?;
    let (client, connection) =
        tokio_postgres::connect(&held.database()?.url(), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("begin isolation level repeatable read; select pg_current_xact_id()").await?;
    held.windows("open", options.minutes / 2, &mut loads).await?;
    drop(loads);
    let [stopped, first] = held.restart().await?;
    let mut loads = held.start().await?;
    held.windows("open, after a restart", options.minutes - options.minutes / 2, &mut loads).await?;
    client.batch_execute("commit").await?;
    held.windows("after", AROUND, &mut loads).await?;
    Ok(json!({ "windows": held.windows, "stop_seconds": stopped, "first_answer_seconds": first }))
}

impl Held<'_> {
    fn database(&self) -> anyhow::Result<&Database> {
        self.server.database().context("it is in one")
    }

    fn queue(&self) -> anyhow::Result<Millpond> {
        Millpond::new(self.server.server().url(), QUEUE, self.options.data_bytes)
    }

    async fn start(&self) -> anyhow::Result<Loads> {
        let callers = usize::try_from(self.options.connections)?;
        let work = match self.options.load {
            Load::Lifecycle => (Work::Lifecycle(1), callers),
            Load::Hundreds => (Work::Lifecycle(BATCH), callers),
            Load::Sql => (Work::Receives(BATCH), BY_SQL.1),
        };
        let finished = start(&self.queue()?, work).await?;
        let mut sent = None;
        if self.options.load == Load::Sql {
            let sender = Sender::new(self.database()?, Insert::Send, QUEUE, self.options.data_bytes)?;
            sent = Some(start(&sender, (Work::Sends, BY_SQL.0)).await?);
        }
        Ok(Loads { finished, sent })
    }

    async fn windows(&mut self, name: &str, count: u64, loads: &mut Loads) -> anyhow::Result<()> {
        for number in 1..=count {
            self.progress.begin(format!("{name}, {number} of {count}"));
            let before = loads.sent.as_ref().map(Running::messages);
            let time = Duration::from_secs(self.options.window);
            let figures = loads.finished.window(time, Some(self.server.processes()), &self.progress).await?;
            let sent = loads.sent.as_ref().map(Running::messages).zip(before);
            self.note(
                name,
                &figures,
                sent.map(|(after, before)| (after - before) as f64 / time.as_secs_f64()),
            )?;
            self.progress.end();
        }
        Ok(())
    }

    fn note(&mut self, name: &str, figures: &Figures, sent: Option<f64>) -> anyhow::Result<()> {
        eprintln!("{name}: {:.0} messages/s", figures.messages_per_second);
        let mut window = json_of(figures);
        window.insert("when".into(), json!(name));
        window.insert("database_bytes".into(), json!(self.database()?.stored_bytes()?));
        window.insert("relations".into(), sizes(self.database()?)?);
        if let Some(sent) = sent {
            window.insert("sent_per_second".into(), json!(sent.round()));
        }
        self.windows.push(Value::Object(window));
        Ok(())
    }

    /// How long the stop took, and how long it is from the start until a message was leased.
    async fn restart(&mut self) -> anyhow::Result<[f64; 2]> {
        let begun = Instant::now();
        self.server.stop()?;
        let stopped = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        self.server.start_again(&self.options.binary.millpond)?;
        let mut caller = self.queue()?.caller().await?;
        caller.send(1, millpond_load::Stamp::now()).await?;
        let leases = caller.lease(1).await?;
        let answered = begun.elapsed().as_secs_f64();
        caller.ack(leases).await?;
        Ok([stopped, answered])
    }
}
