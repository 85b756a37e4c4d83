//! Backups that the server makes of its environments.

use serde::Serialize;

use crate::queue::as_time;

/// How a backup is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    /// It is being made.
    Running,
    /// It is whole.
    Done,
    /// It was not made; nothing of it is left.
    Failed,
}

impl BackupState {
    /// The words for them.
    pub const WORDS: [&'static str; 3] = ["running", "done", "failed"];
}

/// A backup as it is answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Backup {
    /// `backups/{id}`.
    pub name: String,
    /// Where it is, or will be, on the server's machine.
    pub directory: String,
    /// How it is doing.
    pub state: BackupState,
    /// When it was begun, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub create_time: i64,
    /// Environments that are in it, whole and checked.
    pub environments: Vec<BackedUpEnvironment>,
    /// How far it is, while it runs.
    pub progress: Option<BackupProgress>,
    /// Why it failed.
    pub error: Option<String>,
}

/// An environment in a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BackedUpEnvironment {
    /// Its name.
    pub name: String,
    /// Queues, and what else has a number.
    #[serde(serialize_with = "as_text")]
    pub queue_count: u64,
    /// Deliveries of messages, in any state.
    #[serde(serialize_with = "as_text")]
    pub delivery_count: u64,
    /// Bytes that it takes.
    #[serde(serialize_with = "as_text")]
    pub bytes: u64,
}

/// How far a backup is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BackupProgress {
    /// The environment that is being copied.
    pub environment: String,
    /// Environments that were copied.
    #[serde(serialize_with = "as_text")]
    pub done_count: u64,
    /// Environments that there are to copy.
    #[serde(serialize_with = "as_text")]
    pub total_count: u64,
    /// Pages of this one.
    #[serde(serialize_with = "as_text")]
    pub pages: u64,
    /// Pages of it that are not copied yet.
    #[serde(serialize_with = "as_text")]
    pub pages_left: u64,
}

impl Backup {
    /// The answer as JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("strings serialize")
    }
}

fn as_text<S: serde::Serializer>(count: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(count)
}
