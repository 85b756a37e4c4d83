//! The end of a world: everything is healed, everything is worked off, nothing is left.

use std::time::Duration;

use millpond_core::Command;
use millpond_core::command::{DeleteQueue, Lease, Require, Settle, SettleAction, Settlement, WaiterId};
use millpond_core::limits::IDEMPOTENCY_WINDOW_MAX;

use super::World;
use crate::auditor::{Breach, Verdict, demand};

/// Rounds in which everything has to be worked off.
const ROUNDS: u64 = 400;

impl World {
    /// Works everything off and removes it.
    pub(super) fn drain(&mut self) -> Verdict {
        self.clock.set_right();
        self.submit(Command::SetSpace { low: false });
        self.resume_queues()?;
        self.bring_all_back()?;
        for round in 1..=ROUNDS {
            if self.left()? == 0 {
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

    /// Messages that are not dead.
    fn left(&mut self) -> Result<u64, Breach> {
        let names: Vec<_> = self.auditor.names.keys().cloned().collect();
        let mut left = 0;
        for name in names {
            let counters = self.look_at(&name)?.map(|view| view.counters).unwrap_or_default();
            left += counters.ready + counters.delayed + counters.leased;
        }
        Ok(left)
    }

    fn work_off(&mut self) -> Verdict {
        let names: Vec<_> = self.auditor.names.keys().cloned().collect();
        for queue in names {
            self.submit(Command::Lease(Lease {
                queue,
                max_messages: 100,
                min_messages: 1,
                visibility_timeout: Some(Duration::from_secs(600)),
                wait: Duration::ZERO,
                max_wait: None,
                waiter: WaiterId(0),
            }));
        }
        self.rest()?;
        let hands = std::mem::take(&mut self.workload.hands);
        for chunk in hands.chunks(50) {
            let settlements = chunk.iter().filter(|hand| self.auditor.queue(&hand.queue).is_some());
            let settlements: Vec<_> = settlements
                .map(|hand| Settlement {
                    queue: hand.queue.clone(),
                    lease: hand.lease,
                    action: SettleAction::Ack,
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
        let dump = self.disk.dump()?;
        demand!(dump.deliveries.is_empty(), "left: {:?}", dump.deliveries);
        demand!(dump.messages.is_empty(), "left without a delivery: {:?}", dump.messages);
        demand!(dump.queues.is_empty(), "queues left: {:?}", dump.queues);
        demand!(dump.counters.is_empty(), "counters left: {:?}", dump.counters);
        demand!(dump.dedup.is_empty(), "keys left: {:?}", dump.dedup);
        demand!(dump.environment.dedup_count == 0, "{} keys counted", dump.environment.dedup_count);
        Ok(())
    }
}
