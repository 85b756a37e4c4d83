//! What the command line takes. What a command takes by itself stands with the command.

use clap::{Parser, Subcommand};

use crate::commands::backup::Backup;
use crate::commands::completions::Completions;
use crate::commands::config::ConfigCommand;
use crate::commands::dead::DeadCommand;
use crate::commands::deploy::Deploy;
use crate::commands::deployment::DeploymentCommand;
use crate::commands::export::Export;
use crate::commands::group::GroupCommand;
use crate::commands::import::Import;
use crate::commands::lease::Lease;
use crate::commands::message::MessageCommand;
use crate::commands::peek::Peek;
use crate::commands::queue::QueueCommand;
use crate::commands::restore::Restore;
use crate::commands::send::Send;
use crate::commands::settle::{Ack, Extend, Nack};
use crate::commands::signing_secret::SigningSecretCommand;
use crate::commands::topic::TopicCommand;
use crate::commands::trigger::TriggerCommand;
use crate::commands::why::Why;
use crate::commands::work::Work;
use crate::serve_arguments::ServeArguments;

/// A durable queue server, and everything to work with its queues
#[derive(Debug, Parser)]
#[command(name = "millpond", version, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Settle leases: the work is done
    Ack(Ack),
    /// Copy environments, while a server runs or of a directory that nobody serves
    Backup(Backup),
    /// Measure what a server reaches on this machine
    Bench(millpond_load::Arguments),
    /// Print a script that completes this command line in a shell
    Completions(Completions),
    /// Settings of this program
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Dead letters of a queue
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Register the triggers of a project, so that messages are pushed to its app
    Deploy(Deploy),
    /// Triggers that were deployed together
    #[command(subcommand)]
    Deployment(DeploymentCommand),
    /// Write an environment as lines, for a store of any kind
    Export(Export),
    /// Have leases last longer
    Extend(Extend),
    /// Groups of a topic
    #[command(subcommand)]
    Group(GroupCommand),
    /// Fill an environment with what was exported
    Import(Import),
    /// Take messages
    Lease(Lease),
    /// One message
    #[command(subcommand)]
    Message(MessageCommand),
    /// Settle leases: the work failed, the messages come back
    Nack(Nack),
    /// Look at messages without taking them
    Peek(Peek),
    /// Queues
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Put environments of a backup into a directory that nobody serves
    Restore(Restore),
    /// Send messages
    Send(Send),
    /// Serve queues over HTTP from a data directory
    Serve(ServeArguments),
    /// What pushes are signed with
    #[command(subcommand)]
    SigningSecret(SigningSecretCommand),
    /// Topics
    #[command(subcommand)]
    Topic(TopicCommand),
    /// What pushes messages of topics to a URL
    #[command(subcommand)]
    Trigger(TriggerCommand),
    /// Say why a queue or a group delivers nothing, and what to do about it
    Why(Why),
    /// Run a command for each message
    Work(Work),
}
