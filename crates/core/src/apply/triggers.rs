//! Makes, removes and shows triggers, and sets what pushes are signed with. Checks in order: number of triggers, each one's id, topic,
//! group, target and policies, ids that are taken, dead-letter queues, topics that overlap, the environment's limit.

use std::time::Duration;

use crate::apply::Stop;
use crate::apply::create_queue::{check_duration, check_range, check_topic_id, draw_uid};
use crate::command::{NewTrigger, PutTriggers, SetSecret, TriggersOf, Trouble};
use crate::id::Uid;
use crate::limits;
use crate::outcome::{DeadLetterProblem, Effect, Outcome, Rejection};
use crate::row::{SecretRow, TriggerRow};
use crate::spec::TriggerSpec;
use crate::stamp::Stamp;
use crate::state::Core;

/// Most bytes of what a target's last try said that are kept.
const ERROR_BYTES_MAX: usize = 1_024;
/// Most bytes of a secret.
const SECRET_BYTES_MAX: usize = 256;

impl Core {
    pub(super) fn put_triggers(&mut self, put: &PutTriggers, stamp: &Stamp) -> Result<Outcome, Stop> {
        if put.triggers.is_empty() || put.triggers.len() > limits::TRIGGERS_MAX {
            let limit = format!("1 to {}", limits::TRIGGERS_MAX);
            return Err(Rejection::out_of_range("triggers", put.triggers.len(), limit).into());
        }
        if let Some(deployment) = &put.deployment {
            check_topic_id("deployment", deployment)?;
        }
        for trigger in &put.triggers {
            check_trigger(trigger)?;
        }
        self.check_ids(put)?;
        for trigger in &put.triggers {
            self.check_dead_letters_of(&trigger.spec)?;
        }
        self.check_overlaps(put)?;
        let replaced = self.replaced(put);
        let limit = self.settings.triggers;
        if self.triggers.len() - replaced.len() + put.triggers.len() > limit {
            return Err(Rejection::TriggerLimit { limit }.into());
        }
        let first = self.triggers.next_number();
        let new = put.triggers.iter().zip(first..).map(|(new, number)| TriggerRow {
            id: new.id.clone(),
            number,
            uid: draw_uid(stamp, number ^ u64::from(self.environment.next_queue.0) << 32),
            created_at: stamp.now,
            deployment: put.deployment.clone(),
            topic: new.topic.clone(),
            group: new.group.clone(),
            target: new.target.clone(),
            spec: new.spec.clone(),
        });
        let new: Vec<_> = new.collect();
        if put.validate_only {
            return Ok(Outcome::Triggers(new.iter().map(|row| self.triggers.view(row)).collect()));
        }
        let mut changed = self.withdraw(&replaced);
        for row in &new {
            self.batch.triggers.insert(row.id.clone());
            self.triggers.insert(row.clone());
        }
        changed.extend(new.iter().cloned());
        self.triggers_changed(changed);
        Ok(Outcome::Triggers(new.iter().map(|row| self.triggers.view(row)).collect()))
    }

    pub(super) fn delete_triggers(&mut self, of: &TriggersOf) -> Result<Outcome, Stop> {
        let ids: Vec<Box<str>> = match of {
            TriggersOf::Id(id) => self.triggers.get(id).map(|row| row.id.clone()).into_iter().collect(),
            TriggersOf::Deployment(deployment) => {
                self.triggers.of_deployment(deployment).map(|row| row.id.clone()).collect()
            }
        };
        if ids.is_empty() {
            return Err(Rejection::TriggerNotFound { of: of.clone() }.into());
        }
        let views = ids.iter().filter_map(|id| self.triggers.get(id)).map(|row| self.triggers.view(row));
        let views = views.collect();
        let gone = self.withdraw(&ids);
        self.triggers_changed(gone);
        Ok(Outcome::Triggers(views))
    }

    pub(super) fn list_triggers(&self) -> Outcome {
        Outcome::Triggers(self.triggers.iter().map(|row| self.triggers.view(row)).collect())
    }

    pub(super) fn report_trigger(&mut self, id: &str, uid: Uid, trouble: Option<&Trouble>) -> Outcome {
        if self.triggers.get(id).is_none_or(|row| row.uid != uid) {
            return Outcome::Done;
        }
        let trouble = trouble.map(|trouble| {
            let kept = trouble
                .error
                .char_indices()
                .take_while(|(at, letter)| at + letter.len_utf8() <= ERROR_BYTES_MAX);
            Trouble { error: kept.map(|(_, letter)| letter).collect(), ..trouble.clone() }
        });
        self.triggers.set_trouble(id, trouble);
        Outcome::Done
    }

    pub(super) fn set_secret(&mut self, set: &SetSecret, stamp: &Stamp) -> Result<Outcome, Stop> {
        let bytes = set.secret.len();
        check_range("secret", bytes, 1, SECRET_BYTES_MAX)?;
        check_duration("grace", set.grace, Duration::ZERO, limits::SECRET_GRACE_MAX)?;
        let has_one = !self.secret.current.is_empty();
        if !(has_one && set.only_if_none) {
            let before = std::mem::take(&mut self.secret.current);
            let previous = (has_one && !set.grace.is_zero()).then(|| (before, stamp.now.plus(set.grace)));
            self.secret = SecretRow { current: set.secret.clone(), previous, since: stamp.now };
            self.batch.secret_touched = true;
            self.batch.effects.push(Effect::TriggersChanged);
        }
        Ok(Outcome::Secret(self.secret.clone()))
    }

