//! Millpond itself.

use std::path::Path;

use millpond_load::{Millpond, OwnServer, Processes};

use super::Server;

pub(crate) struct Own {
    server: OwnServer,
    data_bytes: u64,
}

impl Own {
    pub(crate) fn start(binary: &Path, directory: &Path, data_bytes: u64) -> anyhow::Result<Self> {
        Ok(Self { server: OwnServer::start(binary, directory)?, data_bytes })
    }
}

impl Server for Own {
    type Queue = Millpond;

    fn processes(&self) -> Processes {
        self.server.processes()
    }

    async fn queue(&self, name: &str, _: u64) -> anyhow::Result<Millpond> {
        let queue = Millpond::new(self.server.url(), name, self.data_bytes)?;
        queue.create().await?;
        Ok(queue)
    }
}
