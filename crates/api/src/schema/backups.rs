//! Backups.

use serde_json::{Value, json};

use super::{about, answer, component, count, nullable, time, words};
use crate::backup::BackupState;

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![("BackedUpEnvironment", environment()), ("Backup", backup()), ("BackupProgress", progress())]
}

fn string() -> Value {
    json!({ "type": "string" })
}

fn backup() -> Value {
    let environments = json!({ "type": "array", "items": component("BackedUpEnvironment") });
    let fields = vec![
        ("name", about(string(), "`backups/` and its id.")),
        ("directory", about(string(), "Where it is, or will be, on the server's machine.")),
        ("state", words(BackupState::WORDS)),
        ("create_time", time()),
        ("environments", about(environments, "Those that are in it, whole and checked.")),
        ("progress", nullable(component("BackupProgress"))),
        ("error", nullable(about(string(), "Why it failed; nothing of it is left."))),
    ];
    about(answer(fields), "Copies of environments, as of about one moment each.")
}

fn environment() -> Value {
    answer(vec![
        ("name", about(string(), "The whole name.")),
        ("queue_count", about(count(), "Queues, topics, groups, partitions and cursors.")),
        ("delivery_count", about(count(), "Deliveries of messages, in any state.")),
        ("bytes", about(count(), "Bytes that it takes.")),
    ])
}

fn progress() -> Value {
    let fields = vec![
        ("environment", about(string(), "The one that is being copied.")),
        ("done_count", about(count(), "Environments that were copied.")),
        ("total_count", about(count(), "Environments that there are to copy.")),
        ("pages", about(count(), "Pages of this one.")),
        ("pages_left", about(count(), "Pages of it that are not copied yet.")),
    ];
    about(answer(fields), "How far a backup is.")
}
