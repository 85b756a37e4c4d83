//! NATS JetStream: a work queue on disk, one pull consumer.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Message};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use millpond_load::{Caller, Leased, Payload, Processes, Stamp, System};

use super::{CALLERS_PER_CONNECTION, Server};
use crate::daemon::{Daemon, free_port};

const WAIT: Duration = Duration::from_secs(20);

/// When the server flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Always,
    Default,
}

/// A NATS server with JetStream.
pub(crate) struct Nats {
    daemon: Daemon,
    url: String,
    payload: Payload,
}

impl Nats {
    pub(crate) async fn start(
        binary: &Path,
        directory: &Path,
        sync: Sync,
        data_bytes: u64,
    ) -> anyhow::Result<Self> {
        let port = free_port()?;
        let interval = if sync == Sync::Always { "sync_interval: always" } else { "" };
        let config = directory.join("nats.conf");
        let store = directory.join("store").display().to_string();
        std::fs::write(&config, format!("jetstream {{\n  store_dir: {store:?}\n  {interval}\n}}\n"))?;
        let mut command = Command::new(binary);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-c"]).arg(&config);
        let mut daemon = Daemon::start(command, directory, "server.log")?;
        let url = format!("nats://127.0.0.1:{port}");
        daemon.wait_for(|| async { Ok(async_nats::connect(&url).await?) }).await?;
        Ok(Self { daemon, url, payload: Payload::new(usize::try_from(data_bytes)?) })
    }
}

impl Server for Nats {
    type Queue = Stream;

    fn processes(&self) -> Processes {
        self.daemon.processes()
    }

    async fn queue(&self, name: &str, callers: u64) -> anyhow::Result<Stream> {
        let mut connections = Vec::new();
        for _ in 0..callers.div_ceil(CALLERS_PER_CONNECTION) {
            let context = jetstream::new(async_nats::connect(&self.url).await?);
            let stream = context.get_or_create_stream(Config {
                name: name.to_owned(),
                retention: RetentionPolicy::WorkQueue,
                storage: StorageType::File,
                ..Config::default()
            });
            let consumer = pull::Config {
                durable_name: Some("c".to_owned()),
                ack_policy: AckPolicy::Explicit,
                ack_wait: Duration::from_secs(600),
                // Room for hundreds in the hands of each caller.
                max_ack_pending: 200_000,
                ..pull::Config::default()
            };
            let consumer = stream.await?.get_or_create_consumer("c", consumer).await?;
            connections.push((context, consumer));
        }
        let next = AtomicUsize::new(0);
        Ok(Stream { connections, next, subject: name.to_owned(), payload: self.payload.clone() })
    }
}

pub(crate) struct Stream {
    connections: Vec<(jetstream::Context, PullConsumer)>,
    next: AtomicUsize,
    subject: String,
    payload: Payload,
}

impl System for Stream {
    type Caller = Connected;

    async fn caller(&self) -> anyhow::Result<Connected> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let (context, consumer) = self.connections.get(turn).context("there is a connection")?.clone();
        Ok(Connected { context, consumer, subject: self.subject.clone(), payload: self.payload.clone() })
    }
}

pub(crate) struct Connected {
    context: jetstream::Context,
    consumer: PullConsumer,
    subject: String,
    payload: Payload,
}

impl Caller for Connected {
    type Lease = Message;

    async fn send(&mut self, count: usize, stamp: Stamp) -> anyhow::Result<()> {
        let data = Bytes::from(self.payload.bytes(stamp));
        let mut answers = Vec::with_capacity(count);
        for _ in 0..count {
            answers.push(self.context.publish(self.subject.clone(), data.clone()).await?.into_future());
        }
        try_join_all(answers).await?;
        Ok(())
    }

    async fn lease(&mut self, most: usize) -> anyhow::Result<Vec<Leased<Message>>> {
        let batch = self.consumer.batch().max_messages(most).expires(WAIT).messages().await?;
        let mut messages = batch.take(most);
        let mut leased = Vec::with_capacity(most);
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| anyhow!("{error}"))?;
            let stamp = Stamp::of_payload(&message.payload);
            let stamp = stamp.context("a message that this load did not send")?;
            leased.push(Leased { lease: message, stamp });
        }
        Ok(leased)
    }

    async fn ack(&mut self, leases: Vec<Leased<Message>>) -> anyhow::Result<()> {
        let acks = leases.iter().map(|leased| leased.lease.double_ack());
        try_join_all(acks).await.map_err(|error| anyhow!("{error}"))?;
        Ok(())
    }
}
