//! A line's words as the command that they ask for.

use std::sync::Arc;

use millpond_core::Command;
use millpond_core::command::{
    AppendUpload, BeginUpload, Browse, CreateQueue, DeleteQueue, FinishUpload, Holder, Idempotency, Lease,
    LeaseMessage, Listed, MessageRef, MoveMessages, NewMessage, OpenData, PurgeTarget, Reading, Require,
    Revive, Send, Settle, SettleAction, Settlement, Start, UpdateQueue, WaiterId,
};
use millpond_core::id::MessageId;
use millpond_core::outcome::Tally;
use millpond_core::row::{Data, DataKind, MessageContent};

use super::triggers;
use super::words::{Words, spec, state, time};
use super::world::World;

impl World {
    fn named(&self, words: &Words<'_>) -> Vec<MessageId> {
        let times = words.number("times").unwrap_or(1);
        let once: Vec<_> = words.bare.iter().map(|name| self.message(name)).collect();
        once.repeat(times)
    }

    pub(super) fn command(&mut self, words: &Words<'_>) -> Command {
        let queue = || -> Box<str> { words.get("queue").unwrap_or("jobs").into() };
        match words.verb {
            "create" => Command::CreateQueue(CreateQueue {
                name: words.bare[0].into(),
                start: if words.get("start") == Some("latest") { Start::Latest } else { Start::Earliest },
                spec: spec(words),
                annotations: "{}".into(),
                validate_only: words.has("validate_only"),
            }),
            "update" => Command::UpdateQueue(UpdateQueue {
                name: words.bare[0].into(),
                spec: spec(words),
                annotations: words.get("annotations").unwrap_or("{}").into(),
                etag: words.get("etag").map(|revision| self.etag(words.bare[0], revision)),
                allow_missing: words.has("allow_missing"),
                validate_only: words.has("validate_only"),
            }),
            "delete" => Command::DeleteQueue(DeleteQueue {
                name: words.bare[0].into(),
                etag: None,
                allow_missing: words.has("allow_missing"),
                force: words.has("force"),
                validate_only: false,
            }),
            "list" => Command::ListQueues {
                listed: listed(words),
                after: words.get("after").map(Into::into),
                descending: words.has("descending"),
                limit: words.number("limit").unwrap_or(50),
            },
            "browse" => Command::Browse(self.browse(words, queue())),
            "get" => {
                let message = self.message(words.bare[0]);
                Command::GetMessage(MessageRef { queue: queue(), message })
            }
            "remove" => {
                let message = self.message(words.bare[0]);
                Command::DeleteMessage(MessageRef { queue: queue(), message })
            }
            "revive" => Command::Revive(Revive {
                queue: queue(),
                messages: self.named(words),
                before: Tally::default(),
            }),
            "move" => Command::MoveMessages(MoveMessages {
                queue: queue(),
                messages: self.named(words),
                to: words.get("to").map(Into::into),
                before: Tally::default(),
            }),
            "send" => Command::Send(self.send(words, &words.bare, &queue())),
            "lease" => Command::Lease(self.lease(words, queue())),
            "take" => Command::LeaseMessage(LeaseMessage {
                queue: queue(),
                message: self.message(words.bare[0]),
                visibility_timeout: words.time("timeout"),
                reading: reading(words),
            }),
            "cancel" => Command::CancelWait(self.waiter(words.bare[0])),
            "take_in" => self.take_in(),
            "undo" => Command::Undo(words.bare.iter().map(|text| self.lease_of(text).0).collect()),
            "settle" | "ack" | "nack" | "extend" | "end_call" | "reserve" => {
                Command::Settle(self.settle(words))
            }
            "show" | "pause" | "resume" | "purge" => command_on_queue(words, queue()),
            _ => triggers::command(words, &self.triggers)
                .unwrap_or_else(|| self.further_command(words, queue())),
        }
    }

