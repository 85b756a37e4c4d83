//! A cluster: a data directory and the server on it.

mod recovery;
mod standby;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail, ensure};

use crate::apart::Apart;
use crate::guard::Guard;
use crate::installation::Installation;
use crate::postmaster::{Postmaster, READY, READY_TO_READ};
use crate::{Rows, run_apart};

/// The role of all connections, which needs no password.
const ROLE: &str = "postgres";
/// Below what the kernel gives to connections that go out: a port that was free must be so again after a restart.
const PORTS: std::ops::Range<u32> = 20_000..30_000;
/// Somebody else may take a port between the look and the start.
const TRIES: u32 = 10;
const TAKEN: &str = "Address already in use";

pub use recovery::{Base, Moment};

/// What of a cluster has little room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Tables and all else that is not the log.
    Data,
    /// The write-ahead log.
    Log,
}

/// A PostgreSQL of one's own. Dropped, it and its data are gone.
#[derive(Debug)]
pub struct Cluster {
    postmaster: Option<Postmaster>,
    // Behind the server, whose end it sees to.
    guard: Option<Guard>,
    installation: Installation,
    directory: PathBuf,
    data: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    /// It follows another one, and was not promoted yet.
    is_standby: bool,
}

impl Cluster {
    /// Makes a cluster and starts it with PostgreSQL's own settings.
    ///
    /// # Errors
    /// There is no PostgreSQL, or it cannot be run; which is said.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// Makes a cluster and starts it with further settings, as in `postgresql.conf`.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_with(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut own = Self::without_data(settings)?;
        own.initialize()?;
        own.run_on_free_port()?;
        Ok(own)
    }

    /// The same on a network of its own, where it also listens on the address of the cable.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_within(apart: Arc<Apart>, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut own = Self::without_data(settings)?;
        own.installation.apart = Some(apart);
        own.settings.push(("listen_addresses".to_owned(), "*".to_owned()));
        own.initialize()?;
        let known = own.data_dir().join("pg_hba.conf");
        let known = fs::OpenOptions::new().append(true).open(known).context("pg_hba.conf is there")?;
        writeln!(&known, "host all all samenet trust")?;
        own.run_on_free_port()?;
        Ok(own)
    }

    /// The same with its data, or its log, on a file system of so many MiB; the rest is not.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_in_room(part: Part, mebibytes: u32, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut own = Self::without_data(settings)?;
        let room = own.room();
        fs::create_dir(&room).context("a directory cannot be made")?;
        own.installation.apart = Some(Arc::new(Apart::with_room(&room, mebibytes)?));
        let log = match part {
            Part::Data => {
                own.data = room.join("data");
                own.directory.join("wal")
            }
            Part::Log => room.join("wal"),
        };
        own.initialize_with(&["--waldir".as_ref(), log.as_os_str()])?;
        own.run_on_free_port()?;
        Ok(own)
    }

    /// A directory and its guard, and nothing in it.
    fn without_data(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let installation = Installation::find()?;
        let directory = tempfile::Builder::new().prefix("millpond-postgres-").tempdir();
        let directory = directory.context("no directory can be made")?.keep();
        let guard = Guard::start(&directory, &[directory.join("data"), directory.join("room/data")]);
        let data = directory.join("data");
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let own = Self {
            postmaster: None,
            guard: Some(guard.context("sh cannot be run")?),
            installation,
            directory,
            data,
            port: 0,
            settings: settings.collect(),
            is_standby: false,
        };
        if let Some(account) = own.installation.account {
            account.give(&own.directory).context("the directory cannot be given away")?;
        }
        Ok(own)
    }

    /// The port of 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.data.clone()
    }

    /// A file on the file system of [`Cluster::start_in_room`], as the caller finds it.
    ///
    /// # Errors
    /// It has no room of its own.
    pub fn in_room(&self, name: &str) -> anyhow::Result<PathBuf> {
        let apart = self.installation.apart.as_ref().context("it has no room of its own")?;
        Ok(apart.seen_from_outside(&self.room().join(name)))
    }

    fn room(&self) -> PathBuf {
        self.directory.join("room")
    }

    /// What the server has logged since the cluster was made.
    pub fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The URL of a database; `postgres` is always there.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes a database; its URL.
    ///
    /// # Errors
    /// The server does not run, or refuses.
    pub fn create_database(&self, name: &str) -> anyhow::Result<String> {
        self.sql("postgres", &format!("create database {name}"))?;
        Ok(self.url(name))
    }

    /// Runs statements in a database; the rows that they answer.
    ///
    /// # Errors
    /// The server does not run, or refuses.
    pub fn sql(&self, database: &str, sql: &str) -> anyhow::Result<Rows> {
        run_apart(&self.url(database), sql)
    }

    /// Stops the server as fast as it can be done in order.
    ///
    /// # Errors
    /// It does not run.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.postmaster.take().context("it does not run")?.stop()
    }

    /// Ends all of the server's processes as a crash does (SIGKILL).
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.postmaster.take().context("it does not run")?.kill()
    }

    /// The id of the process that listens, while the server runs.
    pub fn process_id(&self) -> Option<u32> {
        self.postmaster.as_ref().map(Postmaster::id)
    }

    /// Starts the server again, on the same port and data.
    ///
    /// # Errors
    /// It runs, or cannot be run; what it says is in the error.
    pub fn run(&mut self) -> anyhow::Result<()> {
        self.run_with(&[])
    }

    /// With settings for this once.
    fn run_with(&mut self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        ensure!(self.postmaster.is_none(), "it runs already");
        let begun = self.log().len();
        let mut command = self.postgres();
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let phrase = if self.is_standby { READY_TO_READ } else { READY };
        let started = Postmaster::start(&mut command, &self.log_file(), phrase);
        let said = || self.log().get(begun..).unwrap_or_default().trim_end().to_owned();
        self.postmaster = Some(started.with_context(said)?);
        Ok(())
    }

    /// Copies the data, which nobody may write meanwhile, to a directory that is not there.
    ///
    /// # Errors
    /// The server runs; or the directory cannot be made.
    pub fn copy_of_data(&self, to: &Path) -> anyhow::Result<()> {
        ensure!(self.postmaster.is_none(), "it runs: stop it first");
        copy(&self.data_dir(), to)
    }

    /// Puts a copy in the place of the data, as who restores a backup does.
    ///
    /// # Errors
    /// The server runs; or the directory is no copy.
    pub fn restore_data(&mut self, from: &Path) -> anyhow::Result<()> {
        ensure!(self.postmaster.is_none(), "it runs: stop it first");
        ensure!(from.join("PG_VERSION").is_file(), "{} is no copy of data", from.display());
        fs::remove_dir_all(self.data_dir()).context("the data cannot be removed")?;
        copy(from, &self.data_dir())
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn initialize(&self) -> anyhow::Result<()> {
        self.initialize_with(&[])
    }

    fn initialize_with(&self, further: &[&OsStr]) -> anyhow::Result<()> {
        let mut initdb = self.installation.command("initdb");
        initdb.current_dir(&self.directory).arg("--pgdata").arg(self.data_dir());
        initdb.args(["--username", ROLE, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]);
        // No promise has been given yet that a loss of power could break.
        initdb.args(["--no-instructions", "--no-sync"]).args(further);
        let output = initdb.output().with_context(|| format!("{initdb:?} cannot be run"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "initdb has failed in {}: {said}", self.directory.display());
        Ok(())
    }

    fn run_on_free_port(&mut self) -> anyhow::Result<()> {
        for tries in 1.. {
            self.port = free_port()?;
            match self.run() {
                Err(error) if tries < TRIES && format!("{error:#}").contains(TAKEN) => {}
                other => return other,
            }
        }
        Ok(())
    }

    /// The server's command line. Later settings count more than those in front.
    fn postgres(&self) -> Command {
        let mut command = self.installation.command("postgres");
        command.current_dir(&self.directory).arg("-D").arg(self.data_dir());
        command.args(["-p", &self.port.to_string()]);
        let own = [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""),
            ("fsync", "on"),
            ("max_connections", "200"),
            ("lc_messages", "C"),
        ];
        let further = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.into_iter().chain(further) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // In this order: the guard ends the server and waits for that.
        drop(self.guard.take());
        if let Some(Err(error)) = self.postmaster.take().map(|mut postmaster| postmaster.wait()) {
            eprintln!("the end of a PostgreSQL: {error:#}");
        }
    }
}

/// As `cp -a` does it: what belongs to the server goes on belonging to it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    ensure!(!to.exists(), "{} is there already", to.display());
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().context("cp cannot be run")?;
    ensure!(status.success(), "{} cannot be copied to {}", from.display(), to.display());
    Ok(())
}

pub(crate) fn free_port() -> anyhow::Result<u16> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Processes begin at different places.
    let first = std::process::id().wrapping_mul(61);
    for _ in PORTS {
        let next = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + next % (PORTS.end - PORTS.start))?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port from {} to {} is free", PORTS.start, PORTS.end - 1)
}
