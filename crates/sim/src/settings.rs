//! Bounds of the engine and policies of queues, drawn so small that every edge is met often.

use std::time::Duration;

use millpond_core::CoreSettings;
use millpond_core::spec::{AtLimit, AttemptLimit, Backoff, Counted, Gone, LostLease, Order, QueueSpec};
use millpond_engine::environment::EnvironmentSettings;

use crate::random::Random;
use crate::workload::Theme;

/// Bounds of the engine for one world.
pub fn draw_settings(random: &mut Random, theme: Theme) -> EnvironmentSettings {
    // Messages of topics stay until they expire.
    let (full, room) = if theme == Theme::Queues { (400, 1) } else { (200, 2) };
    let inline_bytes = random.size(0, 40);
    let chunk_bytes = random.size(inline_bytes.max(8), 60);
    EnvironmentSettings {
        core: CoreSettings {
            window_entries: random.size(1, 50),
            cached_rows: random.size(0, 20),
            due_per_batch: random.size(1, 12),
            due_per_busy_batch: random.size(1, 12),
            dedup_keys: if random.chance(350) { random.between(3, 25) } else { random.between(60, 200) },
            messages: if random.chance(full) { random.between(8, 60) * room } else { u64::MAX },
            bytes: if random.chance(full) { random.between(300, 2_500) * room } else { u64::MAX },
            browse_bytes: if random.chance(300) { random.between(20, 200) } else { u64::MAX },
            queues: random.size(5, 8),
            topics: random.size(1, 3),
            groups: random.size(2, 4),
            partitions: random.size(1, 4),
            triggers: random.size(2, 7),
            runs: if random.chance(500) { random.size(0, 3) } else { 10_000 },
            remembered_acks: if random.chance(500) { random.size(0, 6) } else { 100_000 },
            waiters: random.size(3, 10),
            inline_bytes,
            chunk_bytes,
            uploads: random.size(2, 5),
            upload_bytes: random.between(200, 900),
            chunks_per_batch: random.count(1, 6),
        },
        batch_commands: random.size(1, 16),
        batch_bytes: random.size(200, 10_000),
        pipeline_depth: random.size(1, 3),
        contents_bytes: random.size(0, 4_000),
        upload_batch_bytes: random.size(0, 200),
    }
}

fn draw_at_limit(random: &mut Random, names: &[Box<str>]) -> AtLimit {
    match random.below(5) {
        0 => AtLimit::Drop,
        1 | 2 => AtLimit::DeadLetterSet,
        _ => match random.pick(names) {
            None => AtLimit::DeadLetterSet,
            Some(name) => AtLimit::MoveTo {
                queue: name.clone(),
                otherwise: if random.chance(500) { Gone::Drop } else { Gone::DeadLetterSet },
            },
        },
    }
}

fn draw_backoff(random: &mut Random) -> Option<Backoff> {
    random.chance(500).then(|| {
        let initial = random.millis(0, 4_000);
        let low = random.count(0, 1_000);
        Backoff {
            initial,
            factor_permille: random.count(1_000, 3_000),
            max: initial + random.millis(0, 60_000),
            jitter_permille: (low, random.count(low.max(1), 2_000)),
        }
    })
}

/// Policies of a topic or a group.
pub fn draw_topic_spec(random: &mut Random) -> QueueSpec {
    let long = random.chance(400);
    let spec = QueueSpec {
        at_limit: AtLimit::Drop,
        finished_retention: Duration::ZERO,
        fresh_first: random.chance(700),
        retention: Some(if long {
            random.millis(120_000, 4_000_000)
        } else {
            random.millis(60_000, 120_000)
        }),
        ..draw_spec(random, &[])
    };
    // Vercel's: messages are tried until they expire.
    if random.chance(500) {
        QueueSpec { attempt_limit: None, lost_lease: QueueSpec::topic().lost_lease, ..spec }
    } else {
        spec
    }
}

/// Policies of one queue; `names` may serve as dead-letter queues.
pub fn draw_spec(random: &mut Random, names: &[Box<str>]) -> QueueSpec {
    let retention = match random.below(3) {
        0 => None,
        1 => Some(random.millis(60_000, 120_000)),
        _ => Some(random.millis(120_000, 4_000_000)),
    };
    QueueSpec {
        at_limit: draw_at_limit(random, names),
        attempt_limit: random.chance(800).then(|| AttemptLimit {
            max: random.count(1, 4),
            counts: if random.chance(500) { Counted::Deliveries } else { Counted::Failures },
        }),
        backoff: draw_backoff(random),
        concurrency_max: random.chance(250).then(|| random.count(1, 6)),
        delay: if random.chance(150) { random.millis(1, 5_000) } else { Duration::ZERO },
        finished_retention: if random.chance(300) { random.millis(1_000, 100_000) } else { Duration::ZERO },
        fresh_first: random.chance(300),
        leased_max: if random.chance(150) { random.count(1, 8) } else { 100_000 },
        lost_lease: LostLease {
            backs_off: random.chance(300),
            in_a_row_max: random.chance(300).then(|| random.count(1, 4)),
            spends_attempt: random.chance(600),
        },
        order: if random.chance(500) { Order::Visible } else { Order::Sent },
        retention,
        visibility_timeout: random.millis(1_000, 20_000),
    }
}
