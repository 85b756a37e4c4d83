//! Settings: what was given ([`RawSettings`]), and what it means ([`Settings`]).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use millpond_api::limits::BINARY_BODY_BYTES_MAX;
use millpond_api::name::EnvironmentName;
use millpond_api::{Fault, InputError};
use millpond_core::limits::CHUNK_BYTES;
use millpond_engine::EngineSettings;
use millpond_push::AllowList;
pub use millpond_push::target::ALLOWED_DEFAULT;

use crate::connections::{CONNECTIONS, CONNECTIONS_MAX};
use crate::metrics::{METRICS_QUEUES, METRICS_QUEUES_MAX};
use crate::runtime_cache::{RUNTIME_CACHE_BYTES_MAX, RUNTIME_CACHE_BYTES_MIN};

/// Schema of a database that holds the data, unless told.
pub const DEFAULT_SCHEMA: &str = "millpond";
/// The environment that `/v1/queues` stands for, unless told.
pub const DEFAULT_ENVIRONMENT: &str = "orgs/default/projects/default/envs/default";
/// Where the server listens unless told.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8400";
/// Where the data is unless told.
pub const DEFAULT_DATA_DIR: &str = "./data";
/// Where backups are in the directory of the data, unless told.
const BACKUPS: &str = "backups";
/// Bytes of data that a message in binary mode can have unless told, and at most.
pub const DATA_BYTES: usize = BINARY_BODY_BYTES_MAX;
/// Queues that an environment can hold unless told.
pub const QUEUES: usize = 20_000;
/// Pushes under way at once unless told.
pub const PUSHES: usize = millpond_push::CALLS;
/// The most pushes that can be told to be under way at once.
pub const PUSHES_MAX: usize = 100_000;
/// The most queues that an environment can be told to hold.
pub const QUEUES_MAX: usize = 100_000;

/// Settings as they were given, from flags or the environment.
#[derive(Clone, Debug)]
pub struct RawSettings {
    /// `IP:PORT` or `localhost:PORT`.
    pub listen: String,
    /// Directory of the data.
    pub data_dir: PathBuf,
    /// Directory of backups that are made on demand; none: `backups` in that of the data.
    pub backup_dir: Option<PathBuf>,
    /// The database that holds the data; none: the directory does.
    pub database: Option<Database>,
    /// Further names under which the server may be asked.
    pub allow_hosts: Vec<String>,
    /// The environment that `/v1/queues` stands for.
    pub default_environment: String,
    /// Take a store that looks like a restored copy for the original.
    pub assume_restart: bool,
    /// Connections served at once.
    pub max_connections: usize,
    /// Queues shown singly in metrics.
    pub metrics_queues: usize,
    /// Bytes of data of a message in binary mode.
    pub max_data_bytes: usize,
    /// What an environment can hold.
    pub quotas: Quotas,
    /// Bytes of the runtime cache; none: it is off.
    pub runtime_cache: Option<usize>,
    /// Environments of regions, each as `REGION=ENVIRONMENT`.
    pub vercel_regions: Vec<String>,
    /// Networks that pushes may go to.
    pub push_allow: Vec<String>,
    /// Pushes under way at once.
    pub push_concurrency: usize,
}

/// What an environment can hold. Beyond it calls that would add to it are refused: `queue_limit`, `message_limit`,
/// `byte_limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Queues: 1 to [`QUEUES_MAX`].
    pub queues: usize,
    /// Messages in any state: 1 or more; none is as many as there is room for.
    pub messages: Option<u64>,
    /// Bytes of attributes and data of all messages: 1 or more; none is as many as there is room for.
    pub bytes: Option<u64>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { queues: QUEUES, messages: None, bytes: None }
    }
}

impl Quotas {
    fn check(self) -> Result<Self, SettingsError> {
        check_range("max-queues", self.queues, 1, QUEUES_MAX)?;
        for (name, value) in [("max-messages", self.messages), ("max-bytes", self.bytes)] {
            if value == Some(0) {
                return Err(SettingsError::OutOfRange { name, value: 0, least: 1, most: usize::MAX });
            }
        }
        Ok(self)
    }

    /// The engine's settings with these.
    #[must_use]
    pub fn lay_over(self, mut settings: EngineSettings) -> EngineSettings {
        let core = &mut settings.environment.core;
        core.queues = self.queues;
        core.messages = self.messages.unwrap_or(core.messages);
        core.bytes = self.bytes.unwrap_or(core.bytes);
        settings
    }
}

