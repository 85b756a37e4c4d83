//! From words to commands, and from outcomes to words.

use std::time::Duration;

use millpond_core::outcome::{Rejection, Why};
use millpond_core::row::DeliveryState;
use millpond_core::spec::{AtLimit, AttemptLimit, Backoff, Counted, Gone, LostLease, Order, QueueSpec};
use millpond_core::time::Timestamp;

/// Where the clocks begin.
pub(crate) const START_MILLIS: i64 = 1_700_000_000_000;

/// A line in words: bare ones and pairs.
pub(crate) struct Words<'a> {
    pub(crate) verb: &'a str,
    pub(crate) bare: Vec<&'a str>,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let (pairs, bare): (Vec<_>, Vec<_>) = words.partition(|word| word.contains('='));
        Self { verb, bare, pairs: pairs.into_iter().filter_map(|pair| pair.split_once('=')).collect() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(name, _)| *name == key).map(|(_, value)| *value)
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.pairs.iter().copied()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key).map(|value| value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number")))
    }

    pub(crate) fn time(&self, key: &str) -> Option<Duration> {
        self.get(key).map(duration)
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.bare.contains(&word)
    }
}

/// `10`, `1.5` or `2h`: seconds, or hours.
pub(crate) fn duration(text: &str) -> Duration {
    let (number, unit) = match text.strip_suffix('h') {
        Some(hours) => (hours, 3600.0),
        None => (text, 1.0),
    };
    let number: f64 = number.parse().unwrap_or_else(|_| panic!("{text} is no time"));
    Duration::from_secs_f64(number * unit)
}

/// Seconds since the beginning.
pub(crate) fn show(time: Timestamp) -> String {
    let millis = time.as_millis() - START_MILLIS;
    if millis % 1_000 == 0 { format!("{}", millis / 1_000) } else { format!("{:.3}", millis as f64 / 1e3) }
}

/// A time in seconds since the beginning.
pub(crate) fn time(text: &str) -> Timestamp {
    Timestamp::from_millis(START_MILLIS).plus(duration(text))
}

/// A state of a delivery.
pub(crate) fn state(name: &str) -> DeliveryState {
    match name {
        "delayed" => DeliveryState::Delayed,
        "ready" => DeliveryState::Ready,
        "leased" => DeliveryState::Leased,
        "completed" => DeliveryState::Completed,
        "dead" => DeliveryState::Dead,
        other => panic!("{other} is no state"),
    }
}

/// The policies of the systems that are served (design.md, rule 4).
fn policy(name: &str) -> QueueSpec {
    let counts = |spends_attempt, in_a_row_max| LostLease { backs_off: true, in_a_row_max, spends_attempt };
    let deliveries = |max| Some(AttemptLimit { max, counts: Counted::Deliveries });
    let failures = |max| Some(AttemptLimit { max, counts: Counted::Failures });
    let backoff = |initial: u64, factor_permille, max: u64, jitter_permille| {
        let (initial, max) = (Duration::from_secs(initial), Duration::from_secs(max));
        Some(Backoff { initial, factor_permille, max, jitter_permille })
    };
    let plain = (1_000, 1_000);
    match name {
        "vercel" => QueueSpec {
            attempt_limit: deliveries(3),
            at_limit: AtLimit::Drop,
            fresh_first: true,
            ..QueueSpec::default()
        },
        "runlot" => QueueSpec {
            // Three retries: a message has four attempts.
            attempt_limit: failures(4),
            at_limit: AtLimit::MoveTo { queue: "failed".into(), otherwise: Gone::Drop },
            backoff: backoff(10, 2_000, 3_600, plain),
            lost_lease: LostLease { backs_off: false, in_a_row_max: Some(10), spends_attempt: false },
            ..QueueSpec::default()
        },
        "pg-boss" => QueueSpec {
            attempt_limit: failures(3),
            at_limit: AtLimit::DeadLetterSet,
            backoff: backoff(5, 1_000, 5, plain),
            lost_lease: counts(true, None),
            order: Order::Sent,
            ..QueueSpec::default()
        },
        "notusbase" => QueueSpec {
            attempt_limit: failures(5),
            at_limit: AtLimit::DeadLetterSet,
            backoff: backoff(1, 2_000, 3_600, (500, 1_500)),
            lost_lease: counts(true, None),
            ..QueueSpec::default()
        },
        "sylphx" => QueueSpec::default(),
        "topic" => QueueSpec::topic(),
        other => panic!("{other} is no policy"),
    }
}

