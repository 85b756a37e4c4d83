//! Dead letters that begin afresh: replayed in place, or moved. Answers leave in the order of these commands, so what is
//! known of a message at that time is all that clients were told before.

use std::collections::BTreeSet;

use millpond_core::command::{MoveMessages, Revive};
use millpond_core::id::{MessageId, QueueNumber};
use millpond_core::limits::RETENTION_MIN;
use millpond_core::spec::{AtLimit, QueueSpec};
use millpond_core::time::Timestamp;

use crate::auditor::{Answered, Auditor, Breach, Life, Message, Verdict, demand};

impl Auditor {
    /// Whether a message may be in a queue: where it is known to be, or where it went as a dead letter.
    pub(super) fn may_be_in(&self, message: &Message, number: QueueNumber) -> bool {
        let Some(queue) = self.queues.get(&message.queue) else { return true };
        let moves = |spec: &QueueSpec| matches!(spec.at_limit, AtLimit::MoveTo { .. });
        message.queue == number
            || self.unseen_of(message.reader, message.id).is_some()
            || queue.specs_since(message.last_asked()).any(|spec| moves(spec) && message.may_be_out(spec))
    }

    /// Whether a message may have died since it began.
    fn may_have_died(&self, message: &Message) -> bool {
        let Some(queue) = self.queues.get(&message.queue) else { return true };
        message.dead_at.is_some()
            || message.home.is_some()
            || self.unseen_of(message.reader, message.id).is_some()
            || queue.specs_since(message.last_asked()).any(|spec| message.may_be_out(spec))
    }

    /// Whether a message is in the dead-letter set of a queue for sure.
    fn is_dead_in(&self, id: &MessageId, number: QueueNumber, now: Timestamp) -> bool {
        self.message(id).is_some_and(|message| {
            message.dead_at.is_some() && message.queue == number && message.expires.0 > now
        })
    }

    /// Every message that was named is either done or skipped, in the order in which they were named.
    fn check_done(&self, named: &[MessageId], done: &[MessageId], skipped: &[MessageId]) -> Verdict {
        let mut seen = BTreeSet::new();
        let distinct: Vec<&MessageId> = named.iter().filter(|id| seen.insert(**id)).collect();
        let skips: BTreeSet<_> = skipped.iter().collect();
        let (expected_skipped, expected_done): (Vec<&MessageId>, Vec<&MessageId>) =
            distinct.into_iter().partition(|id| skips.contains(id));
        demand!(
            expected_done.into_iter().eq(done) && expected_skipped.into_iter().eq(skipped),
            "of {named:?} were done {done:?} and skipped {skipped:?}"
        );
        Ok(())
    }

    /// A message that is brought back was a dead letter in this queue.
    fn check_dead_letter(&self, id: MessageId, number: QueueNumber, answered: &Answered<'_>) -> Verdict {
        let Some(message) = self.message(&id) else {
            return Err(Breach(format!("{id} was brought back and never sent")));
        };
        demand!(message.life == Life::Alive, "{id} was brought back: it was {:?}", message.life);
        demand!(
            self.may_be_in(message, number),
            "{id} was brought back from queue {number}, where it is not"
        );
        demand!(self.may_have_died(message), "{id} was brought back with attempts left");
        let held = message.grants.values().any(|grant| grant.is_held(answered.stamp));
        demand!(!held, "{id} was brought back while it was held");
        let over = message.queue == number && message.expires.1 <= answered.submitted.stamp;
        demand!(!over, "{id} was brought back after it had expired at {:?}", message.expires.1);
        Ok(())
    }

    /// Dead letters were replayed.
    pub fn revived(
        &mut self,
        revive: &Revive,
        revived: &[MessageId],
        skipped: &[MessageId],
        answered: &Answered<'_>,
    ) -> Verdict {
        self.check_done(&revive.messages, revived, skipped)?;
        let Some(&number) = self.names.get(&revive.queue) else {
            return Err(Breach(format!("a replay of {} was taken, which is not there", revive.queue)));
        };
        for id in skipped {
            let dead = self.is_dead_in(id, number, answered.stamp);
            demand!(!dead, "{id} is dead and was not replayed");
        }
        let range = (answered.submitted.stamp.plus(RETENTION_MIN), answered.stamp.plus(RETENTION_MIN));
        for &id in revived {
            self.check_dead_letter(id, number, answered)?;
            let unseen = self.unseen_of(None, id).unwrap_or_default();
            let Some(message) = self.by_id.get(&id).and_then(|token| self.messages.get_mut(token)) else {
                continue;
            };
            message.expires = if message.queue == number {
                (message.expires.0.max(range.0), message.expires.1.max(range.1))
            } else {
                message.moved = true;
                (range.0, Timestamp::NEVER)
            };
            message.queue = number;
            message.revived = true;
            message.begin_afresh(unseen, answered.index);
        }
        Ok(())
    }

    /// Dead letters were moved.
    pub fn moved_away(
        &mut self,
        moves: &MoveMessages,
        moved: &[(MessageId, QueueNumber)],
        skipped: &[MessageId],
        answered: &Answered<'_>,
    ) -> Verdict {
        let done: Vec<MessageId> = moved.iter().map(|(id, _)| *id).collect();
        self.check_done(&moves.messages, &done, skipped)?;
        let Some(&number) = self.names.get(&moves.queue) else {
            return Err(Breach(format!("a redrive of {} was taken, which is not there", moves.queue)));
        };
        let to = moves.to.as_ref().map(|to| self.names.get(to).copied());
        demand!(to != Some(None) && to != Some(Some(number)), "a redrive to {:?} was taken", moves.to);
        for id in skipped {
            let left = to.is_some() && self.is_dead_in(id, number, answered.stamp);
            demand!(!left, "{id} is dead and was not moved");
        }
        for &(id, target) in moved {
            self.check_dead_letter(id, number, answered)?;
            let home = self.message(&id).filter(|message| message.queue == number).map(|message| {
                (message.dead_at, message.home.as_ref().map(|home| self.names.get(home).copied()))
            });
            match (to.flatten(), home) {
                (Some(to), _) => demand!(target == to, "{id} was moved to queue {target}, asked for {to}"),
                (None, Some((Some(_), _))) => {
                    return Err(Breach(format!("{id} died where it is and was moved to queue {target}")));
                }
                (None, Some((None, Some(home)))) => {
                    demand!(home == Some(target), "{id} was moved to queue {target}, its home is {home:?}");
                }
                (None, _) => {
                    let alive = target != number && self.names.values().any(|known| *known == target);
                    demand!(alive, "{id} was moved to queue {target}, which is not there");
                }
            }
            self.arrived(id, target, answered);
        }
        Ok(())
    }

    fn arrived(&mut self, id: MessageId, target: QueueNumber, answered: &Answered<'_>) {
        let retention = self.queues.get(&target).and_then(|queue| queue.spec.retention);
        let by_retention = retention.map_or(Timestamp::NEVER, |age| id.sent_at.plus(age));
        let unseen = self.unseen_of(None, id).unwrap_or_default();
        let Some(message) = self.by_id.get(&id).and_then(|token| self.messages.get_mut(token)) else {
            return;
        };
        let least = |stamp: Timestamp| by_retention.max(stamp.plus(RETENTION_MIN));
        message.expires = (least(answered.submitted.stamp), least(answered.stamp));
        message.queue = target;
        message.moved = true;
        message.revived = false;
        message.begin_afresh(unseen, answered.index);
    }
}
