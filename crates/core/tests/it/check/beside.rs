//! What is written beside the owner, from words: `beside send a b`, `beside complete a#1`, `beside fail a#1 delay=5`, `beside extend
//! a#1 by=60`, `beside cancel a`, `beside allow`; `take_in` takes in what was written since. `hold a#1` and `let_go a#1` are an open
//! transaction's, `claims` shows whose keys are stored.

use std::sync::Arc;

use millpond_core::command::{MessageRef, NewMessage};
use millpond_core::external::{ExternalAction, ExternalSend, ExternalSettle};
use millpond_core::id::{MessageId, Sequence};
use millpond_core::row::{Data, DataKind, MessageContent};
use millpond_core::{Claim, Command, External, ExternalCommand, ExternalId, LeaseKey};

use super::words::{Words, time};
use super::world::World;

impl World {
    /// What is no command of a client's; `None`: it is one.
    pub(super) fn happen_beside(&mut self, words: &Words<'_>) -> Option<Vec<String>> {
        match words.verb {
            "beside" => self.write_beside(words),
            "hold" => {
                let key = self.key_of(words.bare[0]);
                self.store.claims.insert(key, Claim::Held);
            }
            "let_go" => {
                let key = self.key_of(words.bare[0]);
                self.store.claims.remove(&key);
            }
            "leases_wait" => self.core.set_leases_wait(true),
            "leases_end" => self.core.set_leases_wait(false),
            "claims" => {
                let claims = self.store.claims.iter();
                let shown = claims.map(|(key, claim)| format!("{}:{claim:?}", key.delivery).to_lowercase());
                let shown: Vec<_> = shown.collect();
                return Some(vec![if shown.is_empty() { "none".to_owned() } else { shown.join(" ") }]);
            }
            "asked" => return Some(vec![format!("{:?}", std::mem::take(&mut self.asked))]),
            "busy" => self.core.set_busy(true),
            _ => return None,
        }
        Some(Vec::new())
    }

    pub(super) fn take_in(&mut self) -> Command {
        Command::TakeExternal(std::mem::take(&mut self.written))
    }

    fn key_of(&self, lease: &str) -> LeaseKey {
        let (lease, _) = self.lease_of(lease);
        LeaseKey { delivery: lease.delivery, generation: lease.generation }
    }

    fn write_beside(&mut self, words: &Words<'_>) {
        let queue: Box<str> = words.get("queue").unwrap_or("jobs").into();
        let subject = |at: usize| words.bare.get(at).copied().unwrap_or_default();
        match subject(0) {
            "send" => {
                for name in words.bare.iter().skip(1) {
                    let send = self.sent_beside(words, name, &queue);
                    self.write(ExternalCommand::Send(Box::new(send)));
                }
            }
            verb @ ("complete" | "fail") => {
                let (lease, _) = self.lease_of(subject(1));
                let key = self.key_of(subject(1));
                self.store.claims.insert(key, Claim::Settled);
                let action = match verb {
                    "complete" => ExternalAction::Complete { output: None },
                    _ => ExternalAction::Fail { output: None, delay: words.time("delay") },
                };
                self.write(ExternalCommand::Settle(ExternalSettle { lease, action }));
            }
            "extend" => {
                let (lease, of) = self.lease_of(subject(1));
                let by = words.time("by").unwrap_or_default();
                self.write(ExternalCommand::Extend { queue: of.into(), lease, by });
            }
            "cancel" => {
                let message = self.message(subject(1));
                self.write(ExternalCommand::Cancel(MessageRef { queue, message }));
            }
            "allow" => self.write(ExternalCommand::AllowSettle { queue }),
            other => panic!("{other} cannot be done from beside"),
        }
    }

    fn write(&mut self, command: ExternalCommand) {
        self.last_written += 1;
        self.written.push(External { id: ExternalId(self.last_written), command });
    }

    fn sent_beside(&mut self, words: &Words<'_>, name: &str, queue: &str) -> ExternalSend {
        self.last_written += 1;
        let sequence = Sequence(Sequence::FIRST_EXTERNAL.0 + self.last_written);
        let message = MessageId { sent_at: self.now, sequence, nonce: 9 };
        self.messages.insert(name.to_owned(), message);
        self.names.insert(message, name.to_owned());
        let data = words.number("bytes").map_or_else(|| name.as_bytes().to_vec(), |bytes| vec![b'x'; bytes]);
        let content =
            MessageContent { attributes: "{}".into(), data_kind: DataKind::Text, data: Data::from(data) };
        ExternalSend {
            queue: queue.into(),
            partition: words.get("partition").map(Into::into),
            message,
            content: NewMessage {
                content: Arc::new(content),
                delay: words.time("delay"),
                priority: words.number("priority").unwrap_or(0),
                time_to_live: words.time("ttl"),
            },
            visible_at: words.get("visible").map(time),
            key: words.get("key").map(Into::into),
        }
    }
}
