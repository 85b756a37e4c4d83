//! The end of a world: everything is healed, everything is worked off, nothing is left.

use std::time::Duration;

use millpond_core::Command;
use millpond_core::command::{
    DeleteQueue, Holder, Lease, Reading, Require, Settle, SettleAction, Settlement, TriggersOf, WaiterId,
};
use millpond_core::limits::{GROUP_UNUSED_MAX, IDEMPOTENCY_WINDOW_MAX};
use millpond_core::spec::Order;

use super::World;
use crate::auditor::{Breach, Verdict, demand};
use crate::names::{Kind, kind_of};
use crate::workload::is_poisoned;

/// Rounds in which everything has to be worked off.
const ROUNDS: u64 = 400;

/// When what fails for ever comes again where it keeps its place before the others, and a group that may have few leases at a time
/// would come to nothing else.
const POISONED_COMES_AGAIN_AFTER: Duration = Duration::from_secs(3_600);

impl World {
    /// Works everything off and removes it.
    pub(super) fn drain(&mut self) -> Verdict {
        self.clock.set_right();
        self.submit(Command::SetSpace { low: false });
        self.resume_queues()?;
        self.bring_all_back()?;
        for round in 1..=ROUNDS {
            if self.left()? == 0 {
                self.leave_unused()?;
                return self.remove_everything();
            }
            self.work_off()?;
            // The longest lease lasts twelve hours.
            self.clock.pass(self.streams.latency.millis(100, 3_000 * round));
        }
        Err(Breach(format!("it does not drain: {} messages are left", self.left()?)))
    }

    fn resume_queues(&mut self) -> Verdict {
        let names: Vec<_> = self.auditor.names.keys().cloned().collect();
        for queue in names {
            self.submit(Command::ResumeQueue { queue });
        }
        self.rest()
    }

    /// Messages that are not dead, and those that a group did not settle and that do not fail for ever.
    fn left(&mut self) -> Result<u64, Breach> {
        let names: Vec<_> = self.auditor.names.keys().cloned().collect();
        let mut left = 0;
        for name in names {
            match kind_of(&name) {
                Kind::Queue => {
                    let counters = self.look_at(&name)?.map(|view| view.counters).unwrap_or_default();
                    left += counters.ready + counters.delayed + counters.leased;
                }
                Kind::Group => left += self.auditor.owed(&name),
                Kind::Partition | Kind::Topic => {}
            }
        }
        Ok(left)
    }

    fn work_off(&mut self) -> Verdict {
        let sources = self.auditor.names.keys();
        let sources = sources.filter(|name| matches!(kind_of(name), Kind::Group | Kind::Queue));
        for queue in sources.cloned().collect::<Vec<_>>() {
            self.lease_all(queue);
        }
        self.rest()?;
        let hands = std::mem::take(&mut self.workload.hands);
        for chunk in hands.chunks(50) {
            let settlements = chunk.iter().filter(|hand| self.auditor.queue(&hand.queue).is_some());
            let settlements: Vec<_> = settlements
                .map(|hand| Settlement {
                    queue: hand.queue.clone(),
                    lease: hand.lease,
                    action: if is_poisoned(&self.auditor, &hand.lease.message) {
                        SettleAction::Nack(Some(self.poisoned_waits(&hand.queue)))
                    } else {
                        SettleAction::Ack
                    },
                    holder: Holder::default(),
                })
                .collect();
            if !settlements.is_empty() {
                let settle = Settle { settlements, sends: Vec::new(), require: Require::Fresh };
                self.submit(Command::Settle(settle));
            }
        }
        self.workload.retired.extend(hands);
        self.rest()
    }

    fn poisoned_waits(&self, group: &str) -> Duration {
        let order = self.auditor.queue(group).map(|group| group.spec.order);
        if order == Some(Order::Sent) { POISONED_COMES_AGAIN_AFTER } else { Duration::ZERO }
    }

