//! Which server a command talks to.

use clap::Args;
use millpond_client::Client;

use crate::exit::{Failure, Outcome};

/// Where a server is unless told.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8400";

#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Address of the server
    #[arg(long, env = "MILLPOND_URL", default_value = DEFAULT_URL, value_name = "URL")]
    server: String,

    /// Environment of queues that are named by their id, as orgs/ORG/projects/PROJECT/envs/ENV; the server's default
    /// unless given
    #[arg(long, env = "MILLPOND_ENVIRONMENT", value_name = "NAME")]
    environment: Option<String>,
}

impl Connection {
    /// Variables that say the same as these options.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let environment = self.environment.iter().map(|name| ("MILLPOND_ENVIRONMENT", name.clone()));
        std::iter::once(("MILLPOND_URL", self.server.clone())).chain(environment).collect()
    }

    pub(crate) fn client(&self) -> Outcome<Client> {
        let mut builder = Client::builder(&self.server);
        if let Some(name) = &self.environment {
            builder = builder.environment(name);
        }
        builder.build().map_err(|error| Failure::call("use this server", &error))
    }
}
