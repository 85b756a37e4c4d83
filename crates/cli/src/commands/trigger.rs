//! `millpond trigger`: what pushes messages of topics to a URL, for a group.

use std::time::Duration;

use clap::{Args, Subcommand};
use millpond_client::{ErrorCode, NewTrigger, PushCounts, PushRecord, Trigger};
use serde_json::{Value, json};

use super::Common;
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Table, fields, print, print_json, safe, tell, when};
use crate::value::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum TriggerCommand {
    /// Make a trigger
    Create(Create),
    /// Delete a trigger: nothing is pushed by it any more
    Delete(Delete),
    /// List the triggers of an environment, those of deployments too
    List(List),
    /// Show the last pushes of a trigger
    Pushes(Pushes),
    /// Show a trigger: what it pushes where to, and how it is doing
    Show(Show),
}

impl TriggerCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            TriggerCommand::Create(command) => command.run().await,
            TriggerCommand::Delete(command) => command.run().await,
            TriggerCommand::List(command) => command.run().await,
            TriggerCommand::Pushes(command) => command.run().await,
            TriggerCommand::Show(command) => command.run().await,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its id: 1 to 255 of A-Z, a-z, 0-9, _ and - [default: the server makes one]
    trigger: Option<String>,

    /// The id of the topic whose messages are pushed, or the start of such ids and a `*` behind it
    #[arg(long, value_name = "TOPIC")]
    topic: String,

    /// The id of the group that they are pushed for
    #[arg(long, value_name = "GROUP")]
    group: String,

    /// Where to: an http or https URL that the server may push to
    #[arg(long, value_name = "URL")]
    target: String,

    /// How long a message waits whose push failed [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retry_after: Option<Duration>,

    /// For how long nothing is pushed at first [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    initial_delay: Option<Duration>,

    /// After so many deliveries a message leaves the group [default: never]
    #[arg(long, value_name = "COUNT")]
    max_deliveries: Option<u32>,

    /// So many messages of the group in flight at once [default: no limit]
    #[arg(long, value_name = "COUNT")]
    max_concurrency: Option<u32>,

    /// Takes messages that are out of deliveries
    #[arg(long, value_name = "QUEUE")]
    dead_letter_queue: Option<String>,

    /// How long the lease of a push lasts [default: 300s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    visibility_timeout: Option<Duration>,

    /// Check everything and make nothing
    #[arg(long)]
    validate_only: bool,

    #[command(flatten)]
    common: Common,
}

impl Create {
    async fn run(&self) -> Outcome {
        let trigger = NewTrigger {
            topic: self.topic.clone(),
            group: self.group.clone(),
            target: self.target.clone(),
            retry_after: self.retry_after,
            initial_delay: self.initial_delay,
            max_deliveries: self.max_deliveries,
            max_concurrency: self.max_concurrency,
            dead_letter_queue: self.dead_letter_queue.clone(),
            visibility_timeout: self.visibility_timeout,
        };
        let client = self.common.client()?;
        let made = client.triggers().create(self.trigger.as_deref(), &trigger, self.validate_only).await;
        let called = self.trigger.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        let made = made.map_err(|error| Failure::call(&format!("make trigger{called}"), &error))?;
        let done = if self.validate_only { "could make" } else { "made" };
        self.common.format.show(&made, || format!("{done} trigger {}", made.trigger_id))?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    common: Common,
}

impl List {
    async fn run(&self) -> Outcome {
        let triggers = self.common.client()?.triggers().list().await;
        let triggers = triggers.map_err(|error| Failure::call("list triggers", &error))?;
        if self.common.format.json {
            triggers.iter().try_for_each(print_json)?;
        } else if triggers.is_empty() {
            tell("no triggers; make one with `millpond trigger create`");
        } else {
            print(&table(&triggers))?;
        }
        Ok(Exit::Done)
    }
}

/// Triggers, a row each.
pub(super) fn table(triggers: &[Trigger]) -> String {
    let mut table = Table::new(&["TRIGGER", "TOPIC", "GROUP", "TARGET", "STATE", "PUSHES", "NOT 2XX"]);
    for trigger in triggers {
        let count =
            |of: fn(&PushCounts) -> u64| trigger.pushes.as_ref().map(of).map(|count| count.to_string());
        table.row([
            trigger.trigger_id.clone(),
            trigger.topic.clone(),
            trigger.group.clone(),
            trigger.target.clone(),
            trigger.state.clone(),
            count(|pushes| pushes.total).unwrap_or_default(),
            count(|pushes| pushes.total.saturating_sub(pushes.succeeded)).unwrap_or_default(),
        ]);
    }
    table.render()
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id or name of the trigger
    trigger: String,

    #[command(flatten)]
    common: Common,
}

impl Show {
    async fn run(&self) -> Outcome {
        let trigger = self.common.client()?.triggers().get(&self.trigger).await;
        let trigger =
            trigger.map_err(|error| Failure::call(&format!("show trigger {}", self.trigger), &error))?;
        self.common.format.show(&trigger, || describe(&trigger))?;
        Ok(Exit::Done)
    }
}

/// Policies, by their names in JSON.
const POLICIES: [&str; 6] = [
    "retry_after",
    "initial_delay",
    "max_deliveries",
    "max_concurrency",
    "dead_letter_queue",
    "visibility_timeout",
];

fn describe(trigger: &Trigger) -> String {
    let current = if trigger.current { " (the current one)" } else { "" };
    let deployment = trigger.deployment.as_ref().map(|deployment| format!("{deployment}{current}"));
    let state = match (trigger.state.as_str(), &trigger.trouble) {
        ("starting", _) => format!("starting {}", when(trigger.starts_at)),
        (state, Some(trouble)) => format!(
            "{state} since {}: {}; tried again {}",
            when(trouble.since),
            safe(&trouble.error),
            when(trouble.next_try)
        ),
        (state, None) => state.to_owned(),
    };
    let mut pairs = vec![
        ("name", trigger.name.clone()),
        ("deployment", deployment.unwrap_or_default()),
        ("topic", trigger.topic.clone()),
        ("group", trigger.group.clone()),
        ("target", trigger.target.clone()),
        ("made", when(trigger.create_time)),
        ("state", state),
        ("pushes", trigger.pushes.as_ref().map(counts).unwrap_or_default()),
    ];
    let all = serde_json::to_value(trigger).expect("a trigger can be written as JSON");
    for name in POLICIES {
        match &all[name] {
            Value::Null => {}
            Value::String(text) => pairs.push((name, text.clone())),
            other => pairs.push((name, other.to_string())),
        }
    }
    fields(&pairs)
}

fn counts(pushes: &PushCounts) -> String {
    let counted = [
        (pushes.succeeded, "succeeded"),
        (pushes.failed, "failed"),
        (pushes.broken, "broken"),
        (pushes.gave_up, "without an answer"),
        (pushes.unreachable, "unreachable"),
        (pushes.unwritable, "unwritable"),
        (pushes.in_flight, "in flight"),
    ];
    let counted = counted.iter().filter(|(count, how)| *count > 0 || *how == "succeeded");
    let mut text = counted.map(|(count, how)| format!("{count} {how}")).collect::<Vec<_>>().join(", ");
    if let (Some(half), Some(most)) = (pushes.duration_p50_ms, pushes.duration_p99_ms) {
        text.push_str(&format!("; half within {half} ms, 99 of 100 within {most} ms"));
    }
    text
}

#[derive(Debug, Args)]
pub(crate) struct Pushes {
    /// Id or name of the trigger
    trigger: String,

