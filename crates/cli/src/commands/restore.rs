//! `millpond restore`: puts environments of a backup into a data directory that nobody serves.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use millpond_core::id::Incarnation;
use millpond_core::time::Timestamp;
use millpond_store::{BackedUp, RowKind, StoreError, StoreFactory as _};
use serde::Serialize;

use super::offline::{environment_name, store_failure};
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Table, count_of, print, print_json, tell};
use crate::value::moment;
use crate::{progress, wiring};

const WHAT: &str = "restore a backup";

/// Generations of leases stay below 2^53 with incarnations below this one, which a clock reaches in 2054.
const INCARNATIONS_MAX: u64 = 1 << 33;

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup, as `millpond backup` made it
    #[arg(long, value_name = "DIR")]
    from: PathBuf,

    /// Where to: the directory of the data, made if there is none; no server serves it
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// Restore this environment, as orgs/ORG/projects/PROJECT/envs/ENV; can be repeated [default: all that are in the backup]
    #[arg(long = "environment", value_name = "NAME", value_parser = environment_name)]
    environments: Vec<String>,

    /// No lease that was given until then, by whatever clock, is taken for one that is given from now on; needed only
    /// if a clock stood ahead of the one that there is now
    #[arg(long, value_name = "TIME", value_parser = moment)]
    after: Option<SystemTime>,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    format: Format,
}

/// What was restored.
#[derive(Serialize)]
struct Restored {
    data_dir: String,
    environments: Vec<RestoredEnvironment>,
}

#[derive(Serialize)]
struct RestoredEnvironment {
    name: String,
    /// There was one of this name, which is gone.
    replaced: bool,
    queue_count: String,
    delivery_count: String,
}

impl Restore {
    pub(crate) async fn run(&self) -> Outcome {
        let failed = |error: StoreError| store_failure(WHAT, &error);
        let after = self.after.map(incarnation).transpose()?.unwrap_or_default();
        let backup = wiring::open_backup(&self.from).map_err(failed)?;
        let held: Vec<&BackedUp> = backup.environments().collect();
        let names: Vec<String> = if self.environments.is_empty() {
            held.iter().map(|of| of.environment.clone()).collect()
        } else {
            self.environments.clone()
        };
        if let Some(name) = names.iter().find(|name| !held.iter().any(|of| of.environment == **name)) {
            let why = format!("{} does not hold {name}", self.from.display());
            let known = held.iter().map(|of| of.environment.clone());
            return Err(Failure::new(Exit::Refused, format!("cannot {WHAT}"), why)
                .detail(known)
                .advise("name one of those above, or none for all"));
        }
        let directory = wiring::make_directory(&self.data_dir).map_err(failed)?;
        let mut there = Vec::new();
        for name in &names {
            if directory.has_environment(name).map_err(failed)? {
                there.push(name.clone());
            }
        }
        self.confirm_replacing(&there).await?;
        let bar = progress::of_environments(names.len());
        let done = |of: &BackedUp| {
            bar.set_message(of.environment.clone());
            bar.inc(1);
        };
        directory.restore(&backup, &names, after, done).map_err(failed)?;
        bar.finish_and_clear();
        let environments = held.into_iter().filter(|of| names.contains(&of.environment));
        self.show(environments.map(|of| told(of, &there)).collect())
    }

    /// Says what is there, and asks.
    async fn confirm_replacing(&self, there: &[String]) -> Outcome<()> {
        if there.is_empty() || self.confirm.is_given() {
            return Ok(());
        }
        let what = "restore over environments that are there";
        self.confirm.check(what).map_err(|failure| failure.detail(there.to_vec()))?;
        there.iter().for_each(|name| tell(name));
        let count = count_of(there.len() as u64, "environment");
        self.confirm.ask(what, &format!("Replace {count} with what the backup holds?")).await
    }

    fn show(&self, environments: Vec<RestoredEnvironment>) -> Outcome {
        if self.format.json {
            print_json(&Restored { data_dir: self.data_dir.display().to_string(), environments })?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["ENVIRONMENT", "QUEUES", "DELIVERIES", "BEFORE"]);
        for of in environments {
            let before = if of.replaced { "replaced" } else { "was not there" };
            table.row([of.name, of.queue_count, of.delivery_count, before.to_owned()]);
        }
        print(&table.render())?;
        Ok(Exit::Done)
    }
}

fn told(of: &BackedUp, there: &[String]) -> RestoredEnvironment {
    RestoredEnvironment {
        name: of.environment.clone(),
        replaced: there.contains(&of.environment),
        queue_count: of.counts.of(RowKind::Queue).to_string(),
        delivery_count: of.counts.of(RowKind::Delivery).to_string(),
    }
}

/// The incarnation of that time. The first opening takes one above it.
fn incarnation(after: SystemTime) -> Outcome<Incarnation> {
    let millis = after.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let incarnation =
        Incarnation::by_clock(Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)));
    if incarnation.0 >= INCARNATIONS_MAX {
        let why = format!("{} is too far ahead", humantime::format_rfc3339_seconds(after));
        return Err(Failure::usage(format!("cannot {WHAT}"), why).advise("give --after a time before 2054"));
    }
    Ok(incarnation)
}
