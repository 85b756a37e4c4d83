//! What `millpond serve` takes. Each option can come from the environment too.

use std::path::PathBuf;

use clap::Args;
use millpond_server::RawSettings;
use millpond_server::config::{DEFAULT_DATA_DIR, DEFAULT_ENVIRONMENT, DEFAULT_LISTEN};
use tracing_subscriber::EnvFilter;

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Address to listen on, on this machine only; port 0 takes any free port
    #[arg(long, env = "MILLPOND_LISTEN", default_value = DEFAULT_LISTEN, value_name = "ADDRESS:PORT")]
    listen: String,

    /// Directory of the data, made if there is none; one process serves it at a time
    #[arg(long, env = "MILLPOND_DATA_DIR", default_value = DEFAULT_DATA_DIR, value_name = "DIR")]
    data_dir: PathBuf,

    /// A further host name under which the server may be asked, as behind a proxy; can be repeated
    #[arg(long, env = "MILLPOND_ALLOW_HOST", value_delimiter = ',', value_name = "HOST[:PORT]")]
    allow_host: Vec<String>,

    /// The environment that /v1/queues stands for; made if there is none
    #[arg(long, env = "MILLPOND_DEFAULT_ENVIRONMENT", default_value = DEFAULT_ENVIRONMENT, value_name = "NAME")]
    default_environment: String,

    /// Take the data for what the last server left, although it looks like a restored copy: leases in it stay good
    #[arg(long, env = "MILLPOND_ASSUME_RESTART")]
    assume_restart: bool,

    /// What to log on stderr: a level, or a filter like millpond_server=debug
    #[arg(long, env = "MILLPOND_LOG", default_value = "warn", value_name = "FILTER")]
    log: String,
}

/// The log filter cannot be read.
#[derive(Debug)]
pub(crate) struct LogFilterError(String);

impl std::fmt::Display for LogFilterError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for LogFilterError {}

impl ServeArguments {
    pub(crate) fn log_filter(&self) -> Result<EnvFilter, LogFilterError> {
        let refuse =
            |error| LogFilterError(format!("log is {:?}, expected a level or a filter: {error}", self.log));
        EnvFilter::try_new(&self.log).map_err(refuse)
    }

    pub(crate) fn settings(self) -> RawSettings {
        RawSettings {
            listen: self.listen,
            data_dir: self.data_dir,
            allow_hosts: self.allow_host,
            default_environment: self.default_environment,
            assume_restart: self.assume_restart,
        }
    }
}
