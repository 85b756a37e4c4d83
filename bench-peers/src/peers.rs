//! What is measured, and how each is made to do the same work.

pub(crate) mod beanstalkd;
pub(crate) mod millpond;
pub(crate) mod nats;
pub(crate) mod postgresql;
pub(crate) mod program;
pub(crate) mod rabbitmq;
pub(crate) mod redis;

use clap::ValueEnum;
use millpond_load::{Processes, System};

use self::postgresql::Database;

/// A server and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    Millpond,
    Redis,
    Bullmq,
    Rabbitmq,
    NatsSync,
    Nats,
    Beanstalkd,
    MillpondPostgresql,
    PgBoss,
    GraphileWorker,
    Awa,
}

/// A table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Family {
    /// Servers with storage of their own
    Servers,
    /// Queues in PostgreSQL
    Postgresql,
}

impl Peer {
    pub(crate) fn family(self) -> Family {
        match self {
            Self::MillpondPostgresql | Self::PgBoss | Self::GraphileWorker | Self::Awa => Family::Postgresql,
            _ => Family::Servers,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Millpond => "Millpond",
            Self::Redis => "Redis Streams",
            Self::Bullmq => "BullMQ",
            Self::Rabbitmq => "RabbitMQ quorum queue",
            Self::NatsSync => "NATS JetStream, sync always",
            Self::Nats => "NATS JetStream, default",
            Self::Beanstalkd => "beanstalkd -f0",
            Self::MillpondPostgresql => "Millpond on PostgreSQL",
            Self::PgBoss => "pg-boss",
            Self::GraphileWorker => "Graphile Worker",
            Self::Awa => "awa",
        }
    }

    /// Whether what was answered is on disk, and what answers there are.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Self::Millpond => "yes: SQLite, `synchronous=FULL`; sends, leases and acks",
            Self::Redis => {
                "yes: `appendfsync always`; sends, leases and acks. No retries, delays or dead letters"
            }
            Self::Bullmq => "yes: `appendfsync always` in its Redis",
            Self::Rabbitmq => "yes for sends (publisher confirms); an ack has no answer",
            Self::NatsSync => "yes: `sync_interval: always`; sends and acks (`double_ack`)",
            Self::Nats => "no: flushed every two minutes",
            Self::Beanstalkd => {
                "yes: flushed on every write (`-f0`); sends and deletes, a reserve is in memory"
            }
            Self::MillpondPostgresql | Self::PgBoss => "yes: sends, leases and acks",
            Self::GraphileWorker => "yes: sends and leases; completions by the batch, nobody waits for them",
            Self::Awa => "yes: sends and leases; completions by the batch, after they are counted",
        }
    }

    /// How many clients there were and what they spoke.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Self::Millpond => "JSON over HTTP, a connection for each caller",
            Self::Redis => "`XADD`, `XREADGROUP`, `XACK` + `XDEL`; redis-rs, a connection for each caller",
            Self::Bullmq => "its Node library in one process; four workers share the concurrency",
            Self::Rabbitmq => "lapin; a connection for sixteen callers, consumers with a prefetch",
            Self::NatsSync | Self::Nats => "async-nats; a connection for sixteen callers, pull consumer",
            Self::Beanstalkd => "its protocol, a connection for each caller; hundreds are pipelined",
            Self::MillpondPostgresql => "JSON over HTTP, a connection for each caller",
            Self::PgBoss => {
                "its Node library: `send` or `insert`, `fetch` and `complete`, 32 connections; latency by `work` with `notify`"
            }
            Self::GraphileWorker => {
                "its Node library: `addJob` or `addJobs`, `run` with a local queue of 500 and batched completions, 32 connections"
            }
            Self::Awa => {
                "its Rust library: `insert_with` or `enqueue_params_copy`, its workers without deadlines, 80 connections"
            }
        }
    }
}

/// A running server.
pub(crate) trait Server {
    type Queue: System;

    /// What its processor time and memory are counted from.
    fn processes(&self) -> Processes;

    /// The database that its messages are in, if it is one of ours.
    fn database(&self) -> Option<&Database> {
        None
    }

    /// A new queue for so many callers.
    async fn queue(&self, name: &str, callers: u64) -> anyhow::Result<Self::Queue>;
}

/// Callers that share a connection where the protocol lets them.
pub(crate) const CALLERS_PER_CONNECTION: u64 = 16;
