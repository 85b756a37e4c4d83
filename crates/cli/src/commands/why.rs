//! `millpond why`: one sentence that says why nothing is delivered, and what to do about it.

use clap::Args;
use millpond_client::Why as Reason;
use serde::Serialize;

use super::Common;
use super::reader::{GroupArguments, Reader};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::safe;

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Id or name of the queue
    #[arg(required_unless_present = "topic", conflicts_with = "topic")]
    queue: Option<String>,

    #[command(flatten)]
    group: GroupArguments,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(flatten)]
    why: &'a Reason,
    advice: String,
}

impl Why {
    pub(crate) async fn run(&self) -> Outcome {
        let reader = self.group.reader(self.queue.as_deref(), None);
        let client = self.common.client()?;
        let why = match &reader {
            Reader::Group { topic, group, .. } => client.why_group(topic, group).await,
            Reader::Queue(queue) => client.why(queue).await,
        };
        let why = why.map_err(|error| Failure::call(&format!("ask about {}", asked(&reader)), &error))?;
        let (queue, topic, group) = match &reader {
            Reader::Group { topic, group, .. } => (None, Some(topic.as_str()), Some(group.as_str())),
            Reader::Queue(queue) => (Some(queue.as_str()), None, None),
        };
        let answer = Answer { queue, topic, group, why: &why, advice: advice(&reader, &why.reason) };
        self.common.format.show(&answer, || sentence(&reader, &why))?;
        Ok(Exit::Done)
    }
}

fn asked(reader: &Reader) -> String {
    match reader {
        Reader::Group { .. } => reader.called(),
        Reader::Queue(queue) => format!("queue {queue}"),
    }
}

/// What is the matter and what to do, in one sentence.
pub(super) fn sentence(reader: &Reader, why: &Reason) -> String {
    let called = reader.called();
    match advice(reader, &why.reason) {
        advice if advice.is_empty() => format!("{called}: {}", safe(&why.detail)),
        advice => format!("{called}: {}: {advice}", safe(&why.detail)),
    }
}

/// What to do; empty for a reason that is newer than this program.
fn advice(reader: &Reader, reason: &str) -> String {
    match reader {
        Reader::Group { topic, .. } => advice_on_group(reader, topic, reason),
        Reader::Queue(queue) => advice_on_queue(queue, reason),
    }
}

fn advice_on_group(reader: &Reader, topic: &str, reason: &str) -> String {
    match reason {
        "all_delayed" => "wait: they failed, and come back by themselves".to_owned(),
        "all_leased" => "wait for the workers".to_owned(),
        "concurrency_full" => "wait for the workers, or allow the group more (concurrency_max)".to_owned(),
        "delivering" => "nothing to do".to_owned(),
        "held_by_transactions" => "end the transactions that settle them".to_owned(),
        "empty" => format!("send something with `millpond send --topic {topic} DATA`"),
        "leased_limit" => {
            "ack what is done, shorten the leases, or allow the group more (leased_max)".to_owned()
        }
        "no_consumer" => format!("start a worker, such as `millpond work {} --exec CMD`", reader.words()),
        "no_deployment" => format!(
            "deploy it again, take them with `millpond lease {} --partition ID`, or let them expire",
            reader.words()
        ),
        "paused" => format!("`{}` lets it deliver again", reader.resume()),
        "target_down" => "start what should answer there; it is found by itself".to_owned(),
        "trigger_starts" => "wait".to_owned(),
        _ => String::new(),
    }
}

fn advice_on_queue(queue: &str, reason: &str) -> String {
    match reason {
        "all_dead" => format!(
            "look at them with `millpond dead list {queue}`, and once their cause is gone `millpond queue replay {queue}`"
        ),
        "all_delayed" => format!("wait, or look at them with `millpond peek {queue} --state delayed`"),
        "all_leased" => {
            format!("wait for the workers, or see what they hold with `millpond peek {queue} --state leased`")
        }
        "concurrency_full" => format!(
            "wait for the workers, or raise the limit with `millpond queue update {queue} --set concurrency_max=N`"
        ),
        "delivering" => "nothing to do".to_owned(),
        "held_by_transactions" => "end the transactions that settle them".to_owned(),
        "empty" => format!("send something with `millpond send {queue} DATA`"),
        "leased_limit" => format!(
            "ack what is done, shorten the leases, or raise the limit with `millpond queue update {queue} --set leased_max=N`"
        ),
        "no_consumer" => format!("start a worker, such as `millpond work {queue} --exec CMD`"),
        "paused" => format!("`millpond queue resume {queue}` lets it deliver again"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasons in the table of a page.
    fn reasons(page: &str) -> Vec<&str> {
        let table = page.split("| reason |").nth(1).expect("the table of reasons");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.filter_map(|line| line.split('`').nth(1)).collect()
    }

    #[test]
    fn every_reason_that_is_documented_has_advice() {
        let group = Reader::Group { topic: "t".to_owned(), group: "g".to_owned(), partition: None };
        let of_queues = reasons(include_str!("../../../../docs/queues.md"));
        assert!(of_queues.len() >= 9, "{of_queues:?}");
        for reason in of_queues {
            assert!(!advice_on_queue("q", reason).is_empty(), "{reason}");
            // A group has no dead letters.
            assert_eq!(advice(&group, reason).is_empty(), reason == "all_dead", "{reason}");
        }
        let of_groups = reasons(include_str!("../../../../docs/topics.md"));
        assert_eq!(of_groups, ["target_down", "trigger_starts", "no_deployment"]);
        assert!(of_groups.iter().all(|reason| !advice(&group, reason).is_empty()));
    }

    #[test]
    fn a_reason_that_is_not_known_is_told_in_the_servers_words() {
        let why = Reason { reason: "new".to_owned(), detail: "told so".to_owned(), since: None, until: None };
        assert_eq!(sentence(&Reader::Queue("q".to_owned()), &why), "q: told so");
    }
}
