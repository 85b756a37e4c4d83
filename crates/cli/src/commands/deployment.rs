//! `millpond deployment`: triggers that were deployed together.

use clap::{Args, Subcommand};
use millpond_client::{Deployment, ErrorCode};
use serde_json::json;

use super::{Common, trigger};
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Table, count_of, fields, print, print_json, tell, when};

#[derive(Debug, Subcommand)]
pub(crate) enum DeploymentCommand {
    /// List the deployments of an environment
    List(List),
    /// Remove a deployment with its triggers: nothing is pushed by them any more
    Remove(Remove),
    /// Show a deployment with its triggers
    Show(Show),
}

impl DeploymentCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            DeploymentCommand::List(command) => command.run().await,
            DeploymentCommand::Remove(command) => command.run().await,
            DeploymentCommand::Show(command) => command.run().await,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    common: Common,
}

impl List {
    async fn run(&self) -> Outcome {
        let deployments = self.common.client()?.deployments().list().await;
        let deployments = deployments.map_err(|error| Failure::call("list deployments", &error))?;
        if self.common.format.json {
            deployments.iter().try_for_each(print_json)?;
        } else if deployments.is_empty() {
            tell("no deployments");
        } else {
            let mut table = Table::new(&["DEPLOYMENT", "CURRENT", "TRIGGERS", "DEPLOYED"]);
            for deployment in &deployments {
                table.row([
                    deployment.deployment_id.clone(),
                    if deployment.current { "yes" } else { "" }.to_owned(),
                    deployment.triggers.len().to_string(),
                    when(deployment.create_time),
                ]);
            }
            print(&table.render())?;
        }
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id or name of the deployment
    deployment: String,

    #[command(flatten)]
    common: Common,
}

impl Show {
    async fn run(&self) -> Outcome {
        let deployment = self.common.client()?.deployments().get(&self.deployment).await;
        let what = format!("show deployment {}", self.deployment);
        let deployment = deployment.map_err(|error| Failure::call(&what, &error))?;
        self.common.format.show(&deployment, || describe(&deployment))?;
        Ok(Exit::Done)
    }
}

fn describe(deployment: &Deployment) -> String {
    let current = if deployment.current { "yes" } else { "no, another was deployed later" };
    let pairs = [
        ("name", deployment.name.clone()),
        ("current", current.to_owned()),
        ("deployed", when(deployment.create_time)),
    ];
    format!("{}\n\n{}", fields(&pairs), trigger::table(&deployment.triggers))
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Id or name of the deployment
    deployment: String,

    /// A deployment that is not there is no error
    #[arg(long)]
    allow_missing: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Remove {
    async fn run(&self) -> Outcome {
        let what = format!("remove deployment {}", self.deployment);
        if !self.allow_missing {
            self.confirm.check(&what)?;
        }
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        if !self.confirm.is_given() {
            match client.deployments().get(&self.deployment).await {
                Ok(Deployment { triggers, current, .. }) => {
                    self.confirm.check(&what)?;
                    let triggers = count_of(triggers.len() as u64, "trigger");
                    let which = if current { ", the current one," } else { "" };
                    let question = format!("Remove deployment {}{which} with {triggers}?", self.deployment);
                    self.confirm.ask(&what, &question).await?;
                }
                // Nothing is lost, so there is nothing to ask.
                Err(error) if self.allow_missing && error.code() == Some(&ErrorCode::DeploymentNotFound) => {
                    return self.tell();
                }
                Err(error) => return Err(failed(error)),
            }
        }
        client.deployments().delete(&self.deployment, self.allow_missing).await.map_err(failed)?;
        self.tell()
    }

    fn tell(&self) -> Outcome {
        let answer = json!({ "deployment": self.deployment, "removed": true });
        self.common.format.show(&answer, || format!("removed deployment {}", self.deployment))?;
        Ok(Exit::Done)
    }
}
