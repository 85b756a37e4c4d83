//! `millpond deploy`: from a project directory to the triggers of a deployment.

mod app;
mod files;
mod group_name;
mod plan;
mod policy;
mod project;
mod pyproject;
mod python;
mod route;
mod show;
mod source;
mod topic;
mod vercel_json;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use millpond_client::ErrorCode;

use self::app::App;
use self::plan::{Plan, Trigger};
use self::project::{Found, Project};
use super::Common;
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{count_of, print, tell};

/// Bytes of a deployment's id, as on the server: its triggers are called after it.
const DEPLOYMENT_BYTES_MAX: usize = 250;
const DEPLOYMENT: &str = "1 to 250 of A-Z, a-z, 0-9, _ and -";
/// The longest time that a push can hold a message, as on Vercel's wire.
const LEASE_SECONDS_MAX: u32 = 3_600;

#[derive(Debug, Args)]
pub(crate) struct Deploy {
    /// The project: the directory of its vercel.json or pyproject.toml
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Where the app answers; for one service of vercel.json SERVICE=URL; can be repeated
    #[arg(long = "app", required = true, value_name = "[SERVICE=]URL", value_parser = app::app)]
    apps: Vec<App>,

    /// What the deployment is called: 1 to 250 of A-Z, a-z, 0-9, _ and -
    #[arg(long, env = "VERCEL_DEPLOYMENT_ID", value_name = "ID")]
    deployment: Option<String>,

    /// Python with the packages of the app [default: .venv/bin/python of the project, else python3]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// Where the app takes messages for its Python subscribers
    #[arg(long, default_value = "/", value_name = "PATH", value_parser = app::path)]
    subscriber_path: String,

    /// How long a push holds its message, in whole seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=i64::from(LEASE_SECONDS_MAX)))]
    lease: u32,

    /// The queue that takes messages which are out of deliveries
    #[arg(long, value_name = "QUEUE")]
    dead_letter_queue: Option<String>,

    /// Show what would be registered, and stop
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Deploy {
    pub(crate) async fn run(&self) -> Outcome {
        let what = format!("deploy {}", self.directory.display());
        if !self.dry_run {
            self.confirm.check(&what)?;
        }
        let plan = self.plan(&what).await?;
        if self.dry_run {
            self.common.format.show(&show::object(&plan, None, false), || show::table(&plan, None))?;
            return Ok(Exit::Done);
        }
        self.register(&plan, &what).await
    }

    async fn register(&self, plan: &Plan, what: &str) -> Outcome {
        let client = self.common.client()?;
        let failed = |error| Failure::call(what, &error);
        let current = match client.deployments().get(&plan.deployment).await {
            Ok(deployment) => deployment.triggers.iter().map(Trigger::of).collect(),
            Err(error) if error.code() == Some(&ErrorCode::DeploymentNotFound) => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let triggers: Vec<_> = plan.planned.iter().map(|one| one.trigger.to_new()).collect();
        // What the server refuses is told before anybody is asked.
        client.deployments().deploy(&plan.deployment, &triggers, true).await.map_err(failed)?;
        if !self.confirm.is_given() {
            print(&show::table(plan, Some(&current)))?;
            let count = count_of(triggers.len() as u64, "trigger");
            self.confirm.ask(what, &format!("Register {count} for deployment {}?", plan.deployment)).await?;
        }
        client.deployments().deploy(&plan.deployment, &triggers, false).await.map_err(failed)?;
        let shown =
            || format!("{}\nregistered, and the current deployment", show::table(plan, Some(&current)));
        self.common.format.show(&show::object(plan, Some(&current), true), shown)?;
        Ok(Exit::Done)
    }

    async fn plan(&self, what: &str) -> Outcome<Plan> {
        let deployment = self.deployment(what)?;
        let project = Project {
            directory: &self.directory,
            apps: &self.apps,
            deployment,
            python: self.python.as_deref(),
            subscriber_path: &self.subscriber_path,
            lease: Duration::from_secs(u64::from(self.lease)),
            dead_letter_queue: self.dead_letter_queue.as_deref(),
        };
        let Found { planned, notes } = project.read().await?;
        notes.iter().for_each(|note| tell(note));
        Plan::of(deployment, planned)
    }

    /// A default would have the next deployment take the place of this one unasked.
    fn deployment(&self, what: &str) -> Outcome<&str> {
        let advice = "name one with --deployment ID or VERCEL_DEPLOYMENT_ID, the same that the app sends and reads with";
        match self.deployment.as_deref() {
            Some(id) if topic::is_name(id) && id.len() <= DEPLOYMENT_BYTES_MAX => Ok(id),
            Some(id) => {
                let why = format!("the deployment is called {id:?}, expected {DEPLOYMENT}");
                Err(Failure::usage(format!("cannot {what}"), why).advise(advice))
            }
            None => {
                Err(Failure::usage(format!("cannot {what}"), "the deployment has no name").advise(advice))
            }
        }
    }
}