    fn further_command(&mut self, words: &Words<'_>, queue: Box<str>) -> Command {
        match words.verb {
            "space" => Command::SetSpace { low: words.has("low") },
            "held" => {
                let (lease, queue) = self.lease_of(words.bare[0]);
                Command::LeaseState { queue: queue.into(), lease }
            }
            "begin" => Command::BeginUpload(self.begin(words, queue)),
            "append" => Command::AppendUpload(self.append(words)),
            "finish" => Command::FinishUpload(self.finish(words, &queue)),
            "give_up" => Command::CancelUpload(self.uploads[words.bare[0]].0),
            "open" => Command::OpenData(self.open(words, queue)),
            "close" => Command::CloseData(self.pins[words.bare[0]]),
            other => panic!("{other} is no command"),
        }
    }

    /// The etag that a queue had at a revision.
    fn etag(&self, queue: &str, revision: &str) -> Box<str> {
        let identity = self.identities.get(queue).map_or("0", String::as_str);
        format!("{identity}-{revision}").into()
    }

    fn waiter(&self, name: &str) -> WaiterId {
        let index = self.waiters.iter().position(|(known, _)| known == name).expect("a known waiter");
        WaiterId(index as u64 + 1)
    }

    fn begin(&mut self, words: &Words<'_>, queue: Box<str>) -> BeginUpload {
        let upload = words.bare[0];
        self.waiters.push((words.get("as").unwrap_or("it").to_owned(), format!("upload {upload}")));
        let bytes = words.number("told").unwrap_or(0);
        let send = self.send_of(words, &[upload], &queue, |_| Data::Chunked { bytes });
        BeginUpload {
            queue,
            message: send.messages.into_iter().next().expect("one"),
            key: words.get("key").map(Into::into),
            wait: words.time("wait").unwrap_or_default(),
            waiter: WaiterId(self.waiters.len() as u64),
        }
    }

    fn append(&self, words: &Words<'_>) -> AppendUpload {
        let (upload, chunks, _) = self.uploads[words.bare[0]];
        let number = words.number("number").unwrap_or(chunks);
        AppendUpload { upload, number, data: vec![7; self.appended(words)].into() }
    }

    pub(super) fn appended(&self, words: &Words<'_>) -> usize {
        words.number("bytes").unwrap_or(self.settings.chunk_bytes)
    }

    fn finish(&self, words: &Words<'_>, queue: &str) -> FinishUpload {
        let upload = self.uploads.get(words.bare[0]);
        let told = words.number("bytes");
        let bytes = told.unwrap_or_else(|| upload.map_or(100, |(_, _, bytes)| *bytes));
        let send = self.send_of(words, &words.bare, queue, |_| Data::Chunked { bytes });
        FinishUpload { upload: upload.map(|(upload, ..)| *upload), send }
    }

    fn open(&self, words: &Words<'_>, queue: Box<str>) -> OpenData {
        let lease = words.get("lease").map(|text| self.lease_of(text).0.generation);
        let message = self.message(words.bare[0]);
        OpenData { queue, message, generation: lease }
    }

    fn send(&self, words: &Words<'_>, names: &[&str], queue: &str) -> Send {
        let length = words.number("bytes");
        self.send_of(words, names, queue, |name| match length {
            Some(length) => Data::from(vec![b'x'; length]),
            None => Data::from(name.as_bytes()),
        })
    }

    fn send_of(&self, words: &Words<'_>, names: &[&str], queue: &str, data: impl Fn(&str) -> Data) -> Send {
        let message = |name: &&str| NewMessage {
            content: Arc::new(MessageContent {
                attributes: "{}".into(),
                data_kind: DataKind::Text,
                data: data(name),
            }),
            delay: words.time("delay").filter(|_| matches!(words.verb, "begin" | "finish" | "send")),
            priority: words.number("priority").unwrap_or(0),
            time_to_live: words.time("ttl"),
        };
        let digest = words.number("digest").unwrap_or(0);
        let idempotency = words.get("key").map(|key| Idempotency { key: key.into(), digest });
        Send { queue: queue.into(), messages: names.iter().map(message).collect(), idempotency }
    }

