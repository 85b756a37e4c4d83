//! Redis Streams: one stream, one group.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use millpond_load::{Caller, Leased, Payload, Processes, Stamp, System};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamReadReply};
use redis::{AsyncConnectionConfig, Client, Value, cmd, pipe};

use super::Server;
use crate::daemon::{Daemon, free_port};

const GROUP: &str = "g";
const WAIT_MS: u64 = 20_000;

/// Redis that flushes before it answers.
pub(crate) struct Redis {
    daemon: Daemon,
    client: Client,
    payload: Payload,
    pub(crate) port: u16,
}

impl Redis {
    pub(crate) async fn start(directory: &Path, data_bytes: u64) -> anyhow::Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]);
        command.arg("--dir").arg(directory);
        let mut daemon = Daemon::start(command, directory, "server.log")?;
        let client = Client::open(format!("redis://127.0.0.1:{port}/"))?;
        daemon.wait_for(|| connect(&client)).await?;
        Ok(Self { daemon, client, payload: Payload::new(usize::try_from(data_bytes)?), port })
    }
}

async fn connect(client: &Client) -> anyhow::Result<MultiplexedConnection> {
    // A blocking read takes as long as it takes.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    cmd("PING").query_async::<Value>(&mut connection).await?;
    Ok(connection)
}

impl Server for Redis {
    type Queue = Stream;

    fn processes(&self) -> Processes {
        self.daemon.processes()
    }

    async fn queue(&self, name: &str, _: u64) -> anyhow::Result<Stream> {
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(name).arg(GROUP).arg("0").arg("MKSTREAM");
        create.query_async::<Value>(&mut connect(&self.client).await?).await?;
        Ok(Stream { client: self.client.clone(), key: name.to_owned(), payload: self.payload.clone() })
    }
}

pub(crate) struct Stream {
    client: Client,
    key: String,
    payload: Payload,
}

impl System for Stream {
    type Caller = Connected;

    async fn caller(&self) -> anyhow::Result<Connected> {
        let connection = connect(&self.client).await?;
        Ok(Connected { connection, key: self.key.clone(), payload: self.payload.clone() })
    }
}

pub(crate) struct Connected {
    connection: MultiplexedConnection,
    key: String,
    payload: Payload,
}

impl Caller for Connected {
    type Lease = String;

    async fn send(&mut self, count: usize, stamp: Stamp) -> anyhow::Result<()> {
        let data = self.payload.bytes(stamp);
        let mut sends = pipe();
        for _ in 0..count {
            sends.cmd("XADD").arg(&self.key).arg("*").arg("d").arg(&data).ignore();
        }
        Ok(sends.query_async(&mut self.connection).await?)
    }

    async fn lease(&mut self, most: usize) -> anyhow::Result<Vec<Leased<String>>> {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg("c").arg("COUNT").arg(most).arg("BLOCK").arg(WAIT_MS);
        read.arg("STREAMS").arg(&self.key).arg(">");
        let reply: Option<StreamReadReply> = read.query_async(&mut self.connection).await?;
        let entries = reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids);
        let leased = |entry: StreamId| {
            let Some(Value::BulkString(data)) = entry.map.get("d") else { bail!("an entry without data") };
            let stamp = Stamp::of_payload(data).context("an entry that this load did not send")?;
            Ok(Leased { lease: entry.id, stamp })
        };
        entries.map(leased).collect()
    }

    async fn ack(&mut self, leases: Vec<Leased<String>>) -> anyhow::Result<()> {
        let ids: Vec<&str> = leases.iter().map(|leased| leased.lease.as_str()).collect();
        let mut acks = pipe();
        acks.cmd("XACK").arg(&self.key).arg(GROUP).arg(&ids);
        acks.cmd("XDEL").arg(&self.key).arg(&ids);
        let (acked, deleted): (usize, usize) = acks.query_async(&mut self.connection).await?;
        ensure!((acked, deleted) == (ids.len(), ids.len()), "{acked} acked, {deleted} deleted");
        Ok(())
    }
}
