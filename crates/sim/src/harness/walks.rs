//! Replay and redrive as the engine does them, step by step among everything else.

use std::time::Duration;

use millpond_core::command::{Browse, Idempotency, WaiterId};
use millpond_core::limits::BROWSE_MESSAGES_MAX;
use millpond_core::outcome::Tally;
use millpond_core::row::DeliveryState;
use millpond_core::spec::AtLimit;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};
use millpond_engine::{BulkStep, BulkWalk, Which};

use super::World;
use crate::auditor::{Breach, Submitted, Verdict, demand};
use crate::names::{Kind, kind_of};

/// Keys to choose from.
const KEYS: u64 = 40;

impl World {
    fn queue_names(&self) -> Vec<Box<str>> {
        let known = self.auditor.names.keys().filter(|name| kind_of(name) == Kind::Queue);
        known.cloned().collect()
    }

    /// Somebody brings dead letters back.
    pub(super) fn start_a_walk(&mut self) {
        let known: Vec<_> = self.queue_names();
        let dead = self.auditor.messages.values();
        let dead = dead.filter(|message| message.dead_at.is_some() || message.home.is_some());
        let dead: Vec<_> = dead.map(|message| (message.queue, message.id)).collect();
        let random = &mut self.streams.workload;
        let likely = random.pick(&dead).and_then(|(number, _)| self.auditor.queues.get(number));
        let own = likely.map(|queue| queue.number);
        let likely = likely.filter(|queue| queue.alive).map(|queue| queue.name.clone());
        let Some(queue) = likely.or_else(|| random.pick(&known).cloned()) else { return };
        let mut messages: Vec<_> = self.auditor.messages.values().map(|message| message.id).collect();
        let own: Vec<_> = dead.iter().filter(|(number, _)| Some(*number) == own).map(|(_, id)| *id).collect();
        if !own.is_empty() && random.chance(600) {
            messages = own;
        }
        let which = match random.below(4) {
            0 => Which::Messages((0..3).filter_map(|_| random.pick(&messages).copied()).collect()),
            1 => {
                let from = random.pick(&messages).map(|id| id.sent_at.plus(random.millis(0, 30_000)));
                Which::Died { from, until: from.map(|from| from.plus(random.millis(1, 60_000))) }
            }
            _ => Which::Died { from: None, until: None },
        };
        let walk = if random.chance(500) {
            BulkWalk::replay(&queue, which)
        } else {
            let to = random.chance(400).then(|| random.pick(&known).cloned()).flatten();
            BulkWalk::redrive(&queue, to.as_deref(), which)
        };
        let walk = match random.pick(&self.workload.walks).cloned().filter(|_| random.chance(300)) {
            Some(known) => known,
            None => {
                let digest = u128::from(self.workload.token()) * 2;
                let key = format!("walk {}", random.below(KEYS)).into();
                let keyed = random.chance(500);
                walk.once(keyed.then_some(Idempotency { key, digest }))
            }
        };
        self.workload.walks.push(walk.clone());
        self.begin_walk(walk);
    }

    fn begin_walk(&mut self, mut walk: BulkWalk) {
        if let BulkStep::Submit(command) = walk.begin() {
            let ticket = self.submit(command);
            self.walks.insert(ticket, walk);
        }
    }

    /// A step of a walk was answered.
    pub(super) fn walk_on(&mut self, submitted: &Submitted, outcome: &Outcome) {
        let Some(mut walk) = self.walks.remove(&submitted.ticket) else { return };
        match walk.go_on(outcome.clone()) {
            BulkStep::Submit(command) => {
                let ticket = self.submit(command);
                self.walks.insert(ticket, walk);
            }
            BulkStep::Done(done) => {
                self.trace.note(|| format!("bulk verb done: {done:?}"));
                self.coverage.bulk(&done);
                self.walked = done.ok();
            }
        }
    }

    /// With nobody else there, a replay brings back every dead letter of a queue, and a redrive to another queue moves it.
    pub(super) fn bring_all_back(&mut self) -> Verdict {
        let names = self.queue_names();
        for name in &names {
            let Some(view) = self.look_at(name)? else { continue };
            let (dead, died) = (view.counters.dead, view.counters.total_dead);
            let began_at = self.environment.stamp();
            let elsewhere = matches!(view.queue.spec.at_limit, AtLimit::MoveTo { .. });
            let other = names.iter().find(|other| *other != name);
            let all = Which::Died { from: None, until: None };
            let walk = match other {
                Some(other) if elsewhere => BulkWalk::redrive(name, Some(&**other), all),
                _ if elsewhere => continue,
                _ => BulkWalk::replay(name, all),
            };
            self.walked = None;
            self.begin_walk(walk);
            self.rest()?;
            let Tally { done, .. } = self.walked.unwrap_or_default().tally;
            // Leases still run out: what dies meanwhile may be met or not.
            let left = self.dead_by(name, began_at)?;
            demand!(left == 0, "{left} of {dead} dead letters of {name} are left, {done} were brought back");
            let died = self.look_at(name)?.map_or(0, |view| view.counters.total_dead).saturating_sub(died);
            // Some may have expired on the way; a redrive takes those along that came as dead letters.
            demand!(
                elsewhere || done <= dead + died,
                "{done} of {dead} dead letters of {name} were brought back, {died} died meanwhile"
            );
        }
        Ok(())
    }

    /// Dead letters of a queue that died by then.
    fn dead_by(&mut self, name: &str, died_by: Timestamp) -> Result<usize, Breach> {
        let browse = Browse {
            queue: name.into(),
            state: DeliveryState::Dead,
            after: None,
            from: None,
            until: Some(died_by.plus(Duration::from_millis(1))),
            limit: BROWSE_MESSAGES_MAX,
            contents: false,
            waiter: WaiterId(0),
        };
        match self.ask(Command::Browse(browse))?.outcome {
            Outcome::Browsed(page) => Ok(page.deliveries.len()),
            other => Err(Breach(format!("{name} could not be looked at: {other:?}"))),
        }
    }
}
