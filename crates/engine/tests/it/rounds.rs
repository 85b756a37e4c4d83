//! When a round is worth its commit.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{AppendUpload, BeginUpload, CreateQueue, NewMessage, WaiterId};
use millpond_core::id::{CommitSequence, UploadId};
use millpond_core::limits::CHUNK_BYTES;
use millpond_core::row::{Data, DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, Command, Outcome, Stamp};
use millpond_engine::environment::{Action, Environment, EnvironmentSettings};
use millpond_store::{MemoryDisk, StoreFactory};

use crate::support::{ENVIRONMENT, send};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

struct Machine {
    environment: Environment,
    tickets: u64,
}

impl Machine {
    /// With one queue, and nothing under way.
    fn with_queue() -> Self {
        let (_store, opened) = MemoryDisk::new().open(ENVIRONMENT).expect("open");
        let mut machine =
            Self { environment: Environment::new(EnvironmentSettings::default(), opened, NOW), tickets: 0 };
        let create = CreateQueue {
            name: "mail".into(),
            start: Default::default(),
            spec: QueueSpec::default(),
            annotations: "{}".into(),
            validate_only: false,
        };
        machine.submit(Command::CreateQueue(create));
        let (commit, _) = machine.step();
        assert_eq!(machine.committed(commit), 1);
        machine
    }

    fn submit(&mut self, command: Command) {
        self.tickets += 1;
        self.environment.submit(self.tickets, command);
    }

    fn sends(&mut self, count: usize) {
        (0..count).for_each(|_| self.submit(send("mail", "hello")));
    }

    /// The commit of one round, and how many messages it stores.
    fn step(&mut self) -> (CommitSequence, usize) {
        let changes = self.changes();
        (changes.commit, changes.messages.len())
    }

    fn changes(&mut self) -> Box<ChangeSet> {
        let commits = self.actions().into_iter().filter_map(|action| match action {
            Action::Commit(changes) => Some(changes),
            _ => None,
        });
        commits.last().expect("a commit")
    }

    fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.environment.step(&Stamp { now: NOW, entropy: 7 }, &mut actions);
        actions
    }

    /// Begins an upload, of which nothing is stored yet.
    fn begin_upload(&mut self) -> UploadId {
        let data = Data::Chunked { bytes: 0 };
        let content = MessageContent { attributes: "{}".into(), data_kind: DataKind::Binary, data };
        let message = NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None };
        let (wait, waiter) = (Duration::ZERO, WaiterId(0));
        let begin = BeginUpload { queue: "mail".into(), message, key: None, wait, waiter };
        self.submit(Command::BeginUpload(begin));
        let upload = self.actions().into_iter().find_map(|action| match action {
            Action::Answer(_, answer) => match answer.outcome {
                Outcome::UploadBegun(upload) => upload,
                _ => None,
            },
            _ => None,
        });
        upload.expect("it begins")
    }

    /// Answers that leave with a commit.
    fn committed(&mut self, commit: CommitSequence) -> usize {
        let mut actions = Vec::new();
        self.environment.committed(commit, &mut actions);
        let answered = |action: &&Action| matches!(action, Action::Answer(_, answer) if !matches!(answer.outcome, Outcome::Rejected(_)));
        actions.iter().filter(answered).count()
    }
}

#[test]
fn a_round_waits_until_it_has_as_much_as_the_commit_under_way() {
    let mut machine = Machine::with_queue();
    machine.sends(4);
    let (first, stored) = machine.step();
    assert_eq!(stored, 4);
    machine.sends(3);
    assert!(!machine.environment.has_work(NOW));
    assert_eq!(machine.environment.wants_mail(), 1);
    machine.sends(1);
    assert!(machine.environment.has_work(NOW));
    let (second, stored) = machine.step();
    assert_eq!(stored, 4);
    machine.sends(100);
    assert!(!machine.environment.has_work(NOW), "two commits are under way");
    assert_eq!(machine.committed(first), 4);
    assert_eq!(machine.committed(second), 4);
}

#[test]
fn the_end_of_a_commit_starts_a_round_of_what_is_there() {
    let mut machine = Machine::with_queue();
    machine.sends(50);
    let (first, _) = machine.step();
    machine.sends(1);
    assert!(!machine.environment.has_work(NOW));
    assert_eq!(machine.committed(first), 50);
    assert!(machine.environment.has_work(NOW));
    let (second, stored) = machine.step();
    assert_eq!(stored, 1);
    assert_eq!(machine.committed(second), 1);
    assert!(!machine.environment.has_work(NOW));
    assert_eq!(machine.environment.wants_mail(), 1, "one command is worth a round when nothing is under way");
}

/// Chunks wait in a line of their own, of which a round takes a MiB: a send that comes after many of them is in the next
/// commit all the same.
#[test]
fn a_send_passes_chunks_that_came_before_it() {
    let mut machine = Machine::with_queue();
    let upload = machine.begin_upload();
    for number in 0..10 {
        let data = vec![7; CHUNK_BYTES].into();
        machine.submit(Command::AppendUpload(AppendUpload { upload, number, data }));
    }
    machine.sends(1);
    let mut chunks = Vec::new();
    for round in 0..3 {
        let changes = machine.changes();
        assert_eq!(changes.messages.len(), usize::from(round == 0));
        chunks.push(changes.chunks.len());
        machine.committed(changes.commit);
    }
    assert_eq!(chunks, [4, 4, 2]);
    assert!(!machine.environment.has_work(NOW));
}
