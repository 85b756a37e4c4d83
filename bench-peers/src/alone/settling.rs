//! How long messages take while transactions are open that have completed others, and while heartbeats, nacks, cancellations and
//! purges of what those hold come over HTTP. The same calls are made in the windows without such transactions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use millpond_load::{
    Caller as _, Figures, LoadOptions, Method, Millpond, Progress, Quantiles, Stamp, System as _, block_on,
    open_loop, sum_up,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_postgres::{Client, NoTls};

use super::Binary;
use crate::peers::Server as _;
use crate::peers::postgresql::OnDatabase;

/// Of the messages that are measured, and of most of those that are held.
const QUEUE: &str = "settled";
/// What waits here is purged.
const PURGED: &str = "purged";
/// Leases that a transaction holds in each of the two.
const HELD: usize = 16;
/// Leases that are held end within the window, as far as the server is concerned.
const LEASE: &str = "2s";
const CALL_EVERY: Duration = Duration::from_millis(50);

#[derive(Args)]
pub(crate) struct SettlingOptions {
    #[command(flatten)]
    binary: Binary,

    #[command(flatten)]
    load: LoadOptions,
}

pub(crate) fn run(options: &SettlingOptions) -> anyhow::Result<String> {
    let load = &options.load;
    let [quiet, open] = block_on(measure(options))?;
    let json_of = |rounds: &[Figures]| {
        let figures = sum_up(rounds).into_iter().map(|(name, all)| (name.to_owned(), all.json()));
        Value::Object(figures.collect::<Map<_, _>>())
    };
    let settings = json!({
        "seconds": load.seconds,
        "rounds": load.rounds,
        "rate": load.rate,
        "held": 2 * HELD,
        "data_bytes": load.data_bytes,
    });
    let measured = json!({ "without": json_of(&quiet), "with": json_of(&open) });
    options.binary.report("settling", &settings, &measured)
}

async fn measure(options: &SettlingOptions) -> anyhow::Result<[Vec<Figures>; 2]> {
    let load = &options.load;
    let server = OnDatabase::start(&options.binary.millpond, load.data_bytes)?;
    let url = server.database().context("it is in one")?.url();
    let queue = server.queue(QUEUE, load.connections).await?;
    let purged = server.queue(PURGED, load.connections).await?;
    let session = connect(&url).await?;
    let allow = format!("select millpond.allow_sql_settle('{QUEUE}'), millpond.allow_sql_settle('{PURGED}')");
    session.batch_execute(&allow).await?;
    let progress = Progress::new(2 * load.rounds);
    let mut figures: [Vec<Figures>; 2] = Default::default();
    for round in 1..=load.rounds {
        for (is_open, figures) in [false, true].into_iter().zip(&mut figures) {
            progress
                .begin(format!("{} transactions, round {round}", if is_open { "with" } else { "without" }));
            let mut held = Vec::new();
            for queue in [&queue, &purged] {
                held.extend(hold(queue, &url, is_open).await?);
            }
            let (end, ended) = watch::channel(false);
            let calls = tokio::spawn(disturb(
                queue.clone(),
                purged.clone(),
                held.iter().map(|held| held.lease.clone()).collect(),
                ended,
            ));
            let mut measured = open_loop(&queue, load, Some(server.processes()), &progress).await?;
            end.send(true)?;
            measured.further.extend(calls.await??);
            for held in held {
                held.session.batch_execute("commit").await.context("a transaction")?;
            }
            eprintln!("p50 {:.0} µs, p99 {:.0} µs", measured.p50_micros, measured.p99_micros);
            figures.push(measured);
            progress.end();
        }
    }
    Ok(figures)
}

/// A lease, and the session in which it was completed.
struct Held {
    lease: Value,
    session: Client,
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Sends and takes messages, and completes each in a transaction of its own, which stays open if it has to.
async fn hold(queue: &Millpond, url: &str, stays_open: bool) -> anyhow::Result<Vec<Held>> {
    let mut caller = queue.caller().await?;
    caller.send(HELD, Stamp::now()).await?;
    let body = json!({ "max_messages": HELD, "visibility_timeout": LEASE, "wait": "20s" });
    let (status, answer) =
        caller.call(Method::POST, &queue.path(":lease"), body.to_string().into_bytes()).await?;
    ensure!(status.is_success(), "a lease call was answered {status}");
    let answer: Value = serde_json::from_slice(&answer)?;
    let messages = answer["messages"].as_array().context("messages")?;
    ensure!(messages.len() == HELD, "{} messages", messages.len());
    let mut held = Vec::new();
    for message in messages {
        let lease = message["lease"].clone();
        let (id, generation) = (lease["message_id"].as_str(), lease["lease_generation"].as_str());
        let complete = format!(
            "begin; select millpond.complete('{}', {})",
            id.context("an id")?,
            generation.context("a generation")?
        );
        let session = connect(url).await?;
        session.batch_execute(&complete).await?;
        if !stays_open {
            session.batch_execute("commit").await?;
        }
        held.push(Held { lease, session });
    }
    Ok(held)
}

/// Makes calls that would end leases, one after the other, until it is over; how long they took, and how many there were.
async fn disturb(
    queue: Millpond,
    purged: Millpond,
    leases: Vec<Value>,
    ended: watch::Receiver<bool>,
) -> anyhow::Result<[(&'static str, f64); 3]> {
    let mut caller = queue.caller().await?;
    let mut clock = tokio::time::interval(CALL_EVERY);
    let mut micros = Vec::new();
    for lease in leases.iter().cycle() {
        if *ended.borrow() {
            break;
        }
        let one = json!({ "leases": [lease] }).to_string().into_bytes();
        let extend = json!({ "leases": [lease], "visibility_timeout": LEASE }).to_string().into_bytes();
        let message = format!("/messages/{}", lease["message_id"].as_str().context("an id")?);
        let calls = [
            (Method::POST, queue.path(":extend"), extend),
            (Method::POST, queue.path(":nack"), one),
            (Method::DELETE, queue.path(&message), Vec::new()),
            (Method::POST, purged.path(":purge"), b"{}".to_vec()),
        ];
        for (method, path, body) in calls {
            clock.tick().await;
            let begun = Instant::now();
            let (status, _) = caller.call(method, &path, body).await?;
            ensure!(!status.is_server_error(), "{path} was answered {status}");
            micros.push(u32::try_from(begun.elapsed().as_micros())?);
        }
    }
    let (count, quantiles) = (micros.len() as f64, Quantiles::of(micros));
    Ok([("calls", count), ("calls_p50_micros", quantiles.at(0.5)), ("calls_p99_micros", quantiles.at(0.99))])
}
