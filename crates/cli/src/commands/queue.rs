//! `millpond queue`: queues as resources, and what is done to all that is in one.

mod bulk;
mod create;
mod show;
mod update;

use clap::Subcommand;
use millpond_client::QueueSpec;
use serde_json::{Map, Value};

use crate::exit::{Failure, Outcome};
use crate::value::Assignment;

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Make a queue
    Create(create::Create),
    /// Delete a queue and all that is in it
    Delete(bulk::Delete),
    /// List the queues of an environment, with their counts
    List(show::List),
    /// Stop handing messages out
    Pause(show::Pause),
    /// Remove the messages that wait, the dead ones, or both; what is leased stays
    Purge(bulk::Purge),
    /// Move dead letters to another queue, or back to those they came from
    Redrive(bulk::Redrive),
    /// Make dead letters ready again where they are
    Replay(bulk::Replay),
    /// Hand messages out again
    Resume(show::Resume),
    /// Show a queue: policies, counts, and why nothing is delivered
    Show(show::Show),
    /// Change a queue's policies or labels
    Update(update::Update),
}

impl QueueCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            QueueCommand::Create(command) => command.run().await,
            QueueCommand::Delete(command) => command.run().await,
            QueueCommand::List(command) => command.run().await,
            QueueCommand::Pause(command) => command.run().await,
            QueueCommand::Purge(command) => command.run().await,
            QueueCommand::Redrive(command) => command.run().await,
            QueueCommand::Replay(command) => command.run().await,
            QueueCommand::Resume(command) => command.run().await,
            QueueCommand::Show(command) => command.run().await,
            QueueCommand::Update(command) => command.run().await,
        }
    }
}

/// A spec from its fields. A value of the wrong kind is refused here, with its field; ranges are the server's matter.
fn spec_of(fields: Map<String, Value>) -> Outcome<QueueSpec> {
    for (name, value) in &fields {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        if let Err(error) = serde_json::from_value::<QueueSpec>(Value::Object(alone)) {
            let what = format!("cannot set {name} to {value}");
            return Err(Failure::usage(what, error.to_string()).advise("docs/queues.md lists every field"));
        }
    }
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| Failure::usage("cannot read the policies", error.to_string()))
}

/// Carries out all assignments on an object.
fn apply_all(assignments: &[Assignment], fields: &mut Map<String, Value>) {
    for assignment in assignments {
        assignment.apply(fields);
    }
}
