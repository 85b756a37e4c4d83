//! Table tests of the core: text in, text out (`check.rs`), one theme a file.

mod check;

mod attempts;
mod browse;
mod concurrency;
mod dead_letters;
mod external;
mod idempotency;
mod large_data;
mod leases;
mod list_queues;
mod messages;
mod once;
mod pause_and_why;
mod purge_and_delete;
mod quotas;
mod redrive;
mod replay;
mod retention;
mod settle_held_leases;
mod settle_lost_leases;
mod topics;
mod topics_by_id;
mod topics_far_behind;
mod topics_partitions;
mod triggers;
mod triggers_push;
mod update_queue;
mod uploads;
mod waiters;
mod windows;