    fn browse(&mut self, words: &Words<'_>, queue: Box<str>) -> Browse {
        self.waiters.push(("it".to_owned(), queue.to_string()));
        Browse {
            queue,
            state: state(words.bare.first().copied().unwrap_or("ready")),
            after: self.next.filter(|_| words.has("on")),
            from: words.get("from").map(time),
            until: words.get("until").map(time),
            limit: words.number("max").unwrap_or(10),
            contents: words.has("contents"),
            waiter: WaiterId(self.waiters.len() as u64),
        }
    }

    fn lease(&mut self, words: &Words<'_>, queue: Box<str>) -> Lease {
        let name = words.get("as").unwrap_or("it");
        self.waiters.push((name.to_owned(), queue.to_string()));
        Lease {
            queue,
            max_messages: words.number("max").unwrap_or(1),
            min_messages: words.number("min").unwrap_or(1),
            visibility_timeout: words.time("timeout"),
            wait: words.time("wait").unwrap_or_default(),
            max_wait: words.time("max_wait"),
            waiter: WaiterId(self.waiters.len() as u64),
            reading: reading(words),
        }
    }

    fn settle(&self, words: &Words<'_>) -> Settle {
        let delay = words.time("delay");
        let action = |verb: &str| match verb {
            "ack" => SettleAction::Ack,
            "nack" => SettleAction::Nack(delay),
            "end_call" => SettleAction::EndCall,
            "reserve" => SettleAction::Reserve,
            _ => SettleAction::Extend(words.time("by")),
        };
        let named = words.pairs().filter(|(key, _)| matches!(*key, "ack" | "nack" | "extend"));
        let bare = words.bare.iter().map(|lease| (words.verb, *lease));
        let settlements = bare.chain(named).map(|(verb, text)| {
            let (lease, queue) = self.lease_of(text);
            let queue = words.get("queue").unwrap_or(&queue).into();
            let holder = Holder {
                asked_at: words.get("asked").map(time),
                partition: words.get("partition").map(Into::into),
            };
            Settlement { queue, lease, action: action(verb), holder }
        });
        let sends = words.all("send").map(|text| {
            let (queue, name) = text.split_once(':').expect("queue:message");
            let names: &[&str] = if name.is_empty() { &[] } else { &[name] };
            self.send(words, names, queue)
        });
        Settle {
            settlements: settlements.collect(),
            sends: sends.collect(),
            require: if words.get("require") == Some("all") { Require::All } else { Require::Fresh },
        }
    }
}

/// How a group is read.
fn reading(words: &Words<'_>) -> Reading {
    Reading {
        partition: words.get("partition").map(Into::into),
        in_flight_max: words.number("in_flight"),
        unpinned: words.has("unpinned"),
        pushes: words.has("pushes"),
        look: words.has("look"),
    }
}

/// What a list shows: `topics`, `groups` or `partitions` of topic `t`, or queues.
fn listed(words: &Words<'_>) -> Listed {
    let topic = words.get("of").unwrap_or("topics/t").into();
    match words.bare.first() {
        Some(&"topics") => Listed::Topics,
        Some(&"groups") => Listed::Groups(topic),
        Some(&"partitions") => Listed::Partitions(topic),
        _ => Listed::Queues,
    }
}

fn command_on_queue(words: &Words<'_>, queue: Box<str>) -> Command {
    match words.verb {
        "show" => Command::GetQueue { queue },
        "pause" => Command::PauseQueue { queue },
        "resume" => Command::ResumeQueue { queue },
        "purge" => Command::PurgeQueue {
            queue,
            target: match words.bare.first() {
                None => PurgeTarget::Waiting,
                Some(&"dead") => PurgeTarget::DeadLetters,
                Some(_) => PurgeTarget::All,
            },
        },
        other => panic!("{other} is no command"),
    }
}
