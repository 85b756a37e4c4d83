//! A standby: a cluster that follows another one until it is promoted.

use anyhow::{Context as _, ensure};

use super::{Cluster, copy};

impl Cluster {
    /// Makes a cluster that follows this one under a name, through this port, and can be read from.
    ///
    /// # Errors
    /// This one does not run, or refuses.
    pub fn standby(&self, name: &str, port: u16) -> anyhow::Result<Self> {
        let follow = format!(
            "host=127.0.0.1 port={port} user={} sslmode=disable gssencmode=disable application_name={name}",
            super::ROLE
        );
        let mut own = Self::without_data(&[("primary_conninfo", &follow)])?;
        let copied = self.directory.join(crate::unique_name());
        self.copy_running(&copied)?;
        copy(&copied, &own.data_dir())?;
        std::fs::write(own.data_dir().join("standby.signal"), "").context("it cannot be made a standby")?;
        own.is_standby = true;
        own.run_on_free_port()?;
        Ok(own)
    }

    /// A copy of this one's data, taken while it runs, as a cluster of its own: the same system, another place.
    ///
    /// # Errors
    /// This one does not run, or refuses.
    pub fn twin(&self) -> anyhow::Result<Self> {
        let mut own = Self::without_data(&[])?;
        let copied = self.directory.join(crate::unique_name());
        self.copy_running(&copied)?;
        copy(&copied, &own.data_dir())?;
        own.run_on_free_port()?;
        Ok(own)
    }

    /// Stops the server and has it come back on a timeline of its own, as after a failover; nothing is lost.
    ///
    /// # Errors
    /// It does not run.
    pub fn raise_timeline(&mut self) -> anyhow::Result<()> {
        self.stop()?;
        std::fs::write(self.data_dir().join("standby.signal"), "").context("it cannot be made a standby")?;
        self.is_standby = true;
        self.run()?;
        self.promote()
    }

    /// Dumps a database and loads that into one that is made for it, here or in another cluster.
    ///
    /// # Errors
    /// One of the servers does not run, or refuses.
    pub fn load_dump(&self, database: &str, into: &Self, name: &str) -> anyhow::Result<()> {
        into.create_database(name)?;
        let dump = self.directory.join(crate::unique_name());
        for (program, url, file) in
            [("pg_dump", self.url(database), "--file"), ("psql", into.url(name), "--file")]
        {
            let mut command = self.installation.command(program);
            command.current_dir(&self.directory).arg("--dbname").arg(url).arg(file).arg(&dump);
            command.args((program == "psql").then_some("--set=ON_ERROR_STOP=1"));
            let output = command.output().with_context(|| format!("{program} cannot be run"))?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{program} has failed: {said}");
        }
        Ok(())
    }

    /// Makes a primary of a standby, and waits until it is.
    ///
    /// # Errors
    /// It is none.
    pub fn promote(&mut self) -> anyhow::Result<()> {
        let rows = self.sql("postgres", "select pg_promote()")?;
        ensure!(rows == [[Some("t".to_owned())]], "it is not promoted: {rows:?}");
        self.is_standby = false;
        Ok(())
    }
}
