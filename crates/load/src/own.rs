//! A server of our own: started on a free port, killed with what holds it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

use crate::process::Processes;

const READY: &str = "listening on ";

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub struct OwnServer {
    child: Child,
    url: String,
}

impl OwnServer {
    /// Starts `binary` on a data directory and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be run, or ends instead.
    pub fn start(binary: &Path, data_dir: &Path) -> anyhow::Result<Self> {
        Self::start_with(binary, |command| command.arg("--data-dir").arg(data_dir))
    }

    /// The same on a PostgreSQL database.
    ///
    /// # Errors
    /// As [`OwnServer::start`].
    pub fn on_database(binary: &Path, url: &str) -> anyhow::Result<Self> {
        Self::start_with(binary, |command| command.arg("--database-url").arg(url))
    }

    fn start_with(binary: &Path, place: impl FnOnce(&mut Command) -> &mut Command) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        // What the shell sets for a server must not change what is measured.
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.as_encoded_bytes().starts_with(b"MILLPOND_")) {
            command.env_remove(name);
        }
        place(&mut command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.with_context(|| format!("cannot run {}", binary.display()))?;
        let mut server = Self { child, url: String::new() };
        let stdout = server.child.stdout.take().context("stdout is a pipe")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("cannot read what the server says")?;
        let Some(url) = line.trim_end().strip_prefix(READY) else {
            bail!("the server ended before it was ready");
        };
        url.clone_into(&mut server.url);
        Ok(server)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in order and waits until it has ended.
    ///
    /// # Errors
    /// It cannot be told to, or waited for.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).context("stopping the server")?;
        self.child.wait().map(drop).context("waiting for the server")
    }

    /// Its process.
    pub fn processes(&self) -> Processes {
        Processes::One(self.child.id())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // If it has ended there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
