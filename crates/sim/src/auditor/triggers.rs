//! Triggers as whoever makes them knows them, and what those who push have to be told of them.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::Command;
use millpond_core::command::{PutTriggers, SetSecret, TriggersOf, Trouble};
use millpond_core::outcome::TriggerView;
use millpond_core::row::{SecretRow, TriggerRow};
use millpond_core::time::Timestamp;
use millpond_engine::PushNotice;

use crate::auditor::queue::within;
use crate::auditor::{Answered, Auditor, Submitted, Verdict, demand};

/// Triggers by id.
pub(super) type Triggers = BTreeMap<Box<str>, TriggerRow>;

/// Lost commands that are tried in all ways to explain what is stored.
const EXPLAINED_MAX: usize = 8;

/// What is known of triggers.
#[derive(Clone, Debug, Default)]
pub struct TriggersModel {
    /// Those that there are.
    pub rows: Triggers,
    /// Those that there were before, each time with the time at which their end was known.
    former: Vec<(u64, Triggers)>,
    /// What was last reported of their targets.
    troubles: BTreeMap<Box<str>, Trouble>,
    /// What pushes are signed with.
    secret: SecretRow,
    /// What those who push are about to be told.
    owed: Vec<PushNotice>,
    /// They were not told yet that the environment was opened.
    owed_for_opening: bool,
}

/// The deployment that was made last.
pub(super) fn current(rows: &Triggers) -> Option<&str> {
    let deployed = rows.values().filter(|row| row.deployment.is_some());
    deployed.max_by_key(|row| row.number).and_then(|row| row.deployment.as_deref())
}

/// The trigger that answers for the messages of a partition, or of none.
pub(super) fn over<'a>(
    rows: &'a Triggers,
    (topic, group): (&str, &str),
    partition: Option<&str>,
) -> Option<&'a TriggerRow> {
    let deployment = partition.or_else(|| current(rows));
    let feeding = || rows.values().filter(|row| *row.group == *group && is_for(&row.topic, topic));
    let own = deployment.and_then(|own| feeding().find(|row| row.deployment.as_deref() == Some(own)));
    own.or_else(|| feeding().find(|row| row.deployment.is_none()))
}

/// Whether a pattern is for a topic.
pub fn is_for(pattern: &str, topic: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == topic, |prefix| topic.starts_with(prefix))
}

/// Triggers after a call, as far as it says what they are.
fn after(rows: &Triggers, command: &Command) -> Triggers {
    let mut rows = rows.clone();
    match command {
        Command::PutTriggers(put) if !put.validate_only => {
            rows.retain(|_, row| put.deployment.is_none() || row.deployment != put.deployment);
            let first = rows.values().map(|row| row.number).max().unwrap_or(0) + 1;
            for (new, number) in put.triggers.iter().zip(first..) {
                let row = TriggerRow {
                    id: new.id.clone(),
                    number,
                    uid: Default::default(),
                    created_at: Timestamp::ZERO,
                    deployment: put.deployment.clone(),
                    topic: new.topic.clone(),
                    group: new.group.clone(),
                    target: new.target.clone(),
                    spec: new.spec.clone(),
                };
                rows.insert(row.id.clone(), row);
            }
        }
        Command::DeleteTriggers(TriggersOf::Id(id)) => drop(rows.remove(id)),
        Command::DeleteTriggers(TriggersOf::Deployment(of)) => {
            rows.retain(|_, row| row.deployment.as_ref() != Some(of));
        }
        _ => {}
    }
    rows
}

/// Whether these are the same but for what the environment gave them.
fn alike(one: &Triggers, other: &Triggers) -> bool {
    let given = |row: &TriggerRow| TriggerRow {
        number: 0,
        uid: Default::default(),
        created_at: Timestamp::ZERO,
        ..row.clone()
    };
    one.len() == other.len()
        && one.values().zip(other.values()).all(|(one, other)| given(one) == given(other))
}

impl TriggersModel {
    /// Triggers as they were at some time since.
    pub(super) fn since(&self, index: u64) -> impl Iterator<Item = &Triggers> {
        let former = self.former.iter().filter(move |(until, _)| *until >= index).map(|(_, rows)| rows);
        former.chain(std::iter::once(&self.rows))
    }

