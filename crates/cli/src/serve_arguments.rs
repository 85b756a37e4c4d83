//! What `millpond serve` takes. Each option can come from the environment too.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use millpond_server::config::{
    ALLOWED_DEFAULT, DEFAULT_DATA_DIR, DEFAULT_ENVIRONMENT, DEFAULT_LISTEN, PUSHES,
};
use millpond_server::{CONNECTIONS, DATA_BYTES, METRICS_QUEUES, QUEUES, Quotas, RawSettings};
use tracing_subscriber::EnvFilter;

/// The variable that many programs take their log filter from.
pub(crate) const RUST_LOG: &str = "RUST_LOG";
/// What is logged unless told.
const LOG_DEFAULT: &str = "warn";

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Address to listen on, on this machine only; port 0 takes any free port
    #[arg(long, env = "MILLPOND_LISTEN", default_value = DEFAULT_LISTEN, value_name = "ADDRESS:PORT")]
    listen: String,

    /// Directory of the data, made if there is none; one process serves it at a time
    #[arg(long, env = "MILLPOND_DATA_DIR", default_value = DEFAULT_DATA_DIR, value_name = "DIR")]
    data_dir: PathBuf,

    /// Directory of the backups that `millpond backup` has this server make [default: backups in the directory of the data]
    #[arg(long, env = "MILLPOND_BACKUP_DIR", value_name = "DIR")]
    backup_dir: Option<PathBuf>,

    /// A further host name under which the server may be asked, as behind a proxy; can be repeated
    #[arg(long, env = "MILLPOND_ALLOW_HOST", value_delimiter = ',', value_name = "HOST[:PORT]")]
    allow_host: Vec<String>,

    /// The environment that /v1/queues stands for; made if there is none
    #[arg(long, env = "MILLPOND_DEFAULT_ENVIRONMENT", default_value = DEFAULT_ENVIRONMENT, value_name = "NAME")]
    default_environment: String,

    /// Take the data for what the last server left, although it looks like a restored copy: leases in it stay good
    #[arg(long, env = "MILLPOND_ASSUME_RESTART")]
    assume_restart: bool,

    /// What to log on stderr: a level, or a filter like millpond_server=debug; RUST_LOG counts if this is not given, and
    /// without it warnings are logged
    #[arg(long, env = "MILLPOND_LOG", value_name = "FILTER")]
    log: Option<String>,

    /// How to log
    #[arg(long, env = "MILLPOND_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,

    /// Connections served at once; one more is refused
    #[arg(long, env = "MILLPOND_MAX_CONNECTIONS", default_value_t = CONNECTIONS, value_name = "COUNT")]
    max_connections: usize,

    /// Queues that /metrics shows singly; of the others it shows what they sum up to
    #[arg(long, env = "MILLPOND_METRICS_QUEUES", default_value_t = METRICS_QUEUES, value_name = "COUNT")]
    metrics_queues: usize,

    /// Bytes of data that a message in binary mode can have; more are refused with payload_too_large
    #[arg(long, env = "MILLPOND_MAX_DATA_BYTES", default_value_t = DATA_BYTES, value_name = "BYTES")]
    max_data_bytes: usize,

    /// Queues that an environment can hold; one more is refused with queue_limit
    #[arg(long, env = "MILLPOND_MAX_QUEUES", default_value_t = QUEUES, value_name = "COUNT")]
    max_queues: usize,

    /// Messages that an environment can hold, in any state; one more is refused with message_limit [default: no limit]
    #[arg(long, env = "MILLPOND_MAX_MESSAGES", value_name = "COUNT")]
    max_messages: Option<u64>,

    /// Bytes of messages that an environment can hold; more are refused with byte_limit [default: no limit]
    #[arg(long, env = "MILLPOND_MAX_BYTES", value_name = "BYTES")]
    max_bytes: Option<u64>,

    /// Bytes of Vercel's runtime cache, which is kept in memory at /v1/cache; 8388608 to 1073741824 [default: it is off]
    #[arg(long, env = "MILLPOND_RUNTIME_CACHE", value_name = "BYTES")]
    runtime_cache: Option<usize>,

    /// The environment of a region, for Vercel's clients whose base URL ends with /r/REGION; made if there is none; can be
    /// repeated [default: every region is the default environment]
    #[arg(long, env = "MILLPOND_VERCEL_REGION", value_delimiter = ',', value_name = "REGION=ENVIRONMENT")]
    vercel_region: Vec<String>,

    /// A network that triggers may push to, as an address or with a prefix length; can be repeated, and what is given takes the
    /// place of the default, which is this machine
    #[arg(long, env = "MILLPOND_PUSH_ALLOW", value_delimiter = ',', default_values = ALLOWED_DEFAULT, value_name = "NETWORK")]
    push_allow: Vec<String>,

    /// Pushes under way at once; further messages wait
    #[arg(long, env = "MILLPOND_PUSH_CONCURRENCY", default_value_t = PUSHES, value_name = "COUNT")]
    push_concurrency: usize,
}

/// How lines of the log look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object a line
    Json,
    /// For people
    Text,
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
        let (name, filter) = self.log_in_force();
        let refuse =
            |error| LogFilterError(format!("{name} is {filter:?}, expected a level or a filter: {error}"));
        EnvFilter::try_new(&filter).map_err(refuse)
    }

    /// The filter that counts, and what it is called where it comes from.
    pub(crate) fn log_in_force(&self) -> (&'static str, String) {
        let common = std::env::var(RUST_LOG).ok().filter(|filter| !filter.is_empty());
        match (&self.log, common) {
            (Some(own), _) => ("log", own.clone()),
            (None, Some(common)) => (RUST_LOG, common),
            (None, None) => ("log", LOG_DEFAULT.to_owned()),
        }
    }

    pub(crate) fn settings(self) -> RawSettings {
        RawSettings {
            listen: self.listen,
            data_dir: self.data_dir,
            backup_dir: self.backup_dir,
            allow_hosts: self.allow_host,
            default_environment: self.default_environment,
            assume_restart: self.assume_restart,
            max_connections: self.max_connections,
            metrics_queues: self.metrics_queues,
            max_data_bytes: self.max_data_bytes,
            quotas: Quotas { queues: self.max_queues, messages: self.max_messages, bytes: self.max_bytes },
            runtime_cache: self.runtime_cache,
            vercel_regions: self.vercel_region,
            push_allow: self.push_allow,
            push_concurrency: self.push_concurrency,
        }
    }
}
