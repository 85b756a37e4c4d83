//! What is registered: the triggers of a deployment. Invariant: within a group no two of them match one topic.

use std::time::Duration;

use millpond_client::NewTrigger;
use serde_json::{Map, Value, json};

use super::policy::Policy;
use super::topic::overlap;
use crate::exit::{Failure, Outcome};

/// A trigger as the server knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trigger {
    pub(super) topic: String,
    pub(super) group: String,
    pub(super) target: String,
    pub(super) policy: Policy,
    pub(super) dead_letter_queue: Option<String>,
    /// How long a push holds its message.
    pub(super) lease: Duration,
}

/// A trigger, and where in the project it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) trigger: Trigger,
    pub(super) source: String,
}

/// The triggers of a deployment, by group and topic.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) deployment: String,
    pub(super) planned: Vec<Planned>,
}

impl Plan {
    /// What comes twice is registered once; what would make two triggers answer for one message is refused.
    pub(super) fn of(deployment: &str, found: Vec<Planned>) -> Outcome<Self> {
        let mut planned: Vec<Planned> = Vec::new();
        for one in found {
            let of_group = planned.iter().filter(|other| other.trigger.group == one.trigger.group);
            match of_group.into_iter().find(|other| overlap(&other.trigger.topic, &one.trigger.topic)) {
                None => planned.push(one),
                Some(other) if other.trigger == one.trigger => {}
                Some(other) => return Err(ambiguous(other, &one)),
            }
        }
        let key = |one: &Planned| (one.trigger.group.clone(), one.trigger.topic.clone());
        planned.sort_by_key(key);
        Ok(Self { deployment: deployment.to_owned(), planned })
    }

    /// The body of the call that registers it.
    pub(super) fn request(&self) -> Value {
        json!({ "triggers": self.planned.iter().map(|one| one.trigger.to_json()).collect::<Vec<_>>() })
    }
}

impl Trigger {
    /// One that the server has.
    pub(super) fn of(known: &millpond_client::Trigger) -> Self {
        Self {
            topic: known.topic.clone(),
            group: known.group.clone(),
            target: known.target.clone(),
            policy: Policy {
                retry_after: known.retry_after,
                initial_delay: known.initial_delay,
                max_deliveries: known.max_deliveries,
                max_concurrency: known.max_concurrency,
            },
            dead_letter_queue: known.dead_letter_queue.as_deref().map(queue_id).map(str::to_owned),
            lease: known.visibility_timeout,
        }
    }

    pub(super) fn to_new(&self) -> NewTrigger {
        NewTrigger {
            retry_after: Some(self.policy.retry_after),
            initial_delay: Some(self.policy.initial_delay),
            max_deliveries: self.policy.max_deliveries,
            max_concurrency: self.policy.max_concurrency,
            dead_letter_queue: self.dead_letter_queue.clone(),
            visibility_timeout: Some(self.lease),
            ..NewTrigger::new(&self.topic, &self.group, &self.target)
        }
    }

    /// The trigger as it is shown to programs.
    pub(super) fn to_json(&self) -> Value {
        let mut fields = Map::from_iter([
            ("topic".to_owned(), json!(self.topic)),
            ("group".to_owned(), json!(self.group)),
            ("target".to_owned(), json!(self.target)),
            ("retry_after".to_owned(), json!(seconds(self.policy.retry_after))),
            ("initial_delay".to_owned(), json!(seconds(self.policy.initial_delay))),
            ("visibility_timeout".to_owned(), json!(seconds(self.lease))),
        ]);
        let optional = [
            ("max_deliveries", self.policy.max_deliveries.map(Value::from)),
            ("max_concurrency", self.policy.max_concurrency.map(Value::from)),
            ("dead_letter_queue", self.dead_letter_queue.clone().map(Value::from)),
        ];
        fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Value::Object(fields)
    }
}

/// The id in a queue's whole name, or the id itself.
fn queue_id(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A duration as the API has it.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

fn ambiguous(one: &Planned, other: &Planned) -> Failure {
    let group = &one.trigger.group;
    let why = format!("two triggers of the group {group} answer for one message");
    let line = |planned: &Planned| format!("{} for {}", planned.source, planned.trigger.topic);
    let failure = Failure::usage("cannot tell where to push", why).detail([line(one), line(other)]);
    failure.advise("make their topics differ, or give one of them another group")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A trigger with nothing said beside its names.
    pub(in super::super) fn planned(group: &str, topic: &str) -> Planned {
        let trigger = Trigger {
            topic: topic.to_owned(),
            group: group.to_owned(),
            target: "http://127.0.0.1:3000/api/x".to_owned(),
            policy: Policy::default(),
            dead_letter_queue: None,
            lease: Duration::from_secs(300),
        };
        Planned { trigger, source: format!("vercel.json: {group}") }
    }

    #[test]
    fn a_plan_is_sent_with_units_and_without_what_was_not_said() {
        let mut full = planned("a", "user-*");
        full.trigger.policy = Policy {
            retry_after: Duration::from_millis(1_500),
            initial_delay: Duration::from_secs(86_400),
            max_deliveries: Some(20),
            max_concurrency: Some(5),
        };
        full.trigger.dead_letter_queue = Some("mail-dead".to_owned());
        let plan = Plan::of("dpl_1", vec![planned("b", "*"), full]).expect("a plan");
        assert_eq!(
            plan.request(),
            json!({"triggers": [
                {"topic": "user-*", "group": "a", "target": "http://127.0.0.1:3000/api/x", "retry_after": "1.5s",
                 "initial_delay": "86400s", "visibility_timeout": "300s", "max_deliveries": 20,
                 "max_concurrency": 5, "dead_letter_queue": "mail-dead"},
                {"topic": "*", "group": "b", "target": "http://127.0.0.1:3000/api/x", "retry_after": "60s",
                 "initial_delay": "0s", "visibility_timeout": "300s"},
            ]})
        );
    }

    #[test]
    fn what_comes_twice_is_registered_once() {
        let twice = vec![planned("a", "x"), planned("b", "x"), planned("a", "x"), planned("a", "y")];
        let plan = Plan::of("dpl_1", twice).expect("a plan");
        let names: Vec<_> =
            plan.planned.iter().map(|one| (&*one.trigger.group, &*one.trigger.topic)).collect();
        assert_eq!(names, [("a", "x"), ("a", "y"), ("b", "x")]);
    }

    #[test]
    fn one_message_has_one_trigger_in_a_group() {
        let mut other = planned("a", "x");
        other.trigger.target = "http://127.0.0.1:3000/api/y".to_owned();
        for found in [vec![planned("a", "x"), other], vec![planned("a", "x-*"), planned("a", "x-y")]] {
            let told = Plan::of("dpl_1", found).expect_err("ambiguous").text();
            assert!(told.contains("two triggers of the group a answer for one message"), "{told}");
            assert!(told.contains("    vercel.json: a for x"), "{told}");
        }
    }
}
