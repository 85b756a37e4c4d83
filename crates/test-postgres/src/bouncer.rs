//! PgBouncer between clients and a PostgreSQL.

use std::fs;
use std::process::Command;

use anyhow::Context as _;

use crate::account::Account;
use crate::cluster::free_port;
use crate::postmaster::Postmaster;

/// A PgBouncer of one's own, with its stock settings besides those that are given. Dropped, it is gone.
#[derive(Debug)]
pub struct Bouncer {
    process: Option<Postmaster>,
    directory: tempfile::TempDir,
    account: Option<Account>,
    port: u16,
}

impl Bouncer {
    /// Starts one that leads to this port of 127.0.0.1, for the role `postgres`.
    ///
    /// # Errors
    /// There is no PgBouncer, or it cannot be run.
    pub fn to(server: u16, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let (directory, account, port) = (tempfile::tempdir()?, Account::to_run_as()?, free_port()?);
        let mut text = format!(
            "[databases]\n* = host=127.0.0.1 port={server} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        );
        for (name, value) in settings {
            text.push_str(&format!("{name} = {value}\n"));
        }
        fs::write(directory.path().join("pgbouncer.ini"), text)?;
        if let Some(account) = account {
            account.give(directory.path())?;
        }
        let mut own = Self { process: None, directory, account, port };
        own.run()?;
        Ok(own)
    }

    /// Starts it again, on the same port.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn run(&mut self) -> anyhow::Result<()> {
        // It ends with the thread that began it, in whatever way that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "pgbouncer"]).arg(self.directory.path().join("pgbouncer.ini"));
        if let Some(account) = self.account {
            account.run(&mut command);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin"));
        let listens = format!("listening on 127.0.0.1:{}", self.port);
        let log = self.directory.path().join("log");
        let started = Postmaster::start(&mut command, &log, &listens);
        self.process = Some(started.with_context(|| fs::read_to_string(&log).unwrap_or_default())?);
        Ok(())
    }

    /// Ends it as a crash does (SIGKILL).
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process.take().context("it does not run")?.kill()
    }

    /// The URL of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.process.take().map(Postmaster::kill) {
            eprintln!("PgBouncer cannot be ended: {error:#}");
        }
    }
}
