//! Sends with an idempotency key: sent once within the window, answered alike ever after.

use std::time::Duration;

use millpond_core::command::Send;
use millpond_core::id::MessageId;
use millpond_core::limits::IDEMPOTENCY_WINDOW_MAX;
use millpond_core::outcome::Sent;
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;

use crate::auditor::{Answered, Auditor, Breach, Verdict, demand};

/// A send that its queue remembers.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// What the key stands for.
    pub digest: u128,
    /// The ids of the first answer, if it was seen.
    pub ids: Option<Vec<MessageId>>,
    /// Until when.
    pub expires_at: Timestamp,
}

/// How long a queue remembers a key.
pub(super) fn remembered_until(spec: &QueueSpec, sent_at: Timestamp) -> Timestamp {
    let window = spec.retention.unwrap_or(IDEMPOTENCY_WINDOW_MAX).min(IDEMPOTENCY_WINDOW_MAX);
    sent_at.plus(window)
}

/// How long a topic remembers the key of a send at most: no longer than its messages live.
fn shortest_life(send: &Send) -> Duration {
    let lives = send.messages.iter().filter_map(|message| message.time_to_live);
    lives.min().unwrap_or(IDEMPOTENCY_WINDOW_MAX)
}

impl Auditor {
    /// A send was answered, alone or in a settle.
    pub fn send_answered(&mut self, send: &Send, sent: &Sent, answered: &Answered<'_>) -> Verdict {
        demand!(!self.space_low, "a send was taken although there is no room");
        let Some(queue) = self.queue(&send.queue) else {
            return Err(Breach(format!("a send to {} was taken, which is not there", send.queue)));
        };
        let Some(idempotency) = &send.idempotency else {
            demand!(!sent.repeated, "a send without a key was answered as repeated");
            self.sent(send, &sent.ids, answered)?;
            return self.check_quotas(answered);
        };
        let name = (queue.number, idempotency.key.clone());
        let known = self.dedup.get(&name);
        if sent.repeated {
            let Some(known) = known else {
                return Err(Breach(format!("key {} was answered as repeated, but is new", idempotency.key)));
            };
            demand!(known.digest == idempotency.digest, "key {} stands for two sends", idempotency.key);
            demand!(
                known.ids.as_ref().is_none_or(|ids| *ids == sent.ids),
                "key {} was answered with other ids than before",
                idempotency.key
            );
            demand!(
                known.expires_at > answered.submitted.stamp,
                "key {} was remembered beyond its window",
                idempotency.key
            );
            return Ok(());
        }
        demand!(
            known.is_none_or(|known| known.expires_at <= answered.stamp),
            "key {} of queue {} was sent twice within its window",
            idempotency.key,
            send.queue
        );
        let sent_at = sent.ids.first().map_or(Timestamp::ZERO, |id| id.sent_at);
        let by_queue = remembered_until(&queue.spec, sent_at);
        let by_messages = sent_at.plus(shortest_life(send));
        let expires_at = if queue.role.is_log() { by_queue.min(by_messages) } else { by_queue };
        let remembered = Remembered { digest: idempotency.digest, ids: Some(sent.ids.clone()), expires_at };
        self.dedup.insert(name, remembered);
        self.sent(send, &sent.ids, answered)?;
        self.check_quotas(answered)
    }

    /// A key was refused because it stands for another send.
    pub fn key_reused(&self, send: &Send, answered: &Answered<'_>) -> bool {
        let Some(idempotency) = &send.idempotency else { return false };
        let Some(queue) = self.queue(&send.queue) else { return false };
        let known = self.dedup.get(&(queue.number, idempotency.key.clone()));
        known.is_some_and(|known| {
            known.digest != idempotency.digest && known.expires_at > answered.submitted.stamp
        })
    }

    /// Whether as many keys may be remembered as are allowed.
    #[must_use]
    pub fn keys_may_be_full(&self, limit: u64) -> bool {
        u64::try_from(self.dedup.len() + self.calls.len()).is_ok_and(|known| known >= limit)
    }
}