impl Default for RawSettings {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN.to_owned(),
            data_dir: PathBuf::from(DEFAULT_DATA_DIR),
            backup_dir: None,
            database: None,
            allow_hosts: Vec::new(),
            default_environment: DEFAULT_ENVIRONMENT.to_owned(),
            assume_restart: false,
            max_connections: CONNECTIONS,
            metrics_queues: METRICS_QUEUES,
            max_data_bytes: DATA_BYTES,
            quotas: Quotas::default(),
            runtime_cache: None,
            vercel_regions: Vec::new(),
            push_allow: ALLOWED_DEFAULT.iter().map(ToString::to_string).collect(),
            push_concurrency: PUSHES,
        }
    }
}

/// A PostgreSQL database that holds the data.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    /// How to connect to it, the password perhaps included.
    pub url: String,
    /// The schema in it.
    pub schema: String,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// For messages: without the address, which may hold a password.
impl std::fmt::Display for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "schema {} of the database", self.schema)
    }
}

/// Settings that hold.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// Directory of the data.
    pub data_dir: PathBuf,
    /// Directory of backups that are made on demand.
    pub backup_dir: PathBuf,
    /// The database that holds the data; none: the directory does.
    pub database: Option<Database>,
    /// Further names under which the server may be asked, in lower case.
    pub allow_hosts: Vec<String>,
    /// The environment that `/v1/queues` stands for.
    pub default_environment: EnvironmentName,
    /// Take a store that looks like a restored copy for the original.
    pub assume_restart: bool,
    /// Connections served at once: 1 to [`CONNECTIONS_MAX`].
    pub max_connections: usize,
    /// Queues shown singly in metrics: up to [`METRICS_QUEUES_MAX`].
    pub metrics_queues: usize,
    /// Bytes of data of a message in binary mode: 256 KiB to [`DATA_BYTES`].
    pub max_data_bytes: usize,
    /// What an environment can hold.
    pub quotas: Quotas,
    /// Bytes of the runtime cache: [`RUNTIME_CACHE_BYTES_MIN`] to [`RUNTIME_CACHE_BYTES_MAX`]; none: it is off.
    pub runtime_cache: Option<usize>,
    /// Environments of regions that paths of Vercel's wire may name.
    pub vercel_regions: Vec<(String, EnvironmentName)>,
    /// Networks that pushes may go to.
    pub push_allow: AllowList,
    /// Pushes under way at once: 1 to [`PUSHES_MAX`].
    pub push_concurrency: usize,
}

/// Settings that do not hold.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A host that could not stand in a `Host` header.
    #[error("allow-host is {0:?}, expected a host name or address, with or without a port")]
    AllowHost(String),
    /// Not an environment's name.
    #[error("default-environment: {0}")]
    DefaultEnvironment(InputError),
    /// Not an address.
    #[error("listen is {0:?}, expected an address and a port like {DEFAULT_LISTEN}")]
    Listen(String),
    /// An address that others can reach.
    #[error(
        "listen is {0}, which others can reach; this server knows no keys, so it only listens on 127.0.0.1 or [::1] \
         (to offer it to others, put a proxy that authenticates in front and name it with allow-host)"
    )]
    NotLoopback(SocketAddr),
    /// A number outside its range.
    #[error("{name} is {value}, expected {least} to {most}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: usize,
        /// The least that it can be.
        least: usize,
        /// The most that it can be.
        most: usize,
    },
    /// Not a network.
    #[error("push-allow is {given:?}, expected {expected}, like 10.0.0.0/8 or ::1")]
    PushAllow {
        /// What was given.
        given: String,
        /// What is taken.
        expected: String,
    },
    /// Not a region and its environment, or a region that has one already.
    #[error(
        "vercel-region is {0:?}, expected REGION=ENVIRONMENT, each region once, like iad1={DEFAULT_ENVIRONMENT}"
    )]
    VercelRegion(String),
    /// Not an environment's name.
    #[error("vercel-region: {0}")]
    VercelRegionEnvironment(InputError),
}

