//! Purges of topics, partitions and groups. A topic's messages leave for all groups, but for what these have in hand; a group skips
//! what is visible, and others do not.

use std::collections::BTreeSet;

use millpond_core::id::{LeaseGeneration, QueueNumber};
use millpond_core::row::Role;

use crate::auditor::{Answered, Auditor, Life, Message, Token, Verdict, demand};

impl Auditor {
    /// A topic or a partition was purged: so many of its messages left.
    pub(super) fn purged_logs(
        &mut self,
        number: QueueNumber,
        count: u64,
        answered: &Answered<'_>,
    ) -> Verdict {
        let part = Role::Partition { topic: number };
        let logs = self.queues.values().filter(|log| log.alive && (log.number == number || log.role == part));
        let logs: BTreeSet<QueueNumber> = logs.map(|log| log.number).collect();
        let mut tokens = BTreeSet::new();
        let mut certain = 0;
        for (token, message) in &mut self.messages {
            if message.life != Life::Alive || !logs.contains(&message.queue) {
                continue;
            }
            certain += u64::from(message.expires.0 > answered.stamp);
            tokens.insert(*token);
            message.purged = Some(answered.stamp);
            message.is_removed(LeaseGeneration::default(), answered.index);
            if let Some(log) = self.queues.get_mut(&message.queue) {
                log.purged_through = log.purged_through.max(message.id.sequence);
            }
        }
        let most = u64::try_from(tokens.len()).unwrap_or(u64::MAX);
        demand!(
            (certain..=most).contains(&count),
            "a purge removed {count} messages, of {certain} to {most}"
        );
        for ((_, token), own) in &mut self.progress {
            if tokens.contains(token) {
                own.purged = Some(answered.stamp);
                own.changed = answered.index;
            }
        }
        for log in logs {
            if let Some(log) = self.queues.get_mut(&log) {
                log.etag.clear();
                log.emptied = answered.index;
            }
        }
        Ok(())
    }

    /// A group was purged: so many messages will not be handed out to it.
    pub(super) fn purged_group(
        &mut self,
        number: QueueNumber,
        count: u64,
        answered: &Answered<'_>,
    ) -> Verdict {
        let topic = self.topic_number(number);
        let of_topic = |(_, message): &(&Token, &Message)| {
            let log = self.queues.get(&message.queue).is_some_and(|log| log.alive);
            log && message.life == Life::Alive && self.topic_number(message.queue) == topic
        };
        let (mut skipped, mut unsure) = (Vec::new(), Vec::new());
        // What came back may be counted for a while after its message has left.
        let left = |own: &&Message| {
            own.life == Life::Alive && self.message(&own.id).is_none_or(|sent| sent.life != Life::Alive)
        };
        let mut most = u64::try_from(self.deliveries_in(number).filter(left).count()).unwrap_or(u64::MAX);
        let mut certain = 0;
        for (token, message) in self.messages.iter().filter(of_topic) {
            most += 1;
            if self.progress.contains_key(&(number, *token)) {
                continue;
            }
            let behind = self.is_behind(number, message, *token);
            let hidden = message.id.sent_at.plus(message.delay) > answered.stamp;
            if hidden {
                continue;
            }
            let unseen = self.unseen_of(Some(number), message.id).is_some();
            if unseen || behind.is_none() || !message.was_ready_at_once() {
                unsure.push(*token);
                continue;
            }
            certain += u64::from(behind == Some(false) && message.expires.0 > answered.stamp);
            let mut own = Message::of_group(message, number, message.id.sequence, answered.index);
            own.life = Life::Gone;
            skipped.push((*token, own));
        }
        demand!(
            (certain..=most).contains(&count),
            "a purge skipped {count} messages, of {certain} to {most}"
        );
        self.progress.extend(skipped.into_iter().map(|(token, own)| ((number, token), own)));
        let own = (number, Token::MIN)..=(number, Token::MAX);
        for (_, own) in self.progress.range_mut(own) {
            own.purged = Some(answered.stamp);
            own.changed = answered.index;
        }
        if let Some(group) = self.queues.get_mut(&number) {
            group.perhaps_skipped.extend(unsure.into_iter().map(|token| (token, answered.stamp)));
        }
        Ok(())
    }
}