    /// Removes triggers; answers what they were.
    fn withdraw(&mut self, ids: &[Box<str>]) -> Vec<TriggerRow> {
        let gone = ids.iter().filter_map(|id| self.triggers.remove(id));
        let gone: Vec<_> = gone.collect();
        self.batch.triggers.extend(gone.iter().map(|row| row.id.clone()));
        gone
    }

    fn triggers_changed(&mut self, changed: Vec<TriggerRow>) {
        // Which deployment is the current one concerns the others too.
        let mut concerned = changed;
        concerned.extend(self.triggers.iter().filter(|row| row.deployment.is_some()).cloned());
        self.follow_triggers(&concerned);
        self.batch.effects.push(Effect::TriggersChanged);
    }

    /// Ids of triggers that these take the place of.
    fn replaced(&self, put: &PutTriggers) -> Vec<Box<str>> {
        let deployment = put.deployment.as_deref().into_iter();
        let rows = deployment.flat_map(|deployment| self.triggers.of_deployment(deployment));
        rows.map(|row| row.id.clone()).collect()
    }

    fn check_ids(&self, put: &PutTriggers) -> Result<(), Rejection> {
        for (index, trigger) in put.triggers.iter().enumerate() {
            let again = put.triggers.iter().skip(index + 1).any(|other| other.id == trigger.id);
            let others = self
                .triggers
                .get(&trigger.id)
                .is_some_and(|known| put.deployment.is_none() || known.deployment != put.deployment);
            if again || others {
                return Err(Rejection::TriggerAlreadyExists { id: trigger.id.clone() });
            }
        }
        Ok(())
    }

    fn check_dead_letters_of(&self, spec: &TriggerSpec) -> Result<(), Rejection> {
        let Some(queue) = &spec.dead_letter_queue else { return Ok(()) };
        if self.names.contains_key(queue) {
            return Ok(());
        }
        Err(Rejection::DeadLetterQueueInvalid { name: queue.clone(), problem: DeadLetterProblem::Missing })
    }

    fn check_overlaps(&self, put: &PutTriggers) -> Result<(), Rejection> {
        let refuse =
            |id: &str, other: &str| Err(Rejection::TriggerOverlaps { id: id.into(), other: other.into() });
        for (index, trigger) in put.triggers.iter().enumerate() {
            let clash = |group: &str, topic: &str| *group == *trigger.group && overlap(topic, &trigger.topic);
            let mut others = put.triggers.iter().skip(index + 1);
            if let Some(other) = others.find(|other| clash(&other.group, &other.topic)) {
                return refuse(&trigger.id, &other.id);
            }
            let mut known =
                self.triggers.iter().filter(|row| put.deployment.is_none() && row.deployment.is_none());
            if let Some(other) = known.find(|other| clash(&other.group, &other.topic)) {
                return refuse(&trigger.id, &other.id);
            }
        }
        Ok(())
    }
}

/// Whether there can be a topic for which both are.
fn overlap(one: &str, other: &str) -> bool {
    match (one.strip_suffix('*'), other.strip_suffix('*')) {
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
        (Some(prefix), None) => other.starts_with(prefix),
        (None, Some(prefix)) => one.starts_with(prefix),
        (None, None) => one == other,
    }
}

fn check_trigger(trigger: &NewTrigger) -> Result<(), Rejection> {
    check_topic_id("trigger_id", &trigger.id)?;
    let prefix = trigger.topic.strip_suffix('*').unwrap_or(&trigger.topic);
    if *trigger.topic != *"*" && check_topic_id("topic", prefix).is_err() {
        let limit =
            "a topic, 1 to 255 of A-Z, a-z, 0-9, _ and -, or its first characters and a * behind them";
        return Err(Rejection::out_of_range("topic", &trigger.topic, limit));
    }
    check_topic_id("group", &trigger.group)?;
    let target = trigger.target.len();
    if !(1..=limits::TARGET_BYTES_MAX).contains(&target) {
        let limit = format!("1 to {} bytes", limits::TARGET_BYTES_MAX);
        return Err(Rejection::out_of_range("target", format!("{target} bytes"), limit));
    }
    let spec = &trigger.spec;
    check_duration("retry_after", spec.retry_after, limits::RETRY_AFTER_MIN, limits::TRIGGER_WAIT_MAX)?;
    check_duration("initial_delay", spec.initial_delay, Duration::ZERO, limits::TRIGGER_WAIT_MAX)?;
    if let Some(most) = spec.max_deliveries {
        check_range("max_deliveries", most, 1, limits::PUSH_DELIVERIES_MAX)?;
    }
    if let Some(most) = spec.max_concurrency {
        check_range("max_concurrency", most, 1, limits::LEASED_MAX)?;
    }
    check_duration("visibility_timeout", spec.lease, limits::LEASE_MIN, limits::LEASE_MAX)
}
