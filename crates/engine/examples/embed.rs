//! Millpond within a process of one's own, without HTTP: makes a queue, sends, leases, acks.
//!
//! ```sh
//! cargo run -p millpond-engine --example embed            # in memory
//! cargo run -p millpond-engine --example embed -- ./pond  # in SQLite files below ./pond
//! ```
//!
//! What is answered is as durable as it is over HTTP, and the same rules hold: they are the core's. One factory at a time
//! holds a directory; to start a second engine on it in the same process, give it the same factory.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{
    CreateQueue, Lease, NewMessage, Require, Send, Settle, SettleAction, Settlement, WaiterId,
};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome};
use millpond_engine::{Answer, Engine, EngineSettings};
use millpond_store::{MemoryDisk, StoreFactory};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};

const ENVIRONMENT: &str = "orgs/acme/projects/shop/envs/prod";
const QUEUE: &str = "mail";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let factory: Arc<dyn StoreFactory> = match std::env::args().nth(1) {
        None => Arc::new(MemoryDisk::new()),
        Some(directory) => Arc::new(SqliteFactory::open(directory.as_ref(), SqliteSettings::default())?),
    };
    for text in deliver(factory, &["first", "second"]).await? {
        println!("done: {text}");
    }
    Ok(())
}

/// Sends these texts and works on them; returns them in the order in which they were worked on.
pub(crate) async fn deliver(
    factory: Arc<dyn StoreFactory>,
    texts: &[&str],
) -> Result<Vec<String>, Box<dyn Error>> {
    let engine = Engine::start(EngineSettings::default(), factory);
    engine.create_environment(ENVIRONMENT).await?;
    create(&engine).await?;
    send(&engine, texts).await?;
    let mut done = Vec::new();
    while done.len() < texts.len() {
        done.extend(work(&engine).await?);
    }
    // Finishes what was taken and closes the store.
    engine.shut_down().await;
    Ok(done)
}

async fn create(engine: &Engine) -> Result<(), Box<dyn Error>> {
    let spec = QueueSpec { visibility_timeout: Duration::from_secs(10), ..QueueSpec::default() };
    let create = CreateQueue {
        name: QUEUE.into(),
        start: Default::default(),
        spec,
        annotations: "{}".into(),
        validate_only: false,
    };
    match submit(engine, Command::CreateQueue(create)).await?.outcome {
        Outcome::Queue(_) => Ok(()),
        // A refusal is an answer like any other; an error is a store that failed.
        other => Err(format!("the queue was not made: {other:?}").into()),
    }
}

async fn send(engine: &Engine, texts: &[&str]) -> Result<(), Box<dyn Error>> {
    let message = |text: &&str| NewMessage {
        content: Arc::new(MessageContent {
            attributes: r#"{"id":"1","source":"/embed","type":"text","datacontenttype":"text/plain"}"#.into(),
            data_kind: DataKind::Text,
            data: text.as_bytes().into(),
        }),
        delay: None,
        priority: 0,
        time_to_live: None,
    };
    let messages = texts.iter().map(message).collect();
    // With an idempotency key the same send could be made again without doing it twice.
    match submit(engine, Command::Send(Send { queue: QUEUE.into(), messages, idempotency: None }))
        .await?
        .outcome
    {
        Outcome::Sent(_) => Ok(()),
        other => Err(format!("nothing was sent: {other:?}").into()),
    }
}

/// Takes what is there, works on it, and acks it.
async fn work(engine: &Engine) -> Result<Vec<String>, Box<dyn Error>> {
    let lease = Lease {
        queue: QUEUE.into(),
        max_messages: 10,
        min_messages: 1,
        visibility_timeout: None,
        wait: Duration::from_secs(20),
        max_wait: None,
        // The engine names the call.
        waiter: WaiterId(0),
        reading: Default::default(),
    };
    let mut answer = submit(engine, Command::Lease(lease)).await?;
    let Outcome::Leased(grants) = answer.outcome else {
        return Err(format!("nothing was leased: {:?}", answer.outcome).into());
    };
    // Grants count as delivered only when this is said; a caller that is dropped before gives them back.
    if let Some(receipt) = answer.receipt.take() {
        receipt.delivered();
    }
    let texts: Vec<String> = answer
        .contents
        .iter()
        .map(|content| String::from_utf8_lossy(content.data.held()).into_owned())
        .collect();
    let settlement = |lease| Settlement {
        queue: QUEUE.into(),
        lease,
        action: SettleAction::Ack,
        holder: Default::default(),
    };
    let settle = Settle {
        settlements: grants.iter().map(|grant| settlement(grant.lease())).collect(),
        // What is sent here commits together with the acks, or not at all.
        sends: Vec::new(),
        require: Require::Fresh,
    };
    match submit(engine, Command::Settle(settle)).await?.outcome {
        Outcome::Settled { stale, .. } if stale.is_empty() => Ok(texts),
        other => Err(format!("not everything was acked: {other:?}").into()),
    }
}

async fn submit(engine: &Engine, command: Command) -> Result<Answer, Box<dyn Error>> {
    Ok(engine.submit(ENVIRONMENT, command).await?)
}
