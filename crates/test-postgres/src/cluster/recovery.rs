//! Recovery to a point in time: a base backup, an archive of the log, and a cluster that is put back to where it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

    /// Copies the data of the running server, as `pg_basebackup` does it.
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

    /// The same under a running server, with what PostgreSQL has for those who copy files.
    pub(super) fn copy_running(&self, to: &Path) -> anyhow::Result<()> {
        std::thread::scope(|scope| {
            let copied = scope.spawn(|| self.copy_in_session(to)).join();
            copied.unwrap_or_else(|_| anyhow::bail!("the client panicked over a copy of the data"))
        })
    }

    /// In one session, with which the copy is over.
    fn copy_in_session(&self, to: &Path) -> anyhow::Result<()> {
        let mut client = postgres::Client::connect(&self.url("postgres"), postgres::NoTls)?;
        let rows = client.query("select current_setting('server_version_num')::int >= 150000", &[])?;
        let (begin, end) = match rows.first().is_some_and(|row| row.get(0)) {
            true => ("select pg_backup_start('copy', true)", "select labelfile from pg_backup_stop(false)"),
            false => (
                "select pg_start_backup('copy', true, false)",
                "select labelfile from pg_stop_backup(false, false)",
            ),
        };
        client.query(begin, &[])?;
        copy_while_written(&self.data_dir(), to)?;
        let label: String = client.query_one(end, &[])?.get(0);
        // All of the log that the copy needs is there now.
        fs::remove_dir_all(to.join("pg_wal")).context("the copied log cannot be removed")?;
        copy_while_written(&self.data_dir().join("pg_wal"), &to.join("pg_wal"))?;
        fs::remove_file(to.join("postmaster.pid")).context("the server's mark cannot be removed")?;
        let file = to.join("backup_label");
        fs::write(&file, label).context("the label cannot be written")?;
        match self.installation.account {
            Some(account) => account.give(&file).context("the label cannot be given away"),
            None => Ok(()),
        }
    }

    fn archive(&self) -> PathBuf {
        self.directory.join("archive")
    }
}

/// As `cp -a` does it. Files that vanish meanwhile are not needed.
fn copy_while_written(from: &Path, to: &Path) -> anyhow::Result<()> {
    let output = Command::new("cp").env("LC_ALL", "C").arg("-a").arg(from).arg(to).output();
    let output = output.context("cp cannot be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_gone = |line: &str| line.ends_with("No such file or directory");
    ensure!(
        output.status.success() || said.lines().all(is_gone),
        "{} cannot be copied: {said}",
        from.display()
    );
    Ok(())
}
