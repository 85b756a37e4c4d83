//! RabbitMQ: a quorum queue, persistent messages, publisher confirms, consumers with a prefetch.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use millpond_load::{Caller, Leased, Payload, Processes, Stamp, System};

use super::{CALLERS_PER_CONNECTION, Server};
use crate::daemon::{Daemon, free_port};

/// The scripts of the server, past a wrapper that wants to be another user.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
const PERSISTENT: u8 = 2;

/// One node without plugins.
pub(crate) struct Rabbitmq {
    daemon: Daemon,
    _mapper: Daemon,
    url: String,
    payload: Payload,
}

impl Rabbitmq {
    pub(crate) async fn start(directory: &Path, data_bytes: u64) -> anyhow::Result<Self> {
        let (port, distribution, mapper) = (free_port()?, free_port()?, free_port()?);
        let config = directory.join("rabbitmq.conf");
        std::fs::write(&config, format!("listeners.tcp.1 = 127.0.0.1:{port}\n"))?;
        std::fs::write(directory.join("plugins"), "[].")?;
        let mut command = Command::new(format!("{SCRIPTS}/rabbitmq-server"));
        command
            .env("HOME", directory)
            .env("RABBITMQ_NODENAME", "bench@localhost")
            .env("RABBITMQ_CONFIG_FILE", &config)
            .env("RABBITMQ_MNESIA_BASE", directory.join("data"))
            .env("RABBITMQ_LOG_BASE", directory.join("log"))
            .env("RABBITMQ_PID_FILE", directory.join("pid"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", directory.join("plugins"))
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", mapper.to_string());
        // Without one that runs already the server would start a port mapper that stays for ever.
        let mut map_ports = Command::new("epmd");
        map_ports.args(["-address", "127.0.0.1", "-port", &mapper.to_string()]);
        let mapper = Daemon::start(map_ports, directory, "mapper.log")?;
        let mut daemon = Daemon::start(command, directory, "server.log")?;
        let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
        daemon.wait_for(|| connect(&url)).await?;
        let payload = Payload::new(usize::try_from(data_bytes)?);
        Ok(Self { daemon, _mapper: mapper, url, payload })
    }

    /// The command that prints its version; its own would start a machine.
    pub(crate) fn version() -> Command {
        let mut command = Command::new("dpkg-query");
        command.args(["--show", "--showformat", "${Version}", "rabbitmq-server"]);
        command
    }
}

async fn connect(url: &str) -> anyhow::Result<Connection> {
    Ok(Connection::connect(url, ConnectionProperties::default()).await?)
}

impl Server for Rabbitmq {
    type Queue = Queue;

    fn processes(&self) -> Processes {
        self.daemon.processes()
    }

    async fn queue(&self, name: &str, callers: u64) -> anyhow::Result<Queue> {
        let mut connections = Vec::new();
        for _ in 0..callers.div_ceil(CALLERS_PER_CONNECTION) {
            connections.push(Arc::new(connect(&self.url).await?));
        }
        let first = connections.first().context("there is a caller")?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        first.create_channel().await?.queue_declare(name.into(), options, arguments).await?;
        let next = AtomicUsize::new(0);
        Ok(Queue { connections, next, name: name.into(), payload: self.payload.clone() })
    }
}

pub(crate) struct Queue {
    connections: Vec<Arc<Connection>>,
    next: AtomicUsize,
    name: ShortString,
    payload: Payload,
}

impl System for Queue {
    type Caller = Connected;

    async fn caller(&self) -> anyhow::Result<Connected> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let connection = Arc::clone(self.connections.get(turn).context("there is a connection")?);
        let publisher = connection.create_channel().await?;
        publisher.confirm_select(ConfirmSelectOptions::default()).await?;
        let (name, payload) = (self.name.clone(), self.payload.clone());
        Ok(Connected { connection, publisher, consumer: None, name, payload })
    }
}

pub(crate) struct Connected {
    connection: Arc<Connection>,
    publisher: Channel,
    consumer: Option<(Channel, Consumer)>,
    name: ShortString,
    payload: Payload,
}

impl Connected {
    /// From the first lease on: who only sends must not be handed messages.
    async fn consumer(&mut self, prefetch: usize) -> anyhow::Result<&mut (Channel, Consumer)> {
        if self.consumer.is_none() {
            let channel = self.connection.create_channel().await?;
            channel.basic_qos(u16::try_from(prefetch)?, BasicQosOptions::default()).await?;
            let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
            let consumer = channel.basic_consume(self.name.clone(), "".into(), options, arguments).await?;
            self.consumer = Some((channel, consumer));
        }
        self.consumer.as_mut().context("it was made just now")
    }
}

impl Caller for Connected {
    /// The delivery tag.
    type Lease = u64;

    async fn send(&mut self, count: usize, stamp: Stamp) -> anyhow::Result<()> {
        let data = self.payload.bytes(stamp);
        let mut confirms = Vec::with_capacity(count);
        for _ in 0..count {
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let options = BasicPublishOptions::default();
            let sent = self.publisher.basic_publish("".into(), self.name.clone(), options, &data, properties);
            confirms.push(sent.await?);
        }
        for confirmation in try_join_all(confirms).await? {
            ensure!(confirmation.is_ack(), "a message was not confirmed");
        }
        Ok(())
    }

    async fn lease(&mut self, most: usize) -> anyhow::Result<Vec<Leased<u64>>> {
        let (_, consumer) = self.consumer(most).await?;
        let mut leased = Vec::with_capacity(most);
        let mut next = consumer.next().await;
        loop {
            let delivery = next.context("the consumer was cancelled")??;
            let stamp = Stamp::of_payload(&delivery.data);
            let stamp = stamp.context("a message that this load did not send")?;
            leased.push(Leased { lease: delivery.delivery_tag, stamp });
            if leased.len() == most {
                return Ok(leased);
            }
            next = match consumer.next().now_or_never() {
                Some(delivery) => delivery,
                None => return Ok(leased),
            };
        }
    }

    async fn ack(&mut self, leases: Vec<Leased<u64>>) -> anyhow::Result<()> {
        let (channel, _) = self.consumer.as_ref().context("messages were taken")?;
        let last = leases.last().context("messages were taken")?.lease;
        Ok(channel.basic_ack(last, BasicAckOptions { multiple: true }).await?)
    }
}