impl RawSettings {
    /// Checks everything.
    pub fn resolve(self) -> Result<Settings, SettingsError> {
        let listen = parse_listen(&self.listen)?;
        if !listen.ip().is_loopback() {
            return Err(SettingsError::NotLoopback(listen));
        }
        let allow_hosts = self.allow_hosts.into_iter().map(check_host).collect::<Result<_, _>>()?;
        let default_environment = EnvironmentName::parse("default-environment", &self.default_environment)
            .map_err(SettingsError::DefaultEnvironment)?;
        let (least, most) = (RUNTIME_CACHE_BYTES_MIN, RUNTIME_CACHE_BYTES_MAX);
        let cache_bytes = |bytes| check_range("runtime-cache", bytes, least, most);
        Ok(Settings {
            listen,
            backup_dir: self.backup_dir.unwrap_or_else(|| self.data_dir.join(BACKUPS)),
            data_dir: self.data_dir,
            database: self.database,
            allow_hosts,
            default_environment,
            assume_restart: self.assume_restart,
            max_connections: check_range("max-connections", self.max_connections, 1, CONNECTIONS_MAX)?,
            metrics_queues: check_range("metrics-queues", self.metrics_queues, 0, METRICS_QUEUES_MAX)?,
            max_data_bytes: check_range("max-data-bytes", self.max_data_bytes, CHUNK_BYTES, DATA_BYTES)?,
            quotas: self.quotas.check()?,
            runtime_cache: self.runtime_cache.map(cache_bytes).transpose()?,
            vercel_regions: check_regions(self.vercel_regions)?,
            push_allow: check_allowed(&self.push_allow)?,
            push_concurrency: check_range("push-concurrency", self.push_concurrency, 1, PUSHES_MAX)?,
        })
    }
}

/// The name of an environment, checked.
pub fn environment_name(text: &str) -> Result<String, InputError> {
    Ok(EnvironmentName::parse("environment", text)?.to_string())
}

fn parse_listen(text: &str) -> Result<SocketAddr, SettingsError> {
    let refuse = || SettingsError::Listen(text.to_owned());
    match text.strip_prefix("localhost:") {
        Some(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().map_err(|_| refuse())?))),
        None => text.parse().map_err(|_| refuse()),
    }
}

fn check_range(name: &'static str, value: usize, least: usize, most: usize) -> Result<usize, SettingsError> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(SettingsError::OutOfRange { name, value, least, most })
    }
}

/// Each region has one environment; several may share one.
fn check_regions(given: Vec<String>) -> Result<Vec<(String, EnvironmentName)>, SettingsError> {
    let mut regions: Vec<(String, EnvironmentName)> = Vec::new();
    for text in given {
        let known = |region: &str| regions.iter().any(|(own, _)| own == region);
        let Some((region, name)) =
            text.split_once('=').filter(|(region, _)| is_region(region) && !known(region))
        else {
            return Err(SettingsError::VercelRegion(text));
        };
        let name =
            EnvironmentName::parse("vercel-region", name).map_err(SettingsError::VercelRegionEnvironment)?;
        regions.push((region.to_owned(), name));
    }
    Ok(regions)
}

