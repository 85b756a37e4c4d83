//! `millpond backup`: copies of environments, by the server that has them open, or of a directory that nobody serves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use millpond_client::backups::{BackedUpEnvironment, Backup as Answered, BackupState};
use millpond_client::{Client, Error};
use millpond_store::{BackedUp, RowKind, StoreError};
use serde::Serialize;

use super::offline::{environment_name, store_failure};
use crate::connection::DEFAULT_URL;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Table, print, print_json};
use crate::{progress, wiring};

/// How often a server is asked how far it is.
const LOOK: Duration = Duration::from_millis(200);

const WHAT: &str = "make a backup";

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Back up this directory, which no server serves; unless given, a server is asked
    #[arg(long, value_name = "DIR", requires = "to")]
    data_dir: Option<PathBuf>,

    /// Where to, a directory that is not there yet; a server makes its backups where it was told to (--backup-dir)
    #[arg(long, value_name = "DIR", requires = "data_dir")]
    to: Option<PathBuf>,

    /// Address of the server
    #[arg(long, env = "MILLPOND_URL", default_value = DEFAULT_URL, value_name = "URL")]
    server: String,

    /// Back up this environment, as orgs/ORG/projects/PROJECT/envs/ENV; can be repeated [default: all]
    #[arg(long = "environment", value_name = "NAME", value_parser = environment_name)]
    environments: Vec<String>,

    #[command(flatten)]
    format: Format,
}

/// What was made.
#[derive(Serialize)]
struct Made {
    directory: String,
    environments: Vec<BackedUpEnvironment>,
}

impl Backup {
    pub(crate) async fn run(&self) -> Outcome {
        let made = match (&self.data_dir, &self.to) {
            (Some(from), Some(to)) => self.of_directory(from, to)?,
            _ => self.by_server().await?,
        };
        if self.format.json {
            print_json(&made)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["ENVIRONMENT", "QUEUES", "DELIVERIES", "BYTES"]);
        for of in &made.environments {
            let counts = [of.queue_count, of.delivery_count, of.bytes].map(|count| count.to_string());
            table.row(std::iter::once(of.name.clone()).chain(counts));
        }
        print(&format!("{}\n{}", made.directory, table.render()))?;
        Ok(Exit::Done)
    }

    fn of_directory(&self, from: &Path, to: &Path) -> Outcome<Made> {
        let failed = |error: StoreError| store_failure(WHAT, &error);
        let directory = wiring::open_directory(from).map_err(failed)?;
        let mut backup = wiring::begin_backup(&directory, to).map_err(failed)?;
        let known = backup.environments().map_err(failed)?;
        if let Some(name) = self.environments.iter().find(|name| !known.contains(name)) {
            return Err(Failure::new(
                Exit::Refused,
                format!("cannot {WHAT}"),
                format!("there is no environment {name}"),
            )
            .detail(known)
            .advise("name one of those above, or none for all"));
        }
        let names = if self.environments.is_empty() { &known } else { &self.environments };
        let bar = progress::of_pages();
        let mut environments = Vec::new();
        for name in names {
            bar.set_message(name.clone());
            let mut show = |copy: millpond_store::CopyProgress| show(&bar, copy.pages, copy.pages_left);
            backup.copy_closed(name, &mut show).map_err(failed)?;
            environments.push(told(backup.add(name).map_err(failed)?));
        }
        backup.finish().map_err(failed)?;
        bar.finish_and_clear();
        Ok(Made { directory: to.display().to_string(), environments })
    }

    async fn by_server(&self) -> Outcome<Made> {
        let failed = |error: &Error| Failure::call(WHAT, error);
        let client = Client::new(&self.server).map_err(|error| failed(&error))?;
        let mut backup = client.begin_backup(&self.environments).await.map_err(|error| failed(&error))?;
        let bar = progress::of_pages();
        while backup.state == BackupState::Running {
            if let Some(progress) = &backup.progress {
                bar.set_message(progress.environment.clone());
                show(&bar, progress.pages, progress.pages_left);
            }
            tokio::time::sleep(LOOK).await;
            backup = client.backup(&backup.name).await.map_err(|error| failed(&error))?;
        }
        bar.finish_and_clear();
        let Answered { directory, environments, error, .. } = backup;
        match error {
            None => Ok(Made { directory, environments }),
            Some(error) => Err(Failure::new(Exit::Refused, format!("cannot {WHAT}"), error)
                .advise("the server's log may say more; nothing of the backup is left")),
        }
    }
}

fn show(bar: &ProgressBar, pages: u64, left: u64) {
    bar.set_length(pages);
    bar.set_position(pages.saturating_sub(left));
}

fn told(of: BackedUp) -> BackedUpEnvironment {
    BackedUpEnvironment {
        queue_count: of.counts.of(RowKind::Queue),
        delivery_count: of.counts.of(RowKind::Delivery),
        bytes: of.bytes,
        name: of.environment,
    }
}
