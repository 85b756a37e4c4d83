//! What is in the queues, looked at anew for each page: environments that are open are asked, a bounded number of queues
//! at a time, those that were closed are remembered by the engine. Nothing is opened for it.
//!
//! Queues are shown singly up to a limit, in the order of their names; the sums of environments are of all of them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use millpond_core::QueueReading;
use millpond_core::row::CountersRow;
use millpond_core::time::Timestamp;
use millpond_engine::{Engine, SurveyPage};
use tokio::time::{Instant, timeout_at};

use super::names;
use super::text::{Family, Text};

/// Queues that an environment looks at in one turn.
const PAGE_QUEUES: usize = 250;
/// Environments on a page.
const ENVIRONMENTS_MAX: usize = 1_000;
/// How long one environment may take to answer, and all of them.
const ENVIRONMENT_WAIT_MAX: Duration = Duration::from_secs(1);
const SURVEY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Reads one of a queue's counts.
type Count = fn(&CountersRow) -> u64;

const STATES: [(&str, Count); 5] = [
    ("completed", |counters| counters.completed),
    ("dead", |counters| counters.dead),
    ("delayed", |counters| counters.delayed),
    ("leased", |counters| counters.leased),
    ("ready", |counters| counters.ready),
];

/// In the order of [`names::TOTALS`].
const TOTALS: [Count; 6] = [
    |counters| counters.total_sent,
    |counters| counters.total_delivered,
    |counters| counters.total_undone,
    |counters| counters.total_acked,
    |counters| counters.total_dead,
    |counters| counters.total_expired,
];

/// All that was seen.
#[derive(Debug)]
pub(crate) struct Queues {
    now: Timestamp,
    environments: Vec<Environment>,
    queues_left_out: u64,
    environments_left_out: u64,
}

#[derive(Debug, Default)]
struct Environment {
    name: Box<str>,
    /// `None`: it is closed, and nobody looks at its store.
    space_low: Option<bool>,
    /// Those that are shown.
    queues: Vec<QueueReading>,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    queues: u64,
    paused: u64,
    waiting: u64,
    states: [u64; STATES.len()],
    totals: [u64; TOTALS.len()],
    ready_since: Option<Timestamp>,
}

/// What was shown of environments' totals. They may only rise, but their sums fall when a queue is deleted.
#[derive(Debug, Default)]
pub(crate) struct Risen {
    environments: HashMap<Box<str>, RisenTotals>,
}

#[derive(Clone, Copy, Debug)]
struct RisenTotals {
    summed: [u64; TOTALS.len()],
    shown: [u64; TOTALS.len()],
}

impl Queues {
    /// Looks at everything; `most` queues are shown singly.
    pub(crate) async fn survey(engine: &Engine, most: usize, risen: &mut Risen) -> Self {
        let until = Instant::now() + SURVEY_WAIT_MAX;
        // In this order: what is closed or opened meanwhile is in one of them, or in both.
        let names = engine.environments_remembered().into_iter().chain(engine.environments_open());
        let names: BTreeSet<Box<str>> = names.collect();
        let mut seen = Self {
            now: engine.now(),
            environments: Vec::new(),
            queues_left_out: 0,
            environments_left_out: number(names.len().saturating_sub(ENVIRONMENTS_MAX)),
        };
        let mut room = most;
        for name in names.into_iter().take(ENVIRONMENTS_MAX) {
            let until = until.min(Instant::now() + ENVIRONMENT_WAIT_MAX);
            let Ok(Some(mut environment)) = timeout_at(until, Environment::look(engine, name, room)).await
            else {
                seen.environments_left_out += 1;
                continue;
            };
            room -= environment.queues.len();
            seen.queues_left_out += environment.sums.queues - number(environment.queues.len());
            risen.raise(&environment.name, &mut environment.sums.totals);
            seen.environments.push(environment);
        }
        risen.forget(&seen.environments);
        seen
    }

    pub(super) fn write(&self, text: &mut Text) {
        self.write_environments(text);
        self.write_queues(text);
        text.only(&names::QUEUES_LEFT_OUT, self.queues_left_out);
        text.only(&names::ENVIRONMENTS_LEFT_OUT, self.environments_left_out);
    }

    fn write_environments(&self, text: &mut Text) {
        text.begin(&names::ENVIRONMENT_SPACE_LOW);
        for environment in &self.environments {
            if let Some(low) = environment.space_low {
                let labels = [("environment", &*environment.name)];
                text.sample(&names::ENVIRONMENT_SPACE_LOW, &labels, u8::from(low));
            }
        }
        let mut family = |family: &Family, value: &dyn Fn(&Environment) -> f64| {
            text.begin(family);
            for environment in &self.environments {
                text.sample(family, &[("environment", &environment.name)], value(environment));
            }
        };
        family(&names::ENVIRONMENT_QUEUES, &|environment| environment.sums.queues as f64);
        family(&names::ENVIRONMENT_QUEUES_PAUSED, &|environment| environment.sums.paused as f64);
        family(&names::ENVIRONMENT_WAITING_CALLS, &|environment| environment.sums.waiting as f64);
        family(&names::ENVIRONMENT_OLDEST_READY_AGE, &|environment| {
            environment.sums.ready_since.map_or(0.0, |since| self.age(since))
        });
        for (index, (_, of_environment)) in names::TOTALS.iter().enumerate() {
            family(of_environment, &|environment| {
                environment.sums.totals.get(index).map_or(0.0, |total| *total as f64)
            });
        }
        text.begin(&names::ENVIRONMENT_MESSAGES);
        for environment in &self.environments {
            for ((state, _), count) in STATES.iter().zip(environment.sums.states) {
                let labels = [("environment", &*environment.name), ("state", state)];
                text.sample(&names::ENVIRONMENT_MESSAGES, &labels, count);
            }
        }
    }

