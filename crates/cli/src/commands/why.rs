//! `millpond why`: one sentence that says why nothing is delivered, and what to do about it.

use clap::Args;
use millpond_client::Why as Reason;
use serde::Serialize;

use super::Common;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::safe;

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Id or name of the queue
    queue: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Answer<'a> {
    queue: &'a str,
    #[serde(flatten)]
    why: &'a Reason,
    advice: String,
}

impl Why {
    pub(crate) async fn run(&self) -> Outcome {
        let why = self.common.client()?.why(&self.queue).await;
        let why = why.map_err(|error| Failure::call(&format!("ask about queue {}", self.queue), &error))?;
        let answer = Answer { queue: &self.queue, why: &why, advice: advice(&self.queue, &why.reason) };
        self.common.format.show(&answer, || sentence(&self.queue, &why))?;
        Ok(Exit::Done)
    }
}

/// What is the matter and what to do, in one sentence.
pub(super) fn sentence(queue: &str, why: &Reason) -> String {
    match advice(queue, &why.reason) {
        advice if advice.is_empty() => format!("{queue}: {}", safe(&why.detail)),
        advice => format!("{queue}: {}: {advice}", safe(&why.detail)),
    }
}

/// What to do; empty for a reason that is newer than this program.
fn advice(queue: &str, reason: &str) -> String {
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

    #[test]
    fn every_reason_that_is_documented_has_advice() {
        let page = include_str!("../../../../docs/queues.md");
        let table = page.split("| reason |").nth(1).expect("the table of reasons");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let reasons: Vec<&str> = rows.filter_map(|line| line.split('`').nth(1)).collect();
        assert!(reasons.len() >= 9, "{reasons:?}");
        for reason in reasons {
            assert!(!advice("q", reason).is_empty(), "{reason}");
        }
    }

    #[test]
    fn a_reason_that_is_not_known_is_told_in_the_servers_words() {
        let why = Reason { reason: "new".to_owned(), detail: "told so".to_owned(), since: None, until: None };
        assert_eq!(sentence("q", &why), "q: told so");
    }
}
