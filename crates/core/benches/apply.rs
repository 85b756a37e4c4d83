//! What does one command cost in the core, hot? A round of 256 messages is sent, leased and acked, each by a command of its
//! own; the batch is sealed and taken for durable after each third, as the engine would. Divide a round by 768.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millpond_core::command::{
    CreateQueue, Holder, Lease, LeaseRef, NewMessage, Reading, Require, Send, Settle, SettleAction,
    Settlement, WaiterId,
};
use millpond_core::id::CommitSequence;
use millpond_core::row::{DataKind, EnvironmentRow, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Core, CoreSettings, OpenState, Outcome, Stamp};

const ROUND: u64 = 256;

struct Bench {
    core: Core,
    now: i64,
}

impl Bench {
    fn new() -> Self {
        let open = OpenState {
            commit: CommitSequence::default(),
            environment: EnvironmentRow::default(),
            queues: Vec::new(),
            segments: Vec::new(),
            runs: Vec::new(),
            triggers: Vec::new(),
            secret: millpond_core::row::SecretRow::default(),
            low_water: Vec::new(),
            restored: false,
            now: Timestamp::from_millis(1_700_000_000_000),
        };
        let mut bench = Self { core: Core::open(CoreSettings::default(), open), now: 1_700_000_000_000 };
        bench.apply(&Command::CreateQueue(CreateQueue {
            name: "bench".into(),
            start: Default::default(),
            spec: QueueSpec::default(),
            annotations: "{}".into(),
            validate_only: false,
        }));
        bench.finish();
        bench
    }

    fn apply(&mut self, command: &Command) -> Outcome {
        let stamp = Stamp { now: Timestamp::from_millis(self.now), entropy: 7 };
        self.core.apply(command, &stamp).expect("rows are in memory")
    }

    fn finish(&mut self) {
        let changes = self.core.seal().expect("changes");
        self.core.durable(changes.commit);
        black_box(changes);
        self.now += 1;
    }

    fn round(&mut self, send: &Command, lease: &Command) {
        for _ in 0..ROUND {
            black_box(self.apply(send));
        }
        self.finish();
        let mut leases = Vec::new();
        for _ in 0..ROUND {
            if let Outcome::Leased(grants) = self.apply(lease) {
                leases.extend(grants.iter().map(millpond_core::outcome::Grant::lease));
            }
        }
        self.finish();
        assert_eq!(leases.len(), 256);
        for lease in leases {
            black_box(self.apply(&ack(lease)));
        }
        self.finish();
    }
}

fn ack(lease: LeaseRef) -> Command {
    let settlement =
        Settlement { queue: "bench".into(), lease, action: SettleAction::Ack, holder: Holder::default() };
    Command::Settle(Settle { settlements: vec![settlement], sends: Vec::new(), require: Require::Fresh })
}

fn lifecycle(criterion: &mut Criterion) {
    let content =
        MessageContent { attributes: "{}".into(), data_kind: DataKind::Text, data: vec![b'a'; 256].into() };
    let message = NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None };
    let send = Command::Send(Send { queue: "bench".into(), messages: vec![message], idempotency: None });
    let lease = Command::Lease(Lease {
        queue: "bench".into(),
        max_messages: 1,
        min_messages: 1,
        visibility_timeout: None,
        wait: Duration::ZERO,
        max_wait: None,
        waiter: WaiterId(1),
        reading: Reading::default(),
    });
    let mut group = criterion.benchmark_group("apply");
    group.throughput(Throughput::Elements(ROUND * 3));
    let mut bench = Bench::new();
    group.bench_function("send, lease, ack; one message a command", |bencher| {
        bencher.iter(|| bench.round(&send, &lease));
    });
    group.finish();
}

criterion_group!(benches, lifecycle);
criterion_main!(benches);
