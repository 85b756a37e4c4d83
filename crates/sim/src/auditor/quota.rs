//! Quotas of the environment: how much there is at least, and at most, as far as clients can tell.

use millpond_core::Rejection;
use millpond_core::command::{BeginUpload, Send};
use millpond_core::row::MessageContent;

use crate::auditor::doubt::Doubt;
use crate::auditor::{Answered, Auditor, Life, Message, Verdict, demand};

/// Messages and the bytes of their contents.
#[derive(Clone, Copy, Default)]
struct Amount {
    messages: u64,
    bytes: u64,
}

impl Amount {
    fn of<'a>(contents: impl Iterator<Item = &'a MessageContent>) -> Self {
        contents.fold(Self::default(), |sum, content| Self {
            messages: sum.messages + 1,
            bytes: sum.bytes + u64::try_from(content.size_bytes()).unwrap_or(u64::MAX),
        })
    }
}

impl Auditor {
    /// What is stored for sure by the time of an answer.
    fn held_at_least(&self, answered: &Answered<'_>) -> Amount {
        let doubt = Doubt::about(&[], self);
        let stays = |message: &&Message| {
            message.life == Life::Alive
                && !self.is_tentative(message)
                && !self.may_be_gone(message, &doubt, answered.stamp)
        };
        Amount::of(self.messages.values().filter(stays).map(|message| &*message.content))
    }

    /// What may be stored.
    fn held_at_most(&self) -> Amount {
        let stored = self.messages.values().filter(|message| message.may_be_stored);
        Amount::of(stored.map(|message| &*message.content))
    }

    /// Messages were taken: the quotas allow what is there now.
    pub(super) fn check_quotas(&self, answered: &Answered<'_>) -> Verdict {
        let (held, settings) = (self.held_at_least(answered), &self.settings);
        demand!(
            held.messages <= settings.messages,
            "{} messages, limit {}",
            held.messages,
            settings.messages
        );
        demand!(held.bytes <= settings.bytes, "{} bytes of messages, limit {}", held.bytes, settings.bytes);
        Ok(())
    }

    /// Whether these sends may be refused because of a quota.
    #[must_use]
    pub fn may_exceed(&self, sends: &[Send], rejection: &Rejection) -> bool {
        let messages = sends.iter().flat_map(|send| &send.messages);
        let more = Amount::of(messages.map(|message| &*message.content));
        self.is_beyond(self.held_at_most(), more, rejection)
    }

    /// Whether an upload may be refused because of a quota. What others have announced counts as if it were there.
    #[must_use]
    pub fn upload_may_exceed(
        &self,
        begin: &BeginUpload,
        rejection: &Rejection,
        answered: &Answered<'_>,
    ) -> bool {
        let mut held = self.held_at_most();
        held.bytes += self.reserved_at_most(answered);
        self.is_beyond(held, Amount::of(std::iter::once(&*begin.message.content)), rejection)
    }

    fn is_beyond(&self, held: Amount, more: Amount, rejection: &Rejection) -> bool {
        match rejection {
            Rejection::ByteLimit { limit, .. } => {
                *limit == self.settings.bytes && held.bytes + more.bytes > *limit
            }
            Rejection::MessageLimit { limit, .. } => {
                *limit == self.settings.messages && held.messages + more.messages > *limit
            }
            _ => false,
        }
    }
}
