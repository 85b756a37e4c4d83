//! Queues in PostgreSQL: one cluster for each, with the same settings.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use millpond_load::{Millpond, OwnServer, Processes};
use millpond_test_postgres::Cluster;
use tokio::process::Command;

use super::{Peer, Server};

/// What a server of this size is given by those who look after one; durable as PostgreSQL is unless it is told otherwise.
pub(crate) const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "512MB"),
    ("max_wal_size", "4GB"),
    ("max_connections", "400"),
    ("checkpoint_timeout", "15min"),
];

/// A running PostgreSQL of our own.
pub(crate) struct Database {
    cluster: Cluster,
    postmaster: u32,
}

impl Database {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start_with(&SETTINGS)?;
        let postmaster = cluster.process_id().context("it runs")?;
        Ok(Self { cluster, postmaster })
    }

    pub(crate) fn url(&self) -> String {
        self.cluster.url("postgres")
    }

    /// Of all that its database keeps, without the log.
    pub(crate) fn stored_bytes(&self) -> anyhow::Result<f64> {
        let rows = self.cluster.sql("postgres", "select pg_database_size(current_database())")?;
        let bytes = rows.into_iter().flatten().next().flatten().context("a database has a size")?;
        Ok(bytes.parse()?)
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Its processor time is that of the queue where that has no server of its own.
    pub(crate) fn processes(&self) -> Processes {
        Processes::Tree(self.postmaster)
    }
}

/// Millpond on a database.
pub(crate) struct OnDatabase {
    // Before the database: it stops first.
    server: OwnServer,
    database: Database,
    data_bytes: u64,
}

impl OnDatabase {
    pub(crate) fn start(binary: &Path, data_bytes: u64) -> anyhow::Result<Self> {
        let database = Database::start()?;
        let server = OwnServer::on_database(binary, &database.url())?;
        Ok(Self { server, database, data_bytes })
    }

    pub(crate) fn server(&self) -> &OwnServer {
        &self.server
    }

    /// Stops the server.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.server.stop()
    }

    /// Starts another in its place.
    pub(crate) fn start_again(&mut self, binary: &Path) -> anyhow::Result<()> {
        self.server = OwnServer::on_database(binary, &self.database.url())?;
        Ok(())
    }
}

impl Server for OnDatabase {
    type Queue = Millpond;

    fn database(&self) -> Option<&Database> {
        Some(&self.database)
    }

    fn processes(&self) -> Processes {
        Processes::Beside(self.server.id(), self.database.postmaster)
    }

    async fn queue(&self, name: &str, _: u64) -> anyhow::Result<Millpond> {
        let queue = Millpond::new(self.server.url(), name, self.data_bytes)?;
        queue.create().await?;
        Ok(queue)
    }
}

/// The program that puts a peer under load.
pub(crate) fn load(peer: Peer, awa: &Path) -> Command {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/postgresql"));
    let script = match peer {
        Peer::PgBoss => "pg-boss.mjs",
        Peer::GraphileWorker => "graphile-worker.mjs",
        _ => return Command::new(awa),
    };
    let mut node = Command::new(directory.join("node_modules/node/bin/node"));
    node.arg(directory.join(script));
    node
}
