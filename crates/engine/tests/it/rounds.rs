//! When a round is worth its commit.

use millpond_core::Stamp;
use millpond_core::command::CreateQueue;
use millpond_core::id::CommitSequence;
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};
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
        let mut actions = Vec::new();
        self.environment.step(&Stamp { now: NOW, entropy: 7 }, &mut actions);
        let mut commits = actions.iter().filter_map(|action| match action {
            Action::Commit(changes) => Some((changes.commit, changes.messages.len())),
            _ => None,
        });
        commits.next_back().expect("a commit")
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
