//! A core with a store and a clock, driven by lines of text. Every command is a batch, durable at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{
    Browse, CreateQueue, Cursor, DeleteQueue, Idempotency, Lease, LeaseRef, MessageRef, MoveMessages,
    NewMessage, Once, PurgeTarget, Require, Revive, Send, Settle, SettleAction, Settlement, UpdateQueue,
    WaiterId,
};
use millpond_core::id::{LeaseGeneration, MessageId, QueueNumber, Sequence};
use millpond_core::outcome::Tally;
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::time::Timestamp;
use millpond_core::{Command, Core, CoreSettings, Effect, Outcome, Page, ScanTicket, Stamp};

use super::store::Store;
use super::words::{START_MILLIS, Words, duration, spec, state, time};

pub(crate) struct World {
    core: Core,
    settings: CoreSettings,
    store: Store,
    now: Timestamp,
    pub(super) messages: BTreeMap<String, MessageId>,
    pub(super) names: BTreeMap<MessageId, String>,
    /// Leases of a message, in order, with the queue that granted them.
    pub(super) leases: BTreeMap<String, Vec<(LeaseRef, String)>>,
    waiters: Vec<(String, String)>,
    /// Names of queues, also of those that are gone.
    pub(super) queues: BTreeMap<QueueNumber, String>,
    /// Where the last page that was shown ends.
    pub(super) next: Option<Cursor>,
    /// Pages that were read and are still on their way.
    slow: Vec<(ScanTicket, Page)>,
    /// The part of each queue's etags that stays the same, as last seen.
    pub(super) identities: BTreeMap<String, String>,
}

impl World {
    pub(crate) fn new(transcript: &str) -> Self {
        let mut settings = CoreSettings::default();
        for line in transcript.lines().map(str::trim).filter(|line| line.starts_with("with ")) {
            let words = Words::of(line);
            settings.window_entries = words.number("window").unwrap_or(settings.window_entries);
            settings.due_per_batch = words.number("due").unwrap_or(settings.due_per_batch);
            settings.dedup_keys = words.number("keys").unwrap_or(settings.dedup_keys);
            settings.messages = words.number("messages").unwrap_or(settings.messages);
            settings.bytes = words.number("bytes").unwrap_or(settings.bytes);
            settings.queues = words.number("queues").unwrap_or(settings.queues);
            settings.waiters = words.number("waiters").unwrap_or(settings.waiters);
        }
        let now = Timestamp::from_millis(START_MILLIS);
        let store = Store::default();
        Self {
            core: Core::open(settings, store.open_state(false, now)),
            settings,
            store,
            now,
            messages: BTreeMap::new(),
            names: BTreeMap::new(),
            leases: BTreeMap::new(),
            waiters: Vec::new(),
            queues: BTreeMap::new(),
            next: None,
            slow: Vec::new(),
            identities: BTreeMap::new(),
        }
    }

    /// Carries out one line.
    pub(crate) fn run(&mut self, line: &str) -> Vec<String> {
        let words = Words::of(line);
        match words.verb {
            "after" => {
                self.now = self.now.plus(duration(words.bare[0]));
                let answers = self.come_to_rest();
                self.check();
                return answers;
            }
            "arrive" => {
                for (ticket, page) in std::mem::take(&mut self.slow) {
                    self.core.absorb(ticket, page, &self.stamp());
                }
                return self.come_to_rest();
            }
            "reopen" | "restore" => {
                // A restore opens with a clock that stands after all that was lost.
                self.now = self.now.plus(Duration::from_secs(1));
                let state = self.store.open_state(words.verb == "restore", self.now);
                self.core = Core::open(self.settings, state);
                let answers = self.come_to_rest();
                self.check();
                return answers;
            }
            _ => {}
        }
        let mut command = self.command(&words);
        if let Some(key) = words.get("once") {
            let digest = words.number("digest").unwrap_or(0);
            let idempotency = Idempotency { key: key.into(), digest };
            command = Command::Once(Once { idempotency, command: Box::new(command) });
        }
        let outcome = self.apply(&command);
        if words.has("slowly") {
            let scans = self.core.take_scans().into_iter();
            self.slow.extend(scans.map(|wanted| (wanted.ticket, self.store.scan(&wanted.scan))));
        }
        let mut answers = vec![self.show(&words, &outcome)];
        answers.extend(self.come_to_rest());
        answers.retain(|answer| !answer.is_empty());
        self.check();
        answers
    }

    fn stamp(&self) -> Stamp {
        Stamp { now: self.now, entropy: 7 }
    }

    fn apply(&mut self, command: &Command) -> Outcome {
        for _ in 0..3 {
            match self.core.apply(command, &self.stamp()) {
                Ok(outcome) => return outcome,
                Err(needs) => self.core.absorb_rows(self.store.read(&needs.0)),
            }
        }
        panic!("{command:?} needs ever more rows");
    }