/// The policies that a `create` or an `update` names.
pub(crate) fn spec(words: &Words<'_>) -> QueueSpec {
    let is_topic = words.bare.first().is_some_and(|name| name.contains('/'));
    let mut spec = policy(words.get("policy").unwrap_or(if is_topic { "topic" } else { "sylphx" }));
    for (key, value) in words.pairs() {
        let count = || value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number"));
        match key {
            "policy" | "annotations" | "digest" | "etag" | "once" | "start" => {}
            "deliveries_max" => {
                spec.attempt_limit = Some(AttemptLimit { max: count(), counts: Counted::Deliveries });
            }
            "failures_max" => {
                spec.attempt_limit = Some(AttemptLimit { max: count(), counts: Counted::Failures });
            }
            "at_limit" => spec.at_limit = at_limit(value),
            "concurrency" => spec.concurrency_max = Some(count()),
            "leased_max" => spec.leased_max = count(),
            "delay" => spec.delay = duration(value),
            "retention" => spec.retention = Some(duration(value)),
            "finished" => spec.finished_retention = duration(value),
            "timeout" => spec.visibility_timeout = duration(value),
            "order" => spec.order = if value == "sent" { Order::Sent } else { Order::Visible },
            other => panic!("{other} is no policy"),
        }
    }
    spec
}

fn at_limit(value: &str) -> AtLimit {
    match value.split_once(':') {
        Some(("move", queue)) => match queue.strip_suffix(":drop") {
            Some(queue) => AtLimit::MoveTo { queue: queue.into(), otherwise: Gone::Drop },
            None => AtLimit::MoveTo { queue: queue.into(), otherwise: Gone::DeadLetterSet },
        },
        _ if value == "drop" => AtLimit::Drop,
        _ => AtLimit::DeadLetterSet,
    }
}

/// Why nothing is handed out, in words.
pub(crate) fn why(why: Why) -> String {
    let until = |until: Option<Timestamp>| until.map_or_else(|| "unknown".to_owned(), show);
    match why {
        Why::Paused { since } => format!("paused since={}", show(since)),
        Why::ConcurrencyFull { limit, until: end } => {
            format!("concurrency_full limit={limit} until={}", until(end))
        }
        Why::LeasedLimit { limit } => format!("leased_limit limit={limit}"),
        Why::NoConsumer { since } => format!("no_consumer since={}", until(since)),
        Why::TargetDown { trigger, trouble } => {
            format!(
                "target_down trigger={trigger} since={} until={}",
                show(trouble.since),
                show(trouble.next_try)
            )
        }
        Why::TriggerStarts { trigger, at } => format!("trigger_starts trigger={trigger} at={}", show(at)),
        Why::NoDeployment { deployment } => format!("no_deployment {deployment}"),
        Why::Delivering => "delivering".to_owned(),
        Why::AllDelayed { until: end } => format!("all_delayed until={}", until(end)),
        Why::HeldByTransactions { since } => format!("held_by_transactions since={}", show(since)),
        Why::AllLeased { until: end } => format!("all_leased until={}", until(end)),
        Why::AllDead => "all_dead".to_owned(),
        Why::Empty => "empty".to_owned(),
    }
}

/// A refusal in words.
pub(crate) fn refusal(rejection: &Rejection) -> String {
    match rejection {
        Rejection::OutOfRange { field, .. } => format!("refused: out_of_range {field}"),
        Rejection::LeaseStale { stale } => format!("refused: {} stale", stale.len()),
        Rejection::DeadLetterQueueInvalid { problem, .. } => {
            format!("refused: dead_letter_queue {problem:?}").to_lowercase()
        }
        other => {
            let text = format!("{other:?}");
            let name = text.split([' ', '(', '{']).next().unwrap_or_default();
            let snake = name.chars().fold(String::new(), |mut snake, letter| {
                if letter.is_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.extend(letter.to_lowercase());
                snake
            });
            format!("refused: {snake}")
        }
    }
}
