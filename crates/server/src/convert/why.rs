//! Why a queue hands nothing out: one word for programs, one sentence for people.

use millpond_api::duration::render as show;
use millpond_api::queue::Why;
use millpond_api::time;
use millpond_core::outcome::{QueueView, Why as CoreWhy};
use millpond_core::row::Role;
use millpond_core::time::Timestamp;

const DAY: u64 = 86_400;

/// The `why` of a queue's status, its sentence in `detail`.
pub(crate) fn why_of(view: &QueueView) -> Why {
    let counts = &view.counters;
    let ready = numbered(counts.ready, "ready");
    let because =
        |reason: &str, detail: String| Why { reason: reason.to_owned(), detail, since: None, until: None };
    match &view.why {
        CoreWhy::Paused { since } => {
            because("paused", format!("paused since {}", at(*since))).since(Some(*since))
        }
        CoreWhy::ConcurrencyFull { limit, until } => {
            let detail =
                format!("{ready}, but {}, which is concurrency_max", numbered((*limit).into(), "leased"));
            because("concurrency_full", detail).until(*until, "the first lease ends")
        }
        CoreWhy::LeasedLimit { limit } => {
            let detail = format!("{ready}, but {}, which is leased_max", numbered((*limit).into(), "leased"));
            because("leased_limit", detail)
        }
        CoreWhy::NoConsumer { since: None } => {
            because("no_consumer", format!("{ready} and nobody has ever asked for {}", pronoun(counts.ready)))
        }
        CoreWhy::NoConsumer { since: Some(since) } => {
            let detail = format!("{ready} and nobody has asked since {}", at(*since));
            because("no_consumer", detail).since(Some(*since))
        }
        CoreWhy::TargetDown { trigger, trouble } => {
            let detail = format!(
                "{ready}, but the target of trigger {trigger} cannot be reached since {}: {}",
                at(trouble.since),
                trouble.error
            );
            because("target_down", detail)
                .since(Some(trouble.since))
                .until(Some(trouble.next_try), "it is tried again")
        }
        CoreWhy::TriggerStarts { trigger, at } => {
            because("trigger_starts", format!("{ready}, and trigger {trigger} was made lately"))
                .until(Some(*at), "it begins")
        }
        CoreWhy::NoDeployment { deployment } => {
            let detail = format!(
                "{ready} for deployment {deployment}, which has no trigger for this group, and nobody polls"
            );
            because("no_deployment", detail)
        }
        CoreWhy::Delivering => because("delivering", format!("{ready} and being handed out")),
        CoreWhy::AllDelayed { until } => {
            because("all_delayed", format!("{}, nothing is ready", numbered(counts.delayed, "delayed")))
                .until(*until, "the first is ready")
        }
        CoreWhy::AllLeased { until } => {
            because("all_leased", format!("{}, nothing else is left", numbered(counts.leased, "leased")))
                .until(*until, "the first lease ends")
        }
        CoreWhy::HeldByTransactions { since } => {
            because("held_by_transactions", held(counts.leased, *since)).since(Some(*since))
        }
        CoreWhy::AllDead => {
            let dead = numbered(counts.dead, "out of attempts");
            because("all_dead", format!("{dead} (the limit is {}), nothing else is left", attempts(view)))
        }
        // How long messages are kept is its topic's to say.
        CoreWhy::Empty if matches!(view.queue.role, Role::Group { .. }) => {
            because("empty", "there is nothing that this group has not had".to_owned())
        }
        CoreWhy::Empty => because("empty", format!("there is nothing; messages are kept {}", kept(view))),
    }
}

/// What is said of leases that open transactions hold.
fn held(leased: u64, since: Timestamp) -> String {
    format!(
        "{}, and transactions that settle some of them are open for longer than the leases, the first of which ended at {}",
        numbered(leased, "leased"),
        at(since)
    )
}

/// `1 is ready`, `2 are ready`.
fn numbered(count: u64, how: &str) -> String {
    if count == 1 { format!("1 is {how}") } else { format!("{count} are {how}") }
}

fn pronoun(count: u64) -> &'static str {
    if count == 1 { "it" } else { "them" }
}

fn at(time: Timestamp) -> String {
    time::render(time.as_millis())
}

fn attempts(view: &QueueView) -> String {
    view.queue.spec.attempt_limit.map_or_else(|| "none".to_owned(), |limit| limit.max.to_string())
}

fn kept(view: &QueueView) -> String {
    view.queue.spec.retention.map_or_else(
        || "for ever".to_owned(),
        |retention| match retention.as_secs() {
            DAY => "for a day".to_owned(),
            seconds if seconds > 0 && seconds % DAY == 0 => format!("for {} days", seconds / DAY),
            _ => format!("for {}", show(retention)),
        },
    )
}

/// Adds what is known of the times.
trait Times {
    fn since(self, since: Option<Timestamp>) -> Self;
    fn until(self, until: Option<Timestamp>, what: &str) -> Self;
}

impl Times for Why {
    fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since.map(Timestamp::as_millis);
        self
    }

    fn until(mut self, until: Option<Timestamp>, what: &str) -> Self {
        if let Some(until) = until {
            self.detail = format!("{}; {what} at {}", self.detail, at(until));
            self.until = Some(until.as_millis());
        }
        self
    }
}