    /// Commits and reads until nothing is left to do now.
    fn come_to_rest(&mut self) -> Vec<String> {
        let mut answers = Vec::new();
        for _ in 0..10_000 {
            for effect in self.core.take_effects() {
                answers.push(self.answered(effect));
            }
            let scans = self.core.take_scans();
            let idle = scans.is_empty();
            if let Some(changes) = self.core.seal() {
                let commit = changes.commit;
                self.store.write(changes);
                if self.slow.is_empty() {
                    self.core.durable(commit);
                }
            }
            for wanted in scans {
                let page = self.store.scan(&wanted.scan);
                self.core.absorb(wanted.ticket, page, &self.stamp());
            }
            let due = self.core.next_due().is_some_and(|due| due <= self.now);
            if due {
                self.apply(&Command::Tick);
            } else if idle {
                return answers;
            }
        }
        panic!("it never comes to rest");
    }

    fn check(&self) {
        self.core.check(&self.store.deliveries).expect("the invariants hold");
    }

    fn answered(&mut self, effect: Effect) -> String {
        let Effect::Answered { waiter, outcome } = effect;
        let index = usize::try_from(waiter.0).expect("a small number") - 1;
        let (name, queue) = self.waiters[index].clone();
        if let Outcome::Browsed(page) = &outcome {
            self.next = page.next;
            return self.show_page(page);
        }
        format!("{name}: {}", self.show_leased(&queue, &outcome))
    }

    fn lease_of(&self, text: &str) -> (LeaseRef, String) {
        let (message, number) = text.split_once('#').expect("message#number");
        let number: usize = number.parse().expect("a number");
        let known = self.leases.get(message).and_then(|leases| leases.get(number - 1));
        known.cloned().unwrap_or_else(|| {
            // A lease that never was.
            let message = self.message(message);
            (LeaseRef { message, generation: LeaseGeneration(1) }, "jobs".to_owned())
        })
    }

    /// A message that was sent, or one that never was.
    fn message(&self, name: &str) -> MessageId {
        let unknown = MessageId { sent_at: self.now, sequence: Sequence(1_000_000), nonce: 1 };
        self.messages.get(name).copied().unwrap_or(unknown)
    }

    fn named(&self, words: &Words<'_>) -> Vec<MessageId> {
        let times = words.number("times").unwrap_or(1);
        let once: Vec<_> = words.bare.iter().map(|name| self.message(name)).collect();
        once.repeat(times)
    }

    fn command(&mut self, words: &Words<'_>) -> Command {
        let queue = || -> Box<str> { words.get("queue").unwrap_or("jobs").into() };
        match words.verb {
            "create" => Command::CreateQueue(CreateQueue {
                name: words.bare[0].into(),
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
                after: words.get("after").map(Into::into),
                descending: words.has("descending"),
                limit: words.number("limit").unwrap_or(50),
            },
            "show" => Command::GetQueue { queue: queue() },
            "pause" => Command::PauseQueue { queue: queue() },
            "resume" => Command::ResumeQueue { queue: queue() },
            "purge" => Command::PurgeQueue {
                queue: queue(),
                target: match words.bare.first() {
                    None => PurgeTarget::Waiting,
                    Some(&"dead") => PurgeTarget::DeadLetters,
                    Some(_) => PurgeTarget::All,
                },
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
            "space" => Command::SetSpace { low: words.has("low") },
            "send" => Command::Send(self.send(words, &words.bare, &queue())),
            "lease" => Command::Lease(self.lease(words, queue())),
            "cancel" => Command::CancelWait(self.waiter(words.bare[0])),
            "undo" => Command::Undo(words.bare.iter().map(|text| self.lease_of(text).0).collect()),
            "settle" | "ack" | "nack" | "extend" => Command::Settle(self.settle(words)),
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

    fn send(&self, words: &Words<'_>, names: &[&str], queue: &str) -> Send {
        let message = |name: &&str| NewMessage {
            content: Arc::new(MessageContent {
                attributes: "{}".into(),
                data_kind: DataKind::Text,
                data: name.as_bytes().into(),
            }),
            delay: words.time("delay").filter(|_| words.verb == "send"),
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
            contents: false,
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
        }
    }

    fn settle(&self, words: &Words<'_>) -> Settle {
        let delay = words.time("delay");
        let action = |verb: &str| match verb {
            "ack" => SettleAction::Ack,
            "nack" => SettleAction::Nack(delay),
            _ => SettleAction::Extend(words.time("by").unwrap_or(Duration::from_secs(30))),
        };
        let named = words.pairs().filter(|(key, _)| matches!(*key, "ack" | "nack" | "extend"));
        let bare = words.bare.iter().map(|lease| (words.verb, *lease));
        let settlements = bare.chain(named).map(|(verb, text)| {
            let (lease, queue) = self.lease_of(text);
            Settlement { queue: words.get("queue").unwrap_or(&queue).into(), lease, action: action(verb) }
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