/// Two to five letters and one or two digits, which is what Vercel's clients take for a region.
fn is_region(text: &str) -> bool {
    let letters = text.bytes().take_while(u8::is_ascii_lowercase).count();
    let digits = &text[letters..];
    (2..=5).contains(&letters)
        && matches!(digits.len(), 1 | 2)
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_allowed(given: &[String]) -> Result<AllowList, SettingsError> {
    let refuse = |(given, fault): (&str, Fault)| {
        let expected = fault.expected.to_string();
        SettingsError::PushAllow { given: given.to_owned(), expected }
    };
    AllowList::parse(given.iter().map(String::as_str)).map_err(refuse)
}

fn check_host(host: String) -> Result<String, SettingsError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(legal) {
        return Err(SettingsError::AllowHost(host));
    }
    Ok(host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Result<SocketAddr, SettingsError> {
        RawSettings { listen: text.to_owned(), ..RawSettings::default() }
            .resolve()
            .map(|settings| settings.listen)
    }

    #[test]
    fn defaults_hold() {
        let settings = RawSettings::default().resolve().expect("valid");
        assert_eq!(settings.listen.to_string(), DEFAULT_LISTEN);
        assert_eq!(settings.default_environment.to_string(), DEFAULT_ENVIRONMENT);
    }

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        for text in ["127.0.0.1:0", "127.0.0.2:80", "[::1]:8400", "localhost:8400"] {
            assert!(listen(text).is_ok(), "{text}");
        }
        for text in ["0.0.0.0:8400", "[::]:8400", "192.168.1.5:8400"] {
            assert!(matches!(listen(text), Err(SettingsError::NotLoopback(_))), "{text}");
        }
        for text in ["", "8400", "127.0.0.1", "localhost", "localhost:x", "example.com:80"] {
            assert!(matches!(listen(text), Err(SettingsError::Listen(_))), "{text}");
        }
    }

    #[test]
    fn hosts_and_environments_are_checked() {
        let hosts = |host: &str| {
            RawSettings { allow_hosts: vec![host.to_owned()], ..RawSettings::default() }.resolve().is_ok()
        };
        assert!(hosts("Queue.example.com:443") && hosts("[fe80::1]"));
        assert!(!hosts("") && !hosts("https://example.com") && !hosts("*"));
        let raw = RawSettings { default_environment: "orgs/x".to_owned(), ..RawSettings::default() };
        assert!(matches!(raw.resolve(), Err(SettingsError::DefaultEnvironment(_))));
    }

    #[test]
    fn a_region_has_one_environment() {
        let resolve = |regions: &[&str]| {
            let vercel_regions = regions.iter().map(|&region| region.to_owned()).collect();
            RawSettings { vercel_regions, ..RawSettings::default() }
                .resolve()
                .map(|known| known.vercel_regions)
        };
        let name = "orgs/a/projects/b/envs/c";
        let known = resolve(&[&format!("iad1={name}"), &format!("fra10={name}")]).expect("valid");
        let known: Vec<_> = known.iter().map(|(region, name)| (region.as_str(), name.to_string())).collect();
        assert_eq!(known, [("iad1", name.to_owned()), ("fra10", name.to_owned())]);
        for region in ["iad1", "", "=", "i1", "iad", "iad123", "iadiad1", "IAD1", "é1", "iad1x"] {
            let text = if region == "iad1" { region.to_owned() } else { format!("{region}={name}") };
            assert_eq!(resolve(&[&text]), Err(SettingsError::VercelRegion(text.clone())), "{text}");
        }
        let twice = format!("iad1={name}");
        assert_eq!(resolve(&[&twice, &twice]), Err(SettingsError::VercelRegion(twice.clone())));
        assert!(matches!(resolve(&["iad1=b"]), Err(SettingsError::VercelRegionEnvironment(_))));
    }

    #[test]
    fn numbers_have_their_range() {
        let resolve = |max_connections, metrics_queues| {
            RawSettings { max_connections, metrics_queues, ..RawSettings::default() }.resolve()
        };
        assert!(resolve(1, 0).is_ok() && resolve(CONNECTIONS_MAX, METRICS_QUEUES_MAX).is_ok());
        let refused = resolve(0, 0).map(drop).expect_err("none could ask");
        assert_eq!(refused.to_string(), "max-connections is 0, expected 1 to 1000000");
        let refused = resolve(1, 20_001).map(drop).expect_err("too many");
        assert_eq!(refused.to_string(), "metrics-queues is 20001, expected 0 to 20000");
        let data = |max_data_bytes| RawSettings { max_data_bytes, ..RawSettings::default() }.resolve();
        assert!(data(CHUNK_BYTES).is_ok() && data(DATA_BYTES).is_ok());
        let refused = data(DATA_BYTES + 1).map(drop).expect_err("too many");
        assert_eq!(refused.to_string(), "max-data-bytes is 104857601, expected 262144 to 104857600");
        let cache = |bytes| RawSettings { runtime_cache: Some(bytes), ..RawSettings::default() }.resolve();
        assert!(cache(RUNTIME_CACHE_BYTES_MIN).is_ok() && cache(RUNTIME_CACHE_BYTES_MAX).is_ok());
        let refused = cache(0).map(drop).expect_err("too few");
        assert_eq!(refused.to_string(), "runtime-cache is 0, expected 8388608 to 1073741824");
    }

    #[test]
    fn quotas_have_their_range_and_reach_the_engine() {
        let resolve = |quotas| RawSettings { quotas, ..RawSettings::default() }.resolve();
        let few = Quotas { queues: 1, messages: Some(1), bytes: Some(1) };
        let core = resolve(few).expect("valid").quotas.lay_over(EngineSettings::default()).environment.core;
        assert_eq!((core.queues, core.messages, core.bytes), (1, 1, 1));
        for (quotas, name) in [
            (Quotas { queues: 0, ..few }, "max-queues"),
            (Quotas { queues: QUEUES_MAX + 1, ..few }, "max-queues"),
            (Quotas { messages: Some(0), ..few }, "max-messages"),
            (Quotas { bytes: Some(0), ..few }, "max-bytes"),
        ] {
            let refused = resolve(quotas).map(drop).expect_err(name);
            assert!(refused.to_string().starts_with(name), "{refused}");
        }
        let unlimited = Quotas::default().lay_over(EngineSettings::default()).environment.core;
        let core = EngineSettings::default().environment.core;
        assert_eq!((unlimited.queues, unlimited.messages), (core.queues, core.messages));
    }
}