    #[command(flatten)]
    common: Common,
}

impl Pushes {
    async fn run(&self) -> Outcome {
        let pushes = self.common.client()?.triggers().pushes(&self.trigger).await;
        let pushes = pushes.map_err(|error| {
            Failure::call(&format!("show the pushes of trigger {}", self.trigger), &error)
        })?;
        if self.common.format.json {
            pushes.last.iter().try_for_each(print_json)?;
        } else if pushes.pushes.is_none() {
            tell("this server does not push this trigger");
        } else if pushes.last.is_empty() {
            tell("nothing was pushed since the server was started");
        } else {
            print(&table_of_pushes(&pushes.last))?;
        }
        Ok(Exit::Done)
    }
}

fn table_of_pushes(pushes: &[PushRecord]) -> String {
    let mut table =
        Table::new(&["ENDED", "MESSAGE", "DELIVERY", "OUTCOME", "STATUS", "TOOK", "DATA", "ERROR"]);
    for push in pushes {
        table.row([
            humantime::format_rfc3339_millis(push.at).to_string(),
            push.message_id.clone(),
            push.delivery_count.to_string(),
            push.outcome.clone(),
            push.status.map(|status| status.to_string()).unwrap_or_default(),
            format!("{} ms", push.duration_ms),
            if push.inline { "inline" } else { "by id" }.to_owned(),
            push.error.clone().unwrap_or_default(),
        ]);
    }
    table.render()
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Id or name of the trigger
    trigger: String,

    /// A trigger that is not there is no error
    #[arg(long)]
    allow_missing: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Delete {
    async fn run(&self) -> Outcome {
        let what = format!("delete trigger {}", self.trigger);
        if !self.allow_missing {
            self.confirm.check(&what)?;
        }
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        if !self.confirm.is_given() {
            match client.triggers().get(&self.trigger).await {
                Ok(Trigger { topic, target, .. }) => {
                    self.confirm.check(&what)?;
                    let id = &self.trigger;
                    let question = format!(
                        "Delete trigger {id}, so that {} is pushed to {} no more?",
                        safe(&topic),
                        safe(&target)
                    );
                    self.confirm.ask(&what, &question).await?;
                }
                // Nothing is lost, so there is nothing to ask.
                Err(error) if self.allow_missing && error.code() == Some(&ErrorCode::TriggerNotFound) => {
                    return self.tell();
                }
                Err(error) => return Err(failed(error)),
            }
        }
        client.triggers().delete(&self.trigger, self.allow_missing).await.map_err(failed)?;
        self.tell()
    }

    fn tell(&self) -> Outcome {
        let answer = json!({ "trigger": self.trigger, "deleted": true });
        self.common.format.show(&answer, || format!("deleted trigger {}", self.trigger))?;
        Ok(Exit::Done)
    }
}