    /// Whether a deployment had triggers at some time since, and whether it had some all the time.
    pub(super) fn was_deployed(&self, deployment: &str, index: u64) -> (bool, bool) {
        let is_one = |rows: &Triggers| rows.values().any(|row| row.deployment.as_deref() == Some(deployment));
        (self.since(index).any(is_one), self.since(index).all(is_one))
    }

    fn become_these(&mut self, rows: Triggers, index: u64) {
        self.former.push((index, std::mem::replace(&mut self.rows, rows)));
    }

    /// What is known of a trigger's target.
    #[must_use]
    pub fn trouble(&self, id: &str) -> Option<&Trouble> {
        self.troubles.get(id)
    }

    fn check_view(&self, view: &TriggerView) -> Verdict {
        let row = &view.trigger;
        let known = self.rows.get(&row.id);
        demand!(known == Some(row), "trigger {row:?} is shown, known is {known:?}");
        let is_current = row.deployment.is_some() && row.deployment.as_deref() == current(&self.rows);
        demand!(view.current == is_current, "{} is shown as current: {}", row.id, view.current);
        let trouble = self.troubles.get(&row.id);
        demand!(
            view.trouble.as_ref() == trouble,
            "{} is shown with {:?}, not {trouble:?}",
            row.id,
            view.trouble
        );
        Ok(())
    }
}

impl Auditor {
    /// Triggers were made, or could be.
    pub fn triggers_put(
        &mut self,
        put: &PutTriggers,
        views: &[TriggerView],
        answered: &Answered<'_>,
    ) -> Verdict {
        let command = Command::PutTriggers(PutTriggers { validate_only: false, ..put.clone() });
        let mut rows = after(&self.triggers.rows, &command);
        let highest = self.triggers.rows.values().map(|row| row.number).max().unwrap_or(0);
        let expected: Vec<_> = put.triggers.iter().map(|new| new.id.clone()).collect();
        let made: Vec<_> = views.iter().map(|view| view.trigger.id.clone()).collect();
        demand!(made == expected, "triggers {made:?} were made, asked for {expected:?}");
        let mut last = highest;
        for TriggerView { trigger: row, trouble, .. } in views {
            let (from, to) = (answered.submitted.stamp, answered.stamp);
            demand!(within(row.created_at, (from, to)), "{} was made at {:?}", row.id, row.created_at);
            demand!(row.number > last, "{} has number {}, others {last}", row.id, row.number);
            demand!(trouble.is_none() || put.validate_only, "{} is new and in trouble: {trouble:?}", row.id);
            last = row.number;
            if let Some(known) = rows.get_mut(&row.id) {
                *known = TriggerRow {
                    number: row.number,
                    uid: row.uid,
                    created_at: row.created_at,
                    ..known.clone()
                };
                demand!(known == row, "{row:?} was made, asked for {known:?}");
            }
        }
        if put.validate_only {
            return Ok(());
        }
        let gone = self.triggers.rows.keys().filter(|id| !rows.contains_key(*id)).chain(&made);
        let gone: BTreeSet<_> = gone.cloned().collect();
        self.triggers.troubles.retain(|id, _| !gone.contains(id));
        self.triggers.become_these(rows, answered.index);
        self.triggers.owed.push(PushNotice::Triggers);
        views.iter().try_for_each(|view| self.triggers.check_view(view))
    }

    /// Triggers were removed.
    pub fn triggers_deleted(
        &mut self,
        of: &TriggersOf,
        views: &[TriggerView],
        answered: &Answered<'_>,
    ) -> Verdict {
        views.iter().try_for_each(|view| self.triggers.check_view(view))?;
        let rows = after(&self.triggers.rows, &Command::DeleteTriggers(of.clone()));
        let gone = self.triggers.rows.keys().filter(|id| !rows.contains_key(*id));
        demand!(gone.eq(views.iter().map(|view| &view.trigger.id)), "{of:?} removed {views:?}");
        demand!(!views.is_empty(), "{of:?} removed nothing");
        self.triggers.troubles.retain(|id, _| rows.contains_key(id));
        self.triggers.become_these(rows, answered.index);
        self.triggers.owed.push(PushNotice::Triggers);
        Ok(())
    }

    /// All triggers are shown.
    pub fn triggers_listed(&self, views: &[TriggerView]) -> Verdict {
        let ids = views.iter().map(|view| &view.trigger.id);
        demand!(ids.eq(self.triggers.rows.keys()), "triggers {views:?} are shown");
        views.iter().try_for_each(|view| self.triggers.check_view(view))
    }