    fn write_queues(&self, text: &mut Text) {
        let mut family = |family: &Family, value: &dyn Fn(&QueueReading) -> Option<f64>| {
            text.begin(family);
            for environment in &self.environments {
                for queue in &environment.queues {
                    let labels = [("environment", &*environment.name), ("queue", &*queue.name)];
                    if let Some(value) = value(queue) {
                        text.sample(family, &labels, value);
                    }
                }
            }
        };
        family(&names::QUEUE_PAUSED, &|queue| Some(f64::from(u8::from(queue.paused))));
        family(&names::QUEUE_WAITING_CALLS, &|queue| Some(queue.waiting as f64));
        family(&names::QUEUE_OLDEST_READY_AGE, &|queue| match queue.ready_since {
            Some(since) => Some(self.age(since)),
            // Some are ready and the first of them is not known yet: nothing is better than something wrong.
            None => (queue.counters.ready == 0).then_some(0.0),
        });
        family(&names::QUEUE_CONSUMER_AGE, &|queue| {
            let seen = queue.consumer_seen_at.unwrap_or(queue.created_at);
            Some(if queue.waiting > 0 { 0.0 } else { self.age(seen) })
        });
        for ((of_queue, _), count) in names::TOTALS.iter().zip(TOTALS) {
            family(of_queue, &|queue| Some(count(&queue.counters) as f64));
        }
        text.begin(&names::QUEUE_MESSAGES);
        for environment in &self.environments {
            for queue in &environment.queues {
                for (state, count) in STATES {
                    let labels =
                        [("environment", &*environment.name), ("queue", &*queue.name), ("state", state)];
                    text.sample(&names::QUEUE_MESSAGES, &labels, count(&queue.counters));
                }
            }
        }
    }

    /// Seconds since then. Stamps may be ahead of the wall clock for a while.
    fn age(&self, since: Timestamp) -> f64 {
        (self.now.as_millis() - since.as_millis()).max(0) as f64 / 1_000.0
    }
}

impl Environment {
    /// Looks at all queues of an environment and keeps the first `room` of them. `None`: it is closed and not remembered,
    /// or its store fails.
    async fn look(engine: &Engine, name: Box<str>, room: usize) -> Option<Self> {
        let mut seen = Self { name: name.clone(), ..Self::default() };
        let mut after = None;
        loop {
            let read_heads = seen.queues.len() < room;
            let page = SurveyPage { after, most: PAGE_QUEUES, read_heads };
            let Some(survey) = engine.survey(&name, page).await else { break };
            seen.space_low = Some(survey.space_low);
            let last = survey.queues.last().map(|queue| queue.name.clone());
            let is_last_page = survey.queues.len() < PAGE_QUEUES;
            survey.queues.into_iter().for_each(|queue| seen.add(queue, room));
            if is_last_page {
                return Some(seen);
            }
            after = last;
        }
        let closed = engine.closed_survey(&name)?;
        let mut seen = Self { name, ..Self::default() };
        closed.iter().for_each(|queue| seen.add(queue.clone(), room));
        Some(seen)
    }

    fn add(&mut self, queue: QueueReading, room: usize) {
        self.sums.add(&queue);
        if self.queues.len() < room {
            self.queues.push(queue);
        }
    }
}

impl Sums {
    fn add(&mut self, queue: &QueueReading) {
        self.queues += 1;
        self.paused += u64::from(queue.paused);
        self.waiting += queue.waiting;
        self.ready_since = self.ready_since.into_iter().chain(queue.ready_since).min();
        for (sum, (_, count)) in self.states.iter_mut().zip(STATES) {
            *sum += count(&queue.counters);
        }
        for (sum, count) in self.totals.iter_mut().zip(TOTALS) {
            *sum += count(&queue.counters);
        }
    }
}

impl Risen {
    /// Makes of an environment's sums what may be shown: a sum that fell since it was last seen stands still, and rises on
    /// from there.
    fn raise(&mut self, name: &str, totals: &mut [u64; TOTALS.len()]) {
        let summed = *totals;
        let Some(known) = self.environments.get_mut(name) else {
            self.environments.insert(name.into(), RisenTotals { summed, shown: summed });
            return;
        };
        for ((shown, before), now) in known.shown.iter_mut().zip(known.summed).zip(summed) {
            *shown += now.saturating_sub(before);
        }
        known.summed = summed;
        *totals = known.shown;
    }

    /// Forgets environments that are not shown any more, once they are many.
    fn forget(&mut self, shown: &[Environment]) {
        if self.environments.len() > 4 * ENVIRONMENTS_MAX {
            let shown: BTreeSet<&str> = shown.iter().map(|environment| &*environment.name).collect();
            self.environments.retain(|name, _| shown.contains(&**name));
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_an_environment_never_fall() {
        let mut risen = Risen::default();
        let mut show = |sum: u64| {
            let mut totals = [sum; TOTALS.len()];
            risen.raise("e", &mut totals);
            totals[0]
        };
        assert_eq!([show(100), show(130)], [100, 130]);
        // A queue that had counted 90 is deleted; the others go on.
        assert_eq!([show(40), show(45), show(45)], [130, 135, 135]);
    }
}
