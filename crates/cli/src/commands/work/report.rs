//! What `work` tells while it works: a line of JSON for each message that is settled, or what went wrong and a bar.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use millpond_client::{CancellationToken, WorkerEvent};
use serde::Serialize;

use super::child::Ended;
use crate::exit::{Failure, Outcome};
use crate::output::{print_json, tell};
use crate::progress;

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    message_id: &'a str,
    outcome: &'static str,
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

pub(super) struct Report {
    queue: String,
    json: bool,
    bar: Option<ProgressBar>,
    /// Nobody reads the lines any more: the work ends.
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Exit codes of commands whose messages are being settled.
    codes: HashMap<String, Option<i32>>,
    failure: Option<Failure>,
}

impl Report {
    /// With `total`, so many messages are to be done.
    pub(super) fn new(queue: &str, json: bool, total: Option<u64>, stop: CancellationToken) -> Self {
        let bar = total.map(progress::of_messages);
        Self { queue: queue.to_owned(), json, bar, stop, state: Mutex::default() }
    }

    /// A command has ended.
    pub(super) fn ended(&self, message_id: String, ended: &Ended) {
        self.state().codes.insert(message_id, ended.code);
    }

    pub(super) fn event(&self, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Acked { message_id } => {
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                    bar.set_length(bar.length().unwrap_or(0).max(bar.position()));
                }
                self.line(message_id, "acked", None);
            }
            WorkerEvent::Nacked { message_id, reason } => {
                self.say(&format!("{message_id}: {reason}"));
                self.line(message_id, "nacked", Some(reason));
            }
            WorkerEvent::Lost { message_id } => {
                let reason = "its lease was lost: it ran out, or somebody else settled the message";
                self.say(&format!("{message_id}: {reason}"));
                self.line(message_id, "lost", Some(reason));
            }
            WorkerEvent::Paused => {
                let queue = &self.queue;
                self.say(&format!(
                    "{queue} is paused; `millpond queue resume {queue}` lets it deliver again"
                ));
            }
            WorkerEvent::Trouble { error } => self.say(&error.to_string()),
            _ => {}
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// What kept the lines from being written.
    pub(super) fn failure(&self) -> Outcome<()> {
        self.state().failure.take().map_or(Ok(()), Err)
    }

    fn line(&self, message_id: &str, outcome: &'static str, reason: Option<&str>) {
        let exit_code = self.state().codes.remove(message_id).flatten();
        if !self.json {
            return;
        }
        if let Err(failure) = print_json(&Line { message_id, outcome, exit_code, reason }) {
            self.state().failure.get_or_insert(failure);
            self.stop.cancel();
        }
    }

    fn say(&self, text: &str) {
        let write = || tell(&format!("millpond: {text}"));
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
