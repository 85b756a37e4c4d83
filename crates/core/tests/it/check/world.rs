//! A core with a store and a clock, driven by lines of text. Every command is a batch, durable at once.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_core::command::{Cursor, Idempotency, LeaseRef, MessageRef, Once, PinId};
use millpond_core::id::{LeaseGeneration, MessageId, QueueNumber, Sequence, Uid, UploadId};
use millpond_core::time::Timestamp;
use millpond_core::{
    Command, Core, CoreSettings, Effect, External, Outcome, Page, RowKey, ScanTicket, Stamp,
};

use super::store::Store;
use super::words::{START_MILLIS, Words, duration};

pub(crate) struct World {
    pub(super) core: Core,
    pub(super) settings: CoreSettings,
    pub(super) store: Store,
    pub(super) now: Timestamp,
    openings: u64,
    pub(super) messages: BTreeMap<String, MessageId>,
    pub(super) names: BTreeMap<MessageId, String>,
    /// Leases of a message, in order, with the queue that granted them.
    pub(super) leases: BTreeMap<String, Vec<(LeaseRef, String)>>,
    /// Name and queue of a lease call, or name and upload of one that waits to begin.
    pub(super) waiters: Vec<(String, String)>,
    /// Uploads by name, with the chunks and bytes that were appended.
    pub(super) uploads: BTreeMap<String, (UploadId, u32, u64)>,
    pub(super) pins: BTreeMap<String, PinId>,
    /// Identities of triggers, as they were first seen.
    pub(super) triggers: BTreeMap<Box<str>, Uid>,
    /// Names of queues, also of those that are gone.
    pub(super) queues: BTreeMap<QueueNumber, String>,
    /// Where the last page that was shown ends.
    pub(super) next: Option<Cursor>,
    /// Pages that were read and are still on their way.
    slow: Vec<(ScanTicket, Page)>,
    /// The part of each queue's etags that stays the same, as last seen.
    pub(super) identities: BTreeMap<String, String>,
    /// What was written beside the owner and not taken in.
    pub(super) written: Vec<External>,
    pub(super) last_written: u64,
    /// How many claims on leases that ran out were asked for, by call, since that was shown.
    pub(super) asked: Vec<usize>,
}

impl World {
    pub(crate) fn new(transcript: &str) -> Self {
        let mut settings = CoreSettings::default();
        for line in transcript.lines().map(str::trim).filter(|line| line.starts_with("with ")) {
            let words = Words::of(line);
            settings.window_entries = words.number("window").unwrap_or(settings.window_entries);
            settings.due_per_batch = words.number("due").unwrap_or(settings.due_per_batch);
            settings.due_per_busy_batch = words.number("busy_due").unwrap_or(settings.due_per_busy_batch);
            settings.dedup_keys = words.number("keys").unwrap_or(settings.dedup_keys);
            settings.messages = words.number("messages").unwrap_or(settings.messages);
            settings.bytes = words.number("bytes").unwrap_or(settings.bytes);
            settings.browse_bytes = words.number("browse_bytes").unwrap_or(settings.browse_bytes);
            settings.queues = words.number("queues").unwrap_or(settings.queues);
            settings.topics = words.number("topics").unwrap_or(settings.topics);
            settings.groups = words.number("groups").unwrap_or(settings.groups);
            settings.partitions = words.number("partitions").unwrap_or(settings.partitions);
            settings.runs = words.number("runs").unwrap_or(settings.runs);
            settings.remembered_acks = words.number("acks").unwrap_or(settings.remembered_acks);
            settings.waiters = words.number("waiters").unwrap_or(settings.waiters);
            settings.inline_bytes = words.number("inline").unwrap_or(settings.inline_bytes);
            settings.chunk_bytes = words.number("chunk").unwrap_or(settings.chunk_bytes);
            settings.uploads = words.number("uploads").unwrap_or(settings.uploads);
            settings.upload_bytes = words.number("upload_bytes").unwrap_or(settings.upload_bytes);
            settings.chunks_per_batch = words.number("remove").unwrap_or(settings.chunks_per_batch);
        }
        let now = Timestamp::from_millis(START_MILLIS);
        let store = Store::default();
        Self {
            core: Core::open(settings, store.open_state(false, now)),
            settings,
            store,
            now,
            openings: 1,
            messages: BTreeMap::new(),
            names: BTreeMap::new(),
            leases: BTreeMap::new(),
            waiters: Vec::new(),
            uploads: BTreeMap::new(),
            pins: BTreeMap::new(),
            triggers: BTreeMap::new(),
            queues: BTreeMap::new(),
            next: None,
            slow: Vec::new(),
            identities: BTreeMap::new(),
            written: Vec::new(),
            last_written: 0,
            asked: Vec::new(),
        }
    }

