//! Who of a log may be handed out to a group before whom: messages in the order of their numbers, and, where the group wants it,
//! those that it never had before those that came back.

use millpond_core::command::Reading;
use millpond_core::id::QueueNumber;
use millpond_core::limits::LEASE_MIN;
use millpond_core::outcome::Grant as Granted;
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;

use crate::auditor::{Answered, Auditor, Breach, Message, Token, Verdict};
use crate::names::id_of;

/// What a lease call of a group got of a log.
#[derive(Clone, Debug)]
pub(super) struct HandedOfLog {
    /// When, or the latest time at which it can have been.
    at: Timestamp,
    /// When the call was submitted.
    asked: u64,
    /// The partition that it read, by name; `None`: all.
    pinned: Option<Box<str>>,
    /// It read messages of no partition as well.
    unpinned: bool,
    /// `None`: nothing.
    got: Option<Got>,
}

#[derive(Clone, Copy, Debug)]
struct Got {
    log: QueueNumber,
    retried: bool,
    /// When its send was answered: messages get their numbers in that order, unless they are delayed.
    sent_index: u64,
}

impl HandedOfLog {
    fn reads(&self, log: &str) -> bool {
        let of_none = !log.contains("/partitions/");
        self.pinned.as_deref().is_none_or(|pinned| if of_none { self.unpinned } else { id_of(log) == pinned })
    }
}

impl Auditor {
    /// Remembers what was handed out, for those who come later.
    pub(super) fn hand_out_of_logs(
        &mut self,
        number: QueueNumber,
        reading: &Reading,
        grants: &[Granted],
        answered: &Answered<'_>,
    ) {
        let Some(group) = self.queues.get(&number) else { return };
        // What it leaves to deployments depends on the triggers that there are by then.
        if reading.pushes && reading.partition.is_none() {
            return;
        }
        let asked = answered.submitted.index;
        let is_limited = |spec: &QueueSpec| spec.concurrency_max.is_some() || spec.leased_max < 1_000;
        let by_triggers = self.trigger_limits_since(group, asked).into_iter().any(|limit| limit < u32::MAX);
        let limited =
            reading.in_flight_max.is_some() || by_triggers || group.specs_since(asked).any(is_limited);
        let prompt = answered.stamp.since(answered.submitted.stamp) < LEASE_MIN;
        let (pinned, unpinned) = (&reading.partition, reading.unpinned);
        let made = |at, got| HandedOfLog { at, asked, pinned: pinned.clone(), unpinned, got };
        let mut handed = Vec::new();
        if grants.is_empty() && !limited && prompt {
            handed.push(made(answered.stamp, None));
        }
        for grant in grants {
            let Some(message) = self.message(&grant.message) else { continue };
            let (log, sent_index) = (message.queue, message.sent_index);
            let retried = grant.delivery_count > 1;
            // What was taken by its id and taken back comes uncounted, at its own time.
            let known = self.delivery(Some(number), &grant.message);
            let unseen = self.unseen_of(Some(number), grant.message).is_some();
            let first = !unseen && known.is_some_and(Message::was_granted_once);
            if sent_index > group.order_changed && (retried || first) {
                handed.push(made(grant.leased_at, Some(Got { log, retried, sent_index })));
            }
        }
        if let Some(group) = self.queues.get_mut(&number) {
            group.handed_of_logs.extend(handed);
        }
    }

    /// A group gets a message for the first time, at `at`: was it passed over before?
    pub(super) fn check_not_passed_over_in_log(
        &self,
        number: QueueNumber,
        message: &Message,
        token: Token,
        at: Timestamp,
    ) -> Verdict {
        let (Some(group), Some(log)) = (self.queues.get(&number), self.queues.get(&message.queue)) else {
            return Ok(());
        };
        let sent = message.sent_index;
        let known = message.sent_era == self.era && sent > group.order_changed && message.was_ready_at_once();
        if !known || self.is_behind(number, message, token) != Some(false) {
            return Ok(());
        }
        for handed in group.handed_of_logs.iter().filter(|handed| handed.reads(&log.name)) {
            if handed.asked <= sent || handed.at >= at {
                continue;
            }
            let wrong = match handed.got {
                None => !group.paused && group.pause_changed < handed.asked,
                Some(got) if got.log != message.queue => false,
                Some(got) if got.retried => group.spec.fresh_first,
                Some(got) => got.sent_index > sent,
            };
            if wrong {
                let (name, id) = (&group.name, message.id);
                return Err(Breach(format!(
                    "{id} was ready for {name} at {:?} when a call got {:?}; it was granted at {at:?}",
                    handed.at, handed.got
                )));
            }
        }
        Ok(())
    }
}