    fn lease_all(&mut self, queue: Box<str>) {
        self.submit(Command::Lease(Lease {
            queue,
            max_messages: 100,
            min_messages: 1,
            visibility_timeout: Some(Duration::from_secs(600)),
            wait: Duration::ZERO,
            max_wait: None,
            waiter: WaiterId(0),
            reading: Reading::default(),
        }));
    }

    /// Groups that nobody reads and partitions that are empty go by themselves; a group that is read stays, and so does one that
    /// a trigger feeds, as long as it does.
    fn leave_unused(&mut self) -> Verdict {
        self.auditor.unused_go = true;
        self.leave_unused_but_fed()?;
        let groups = self.auditor.names.keys().filter(|name| kind_of(name) == Kind::Group);
        for group in groups.cloned().collect::<Vec<_>>() {
            self.lease_all(group);
        }
        self.rest()?;
        let ids: Vec<_> = self.auditor.triggers.rows.keys().cloned().collect();
        for id in ids {
            self.submit(Command::DeleteTriggers(TriggersOf::Id(id)));
        }
        self.leave_unused_but_fed()
    }

    fn leave_unused_but_fed(&mut self) -> Verdict {
        let groups = self.auditor.names.keys().filter(|name| kind_of(name) == Kind::Group);
        let groups: Vec<_> = groups.cloned().collect();
        let used = self.streams.latency.pick(&groups).cloned();
        for _ in 0..2 {
            self.clock.pass(GROUP_UNUSED_MAX / 2 + Duration::from_secs(3600));
            self.rest()?;
            if let Some(used) = &used {
                self.lease_all(used.clone());
                self.rest()?;
            }
        }
        // They are looked for every hour, and messages expire before.
        self.clock.pass(Duration::from_secs(2 * 3600));
        self.rest()?;
        let stays = |name: &str| self.auditor.is_fed(name) || used.as_deref() == Some(name);
        let expected: Vec<_> = groups.iter().filter(|name| stays(name)).collect();
        let parts =
            self.auditor.names.keys().filter(|name| matches!(kind_of(name), Kind::Group | Kind::Partition));
        let left: Vec<_> = parts.collect();
        demand!(left == expected, "{left:?} are left, {expected:?} are used or fed");
        Ok(())
    }

    /// Deletes every queue; in the end nothing is stored.
    fn remove_everything(&mut self) -> Verdict {
        let names: Vec<_> = self.auditor.names.keys().cloned().collect();
        for name in names {
            self.submit(Command::DeleteQueue(DeleteQueue {
                name,
                etag: None,
                allow_missing: false,
                force: true,
                validate_only: false,
            }));
        }
        self.rest()?;
        self.clock.pass(IDEMPOTENCY_WINDOW_MAX + Duration::from_secs(60));
        for _ in 0..3 {
            self.rest()?;
            self.clock.pass(Duration::from_secs(5));
        }
        self.rest()?;
        let dump = self.dump()?;
        demand!(dump.deliveries.is_empty(), "left: {:?}", dump.deliveries);
        demand!(dump.messages.is_empty(), "left without a delivery: {:?}", dump.messages);
        demand!(dump.queues.is_empty(), "queues left: {:?}", dump.queues);
        demand!(dump.counters.is_empty(), "counters left: {:?}", dump.counters);
        demand!(dump.segments.is_empty(), "segments left: {:?}", dump.segments);
        demand!(dump.runs.is_empty(), "runs left: {:?}", dump.runs);
        demand!(dump.dedup.is_empty(), "keys left: {:?}", dump.dedup);
        demand!(dump.chunks.is_empty(), "{} chunks left", dump.chunks.len());
        demand!(dump.uploads.is_empty(), "uploads left: {:?}", dump.uploads);
        demand!(dump.environment.dedup_count == 0, "{} keys counted", dump.environment.dedup_count);
        Ok(())
    }
}
