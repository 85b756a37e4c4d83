//! `millpond queue delete`, `purge`, `replay` and `redrive`: what touches many messages at once and cannot be taken back.

use std::time::SystemTime;

use clap::{Args, ValueEnum};
use millpond_client::{Client, DeleteQueue, ErrorCode, PurgeTarget, Queue, QueueStatus, Selection};
use serde_json::json;

use crate::commands::Common;
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::count_of;
use crate::{progress, value};

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Id or name of the queue
    queue: String,

    /// Only if the queue has this etag
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,

    /// A queue that is not there is no error
    #[arg(long)]
    allow_missing: bool,

    /// Also if other queues' dead letters go to it
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Delete {
    pub(super) async fn run(&self) -> Outcome {
        let what = format!("delete queue {}", self.queue);
        if !self.allow_missing {
            self.confirm.check(&what)?;
        }
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        if !self.confirm.is_given() {
            match client.get_queue(&self.queue).await {
                Ok(Queue { status, .. }) => {
                    self.confirm.check(&what)?;
                    let held = count_of(status.unfinished_count() + status.dead_letter_count, "message");
                    self.confirm.ask(&what, &format!("Delete queue {} with {held}?", self.queue)).await?;
                }
                // Nothing is lost, so there is nothing to ask.
                Err(error) if self.allow_missing && error.code() == Some(&ErrorCode::QueueNotFound) => {
                    return self.tell();
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let how = DeleteQueue {
            etag: self.etag.clone(),
            allow_missing: self.allow_missing,
            force: self.force,
            validate_only: false,
        };
        client.delete_queue(&self.queue, &how).await.map_err(failed)?;
        self.tell()
    }

    fn tell(&self) -> Outcome {
        let answer = json!({ "queue": self.queue, "deleted": true });
        self.common.format.show(&answer, || format!("deleted queue {}", self.queue))?;
        Ok(Exit::Done)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    /// Ready and delayed messages
    Waiting,
    /// Messages out of attempts
    DeadLetters,
    /// Both
    All,
}

impl Target {
    fn count(self, status: &QueueStatus) -> u64 {
        match self {
            Target::Waiting => waiting(status),
            Target::DeadLetters => status.dead_letter_count,
            Target::All => waiting(status) + status.dead_letter_count,
        }
    }
}

fn waiting(status: &QueueStatus) -> u64 {
    status.ready_count + status.delayed_count
}

#[derive(Debug, Args)]
pub(crate) struct Purge {
    /// Id or name of the queue
    queue: String,

    /// What to remove
    #[arg(long, value_enum, default_value_t = Target::Waiting)]
    target: Target,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Purge {
    pub(super) async fn run(&self) -> Outcome {
        let what = format!("purge queue {}", self.queue);
        self.confirm.check(&what)?;
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        let question = |queue: &Queue| {
            let count = count_of(self.target.count(&queue.status), "message");
            format!("Remove {count} from queue {}?", self.queue)
        };
        ask_about(&client, &self.queue, self.confirm, &what, question).await?;
        let target = match self.target {
            Target::Waiting => PurgeTarget::Waiting,
            Target::DeadLetters => PurgeTarget::DeadLetters,
            Target::All => PurgeTarget::All,
        };
        let call = client.purge_queue(&self.queue, target);
        let left = |status: &QueueStatus| self.target.count(status);
        let count = progress::while_counting(&client, &self.queue, "purging", left, call).await;
        let count = count.map_err(failed)?;
        let answer = json!({ "purged_count": count.to_string() });
        self.common.format.show(&answer, || format!("removed {}", count_of(count, "message")))?;
        Ok(Exit::Done)
    }
}

/// Asks whether to do it, unless that was said beforehand. The question tells how the queue stands.
async fn ask_about(
    client: &Client,
    queue: &str,
    confirm: Confirm,
    what: &str,
    question: impl FnOnce(&Queue) -> String,
) -> Outcome<()> {
    if confirm.is_given() {
        return Ok(());
    }
    let queue = client.get_queue(queue).await.map_err(|error| Failure::call(what, &error))?;
    confirm.ask(what, &question(&queue)).await
}

/// Which dead letters are meant; all of them unless something is given.
#[derive(Debug, Args)]
struct Which {
    /// Only this message; can be repeated, up to 100 times
    #[arg(long = "message", value_name = "MESSAGE_ID")]
    messages: Vec<String>,

    /// Only those that died at or after this time (2026-10-07T12:30:00Z), or so long ago at most (2h)
    #[arg(long, value_name = "TIME", value_parser = value::moment)]
    since: Option<SystemTime>,

    /// Only those that died before this time, or longer ago than this
    #[arg(long, value_name = "TIME", value_parser = value::moment)]
    until: Option<SystemTime>,
}

impl Which {
    fn selection(&self) -> Selection {
        Selection {
            start_time: self.since,
            end_time: self.until,
            message_ids: (!self.messages.is_empty()).then(|| self.messages.clone()),
        }
    }

    /// How many there are, for the question.
    fn describe(&self, queue: &Queue) -> String {
        if !self.messages.is_empty() {
            return count_of(self.messages.len() as u64, "dead letter");
        }
        let all = count_of(queue.status.dead_letter_count, "dead letter");
        let is_all = self.since.is_none() && self.until.is_none();
        if is_all { all } else { format!("those of {all} that died in this time") }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Id or name of the queue
    queue: String,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Replay {
    pub(super) async fn run(&self) -> Outcome {
        let what = format!("replay dead letters of queue {}", self.queue);
        self.confirm.check(&what)?;
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        let question = |queue: &Queue| {
            format!("Make {} of queue {} ready again?", self.which.describe(queue), self.queue)
        };
        ask_about(&client, &self.queue, self.confirm, &what, question).await?;
        let selection = self.which.selection();
        let call = client.replay(&self.queue, &selection);
        let left = |status: &QueueStatus| status.dead_letter_count;
        let count = progress::while_counting(&client, &self.queue, "replaying", left, call).await;
        let count = count.map_err(failed)?;
        let answer = json!({ "replayed_count": count.to_string() });
        self.common
            .format
            .show(&answer, || format!("made {} ready again", count_of(count, "dead letter")))?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Redrive {
    /// Id or name of the queue that holds the dead letters
    queue: String,

    /// Where they go; without it, each to the queue that it came from
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Redrive {
    pub(super) async fn run(&self) -> Outcome {
        let what = format!("redrive dead letters of queue {}", self.queue);
        self.confirm.check(&what)?;
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        let question = |queue: &Queue| {
            let to = self.to.as_deref().unwrap_or("the queues they came from");
            // A queue that takes others' dead letters holds them as ordinary messages, which no count tells apart.
            let which = match (queue.status.dead_letter_count, self.which.messages.is_empty()) {
                (0, true) => "dead letters".to_owned(),
                _ => self.which.describe(queue),
            };
            format!("Move {which} of queue {} to {to}?", self.queue)
        };
        ask_about(&client, &self.queue, self.confirm, &what, question).await?;
        let selection = self.which.selection();
        let call = client.redrive(&self.queue, self.to.as_deref(), &selection);
        let left = |status: &QueueStatus| waiting(status) + status.dead_letter_count;
        let moved = progress::while_counting(&client, &self.queue, "redriving", left, call).await;
        let moved = moved.map_err(failed)?;
        self.common.format.show(&moved, || {
            let done = format!("moved {}", count_of(moved.redriven_count, "message"));
            match moved.skipped_count {
                0 => done,
                skipped => format!("{done}, skipped {skipped} without a home (give one with --to QUEUE)"),
            }
        })?;
        Ok(Exit::Done)
    }
}
