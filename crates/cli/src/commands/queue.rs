//! `millpond queue`: queues as resources, and what is done to all that is in one.

mod bulk;
mod create;
mod show;
mod update;

use clap::Subcommand;

use crate::exit::Outcome;

/// Queues, topics or groups asked for at once.
pub(super) const PAGE: u32 = 1_000;

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