    /// Carries out one line.
    pub(crate) fn run(&mut self, line: &str) -> Vec<String> {
        let words = Words::of(line);
        if let Some(answers) = self.happen(&words) {
            return answers;
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
        if words.get("rest") == Some("no") {
            self.commit();
        } else {
            answers.extend(self.come_to_rest());
        }
        answers.retain(|answer| !answer.is_empty());
        self.check();
        answers
    }

    /// What is no command: time, openings, and looks at what is stored.
    fn happen(&mut self, words: &Words<'_>) -> Option<Vec<String>> {
        Some(match words.verb {
            "after" => {
                self.now = self.now.plus(duration(words.bare[0]));
                let answers = self.come_to_rest();
                self.check();
                answers
            }
            // Time passes, and nothing is worked off.
            "later" => {
                self.now = self.now.plus(duration(words.bare[0]));
                Vec::new()
            }
            "arrive" => {
                for (ticket, page) in std::mem::take(&mut self.slow) {
                    self.core.absorb(ticket, page, &self.stamp());
                }
                self.come_to_rest()
            }
            "reopen" | "restore" => {
                // A restore opens with a clock that stands after all that was lost.
                self.now = self.now.plus(Duration::from_secs(1));
                let state = self.store.open_state(words.verb == "restore", self.now);
                self.core = Core::open(self.settings, state);
                self.openings += 1;
                self.core.set_leases_wait(words.has("wait"));
                let answers = self.come_to_rest();
                self.check();
                answers
            }
            "stored" => vec![self.stored()],
            "runs" => {
                let runs = self.store.runs.values().map(|run| format!("{}-{}", run.first, run.last));
                let runs: Vec<_> = runs.collect();
                vec![if runs.is_empty() { "none".to_owned() } else { runs.join(" ") }]
            }
            "written" => {
                let written = std::mem::take(&mut self.store.rows_written);
                vec![format!("{written} rows")]
            }
            "look_up" => {
                self.look_up(words.bare[0].parse().expect("a number"));
                Vec::new()
            }
            "memory" => {
                vec![format!("calls={} walks={}", self.core.resident_calls(), self.core.owed_walks())]
            }
            // One batch, and nothing after it.
            "batch" => {
                self.apply(&Command::Tick);
                self.commit();
                self.check();
                Vec::new()
            }
            _ => return self.happen_beside(words),
        })
    }

    /// Calls under as many keys, all of which are refused: nothing is committed.
    fn look_up(&mut self, keys: u32) {
        for number in 0..keys {
            let idempotency = Idempotency { key: format!("key {number}").into(), digest: 0 };
            let missing = MessageRef { queue: "jobs".into(), message: self.message("missing") };
            let command = Box::new(Command::DeleteMessage(missing));
            self.apply(&Command::Once(Once { idempotency, command }));
            self.commit();
        }
    }

    fn stamp(&self) -> Stamp {
        Stamp { now: self.now, entropy: 6 + self.openings }
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
            let claims: Vec<_> = self.core.take_claims().into_iter().map(RowKey::Claim).collect();
            self.asked.extend((!claims.is_empty()).then_some(claims.len()));
            let idle = scans.is_empty() && claims.is_empty();
            self.commit();
            self.core.absorb_rows(self.store.read(&claims));
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

    fn commit(&mut self) {
        if let Some(changes) = self.core.seal() {
            let commit = changes.commit;
            self.store.write(changes);
            if self.slow.is_empty() {
                self.core.durable(commit);
            }
        }
    }

    fn check(&self) {
        self.core.check(&self.store.deliveries).expect("the invariants hold");
        self.core.check_uploads(&self.store.upload_rows()).expect("somebody will remove all that is loose");
    }

    /// Chunks by their owner, those that belong to nobody in brackets.
    fn stored(&self) -> String {
        let name = |sequence: &Sequence| {
            let message = self.names.iter().find(|(id, _)| id.sequence == *sequence).map(|(_, name)| name);
            // A sequence of which nothing was stored is drawn again.
            let upload = self.uploads.iter().rfind(|(_, (id, ..))| id.sequence == *sequence);
            message.or(upload.map(|(name, _)| name)).cloned().unwrap_or_else(|| "unknown".to_owned())
        };
        let owned = self.store.deliveries.values().filter(|row| row.chunks > 0 && !row.is_progress());
        let owned = owned.map(|row| format!("{}:{}", name(&row.sequence), row.chunks));
        let loose =
            self.store.uploads.iter().map(|(sequence, count)| format!("({}:{count})", name(sequence)));
        let all: Vec<String> = owned.chain(loose).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(" ") }
    }

    fn answered(&mut self, effect: Effect) -> String {
        let (waiter, outcome) = match effect {
            Effect::Answered { waiter, outcome } => (waiter, outcome),
            Effect::TriggersChanged => return "pushers look again".to_owned(),
            Effect::TopicMade { topic } => return format!("pushers see {topic}"),
        };
        let index = usize::try_from(waiter.0).expect("a small number") - 1;
        let (name, of) = self.waiters[index].clone();
        if let Outcome::Browsed(page) = &outcome {
            self.next = page.next;
            return self.show_page(page);
        }
        let text = match of.strip_prefix("upload ") {
            Some(upload) => self.show_begun(upload, &outcome),
            None => self.show_leased(&of, &outcome),
        };
        format!("{name}: {text}")
    }

    pub(super) fn lease_of(&self, text: &str) -> (LeaseRef, String) {
        let (message, number) = text.split_once('#').expect("message#number");
        let number: usize = number.parse().expect("a number");
        let known = self.leases.get(message).and_then(|leases| leases.get(number - 1));
        known.cloned().unwrap_or_else(|| {
            // A lease that never was.
            let message = self.message(message);
            let lease = LeaseRef { delivery: message.sequence, message, generation: LeaseGeneration(1) };
            (lease, "jobs".to_owned())
        })
    }

    /// A message that was sent, or one that never was.
    pub(super) fn message(&self, name: &str) -> MessageId {
        let unknown = MessageId { sent_at: self.now, sequence: Sequence(1_000_000), nonce: 1 };
        self.messages.get(name).copied().unwrap_or(unknown)
    }
}
