//! Recovery to a point in time: a base backup, an archive of the log, and a cluster that is put back to where it was.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::{Cluster, copy};

/// A copy of the data of a server that ran, and the log from there on.
#[derive(Debug)]
pub struct Base {
    data: PathBuf,
}

/// A moment to which a cluster can go back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moment {
    name: String,
}

impl Cluster {
    /// Makes a cluster that archives its log, and starts it.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_archived() -> anyhow::Result<Self> {
        let mut own = Self::without_data(&[("archive_mode", "on")])?;
        let archive = own.archive();
        fs::create_dir(&archive).context("the archive cannot be made")?;
        if let Some(account) = own.installation.account {
            account.give(&archive).context("the archive cannot be given away")?;
        }
        own.settings.push(("archive_command".to_owned(), format!("cp %p {}/%f", archive.display())));
        own.initialize()?;
        own.run_on_free_port()?;
        Ok(own)
    }

    /// Copies the data of the running server, as `pg_basebackup` does.
    ///
    /// # Errors
    /// The server does not run, or refuses.
    pub fn base_backup(&self) -> anyhow::Result<Base> {
        let data = self.directory.join(crate::unique_name());
        self.copy_running(&data)?;
        Ok(Base { data })
    }

    /// Names the present moment.
    ///
    /// # Errors
    /// The server does not run, or refuses.
    pub fn name_moment(&self) -> anyhow::Result<Moment> {
        let name = crate::unique_name();
        self.sql("postgres", &format!("select pg_create_restore_point('{name}')"))?;
        Ok(Moment { name })
    }

    /// Stops the server and has it come back, on the same port, as it was at a moment: on a timeline of its own.
    ///
    /// # Errors
    /// The server does not run, or the moment is not in the archive.
    pub fn go_back(&mut self, base: &Base, to: &Moment) -> anyhow::Result<()> {
        // The archive gets whole files only; what is in the last one is wanted.
        self.sql("postgres", "select pg_switch_wal()")?;
        self.stop()?;
        fs::remove_dir_all(self.data_dir()).context("the data cannot be removed")?;
        copy(&base.data, &self.data_dir())?;
        fs::write(self.data_dir().join("recovery.signal"), "").context("recovery cannot be asked for")?;
        let restore = format!("cp {}/%f %p", self.archive().display());
        let settings = [
            ("restore_command", restore.as_str()),
            ("recovery_target_name", &to.name),
            ("recovery_target_action", "promote"),
        ];
        self.run_with(&settings)?;
        let rows = self.sql("postgres", "select pg_is_in_recovery()")?;
        ensure!(rows == [[Some("f".to_owned())]], "it goes on as it was: {rows:?}");
        Ok(())
    }

    /// The same under a running server, as `pg_basebackup` does it.
    pub(super) fn copy_running(&self, to: &std::path::Path) -> anyhow::Result<()> {
        let mut program = self.installation.command("pg_basebackup");
        program.current_dir(&self.directory).arg("--pgdata").arg(to).args(["--wal-method", "stream"]);
        program.args(["--checkpoint", "fast", "--no-sync", "--host", "127.0.0.1", "--username", super::ROLE]);
        let output = program.args(["--port", &self.port.to_string()]).output();
        let output = output.with_context(|| format!("{program:?} cannot be run"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pg_basebackup has failed: {said}");
        Ok(())
    }

    fn archive(&self) -> PathBuf {
        self.directory.join("archive")
    }
}