    /// Somebody said how a target is doing.
    pub fn trigger_reported(&mut self, id: &str, trouble: Option<&Trouble>) {
        self.triggers.troubles.remove(id);
        if let Some(trouble) = trouble.filter(|_| self.triggers.rows.contains_key(id)) {
            self.triggers.troubles.insert(id.into(), trouble.clone());
        }
    }

    /// The secret was set, or was there.
    pub fn secret_set(&mut self, set: &SetSecret, secret: &SecretRow, answered: &Answered<'_>) -> Verdict {
        let known = &self.triggers.secret;
        let had = !known.current.is_empty();
        if had && set.only_if_none {
            demand!(secret == known, "the secret was to stay, and is another");
            return Ok(());
        }
        let range = (answered.submitted.stamp, answered.stamp);
        demand!(secret.current == set.secret && within(secret.since, range), "another secret was set");
        let signs_on = had && !set.grace.is_zero();
        let previous = secret.previous.as_ref().filter(|_| signs_on);
        let kept = previous.is_some_and(|(before, until)| {
            *before == known.current && *until == secret.since.plus(set.grace)
        });
        demand!(
            kept == signs_on && (signs_on || secret.previous.is_none()),
            "the secret before signs: {kept}"
        );
        self.triggers.secret = secret.clone();
        self.triggers.owed.push(PushNotice::Triggers);
        Ok(())
    }

    /// A topic was made.
    pub(super) fn topic_made(&mut self, topic: &str) {
        if self.triggers.rows.values().any(|row| is_for(&row.topic, topic)) {
            self.triggers.owed.push(PushNotice::Topic(topic.into()));
        }
    }

    /// Those who push are told something.
    pub fn told_pushers(&mut self, notice: &PushNotice) -> Verdict {
        let owed = &mut self.triggers.owed;
        if let Some(at) = owed.iter().position(|one| one == notice) {
            owed.remove(at);
            return Ok(());
        }
        let opened = *notice == PushNotice::Triggers && self.triggers.owed_for_opening;
        demand!(opened, "those who push are told of {notice:?} before it is so, or for no reason");
        self.triggers.owed_for_opening = false;
        Ok(())
    }

    /// All that those who push had to be told by now was told; at rest also what came with the opening.
    pub fn check_pushers_told(&self, at_rest: bool) -> Verdict {
        let owed = &self.triggers.owed;
        demand!(owed.is_empty(), "those who push were not told of {owed:?}");
        demand!(!at_rest || !self.triggers.owed_for_opening, "those who push were not told of the opening");
        Ok(())
    }

    /// Triggers as they are found at an opening, against what is known and what lost commands may have done.
    pub fn compare_triggers(
        &mut self,
        (stored, secret): &(Vec<TriggerRow>, SecretRow),
        lost: &[Submitted],
        index: u64,
    ) -> Verdict {
        let stored: Triggers = stored.iter().map(|row| (row.id.clone(), row.clone())).collect();
        let lost: Vec<&Command> = lost.iter().map(|one| &one.command).collect();
        let concerned =
            |command: &&Command| matches!(command, Command::PutTriggers(_) | Command::DeleteTriggers(_));
        let touching: Vec<&Command> = lost.iter().copied().filter(concerned).collect();
        let mut states = vec![self.triggers.rows.clone()];
        if touching.len() <= EXPLAINED_MAX {
            for command in touching {
                let more: Vec<_> = states.iter().map(|rows| after(rows, command)).collect();
                states.extend(more);
            }
            let explained = states.iter().any(|rows| alike(rows, &stored));
            demand!(explained, "triggers {stored:?} are stored, known are {:?}", self.triggers.rows);
        }
        demand!(states.len() > 1 || stored == self.triggers.rows, "triggers {stored:?} are stored");
        // Each of them may have counted for a while.
        self.triggers.former.extend(states.into_iter().map(|rows| (index, rows)));
        self.triggers.rows = stored;
        let may_be =
            |command: &&Command| matches!(command, Command::SetSecret(set) if set.secret == secret.current);
        let known = *secret == self.triggers.secret || lost.iter().any(may_be);
        demand!(
            known,
            "the secret of {:?} is stored, known is that of {:?}",
            secret.since,
            self.triggers.secret.since
        );
        self.triggers.secret = secret.clone();
        self.triggers.troubles.clear();
        self.triggers.owed.clear();
        self.triggers.owed_for_opening = !self.triggers.rows.is_empty();
        Ok(())
    }
}
