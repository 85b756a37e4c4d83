//! Backups that the server makes of its environments.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::call::{Call, encode};
use crate::client::Client;
use crate::error::Error;
use crate::wire;

/// How a backup is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    /// It is being made.
    Running,
    /// It is whole.
    Done,
    /// It was not made; nothing of it is left.
    Failed,
}

/// A backup as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// `backups/{id}`.
    pub name: String,
    /// Where it is, or will be, on the server's machine.
    pub directory: String,
    /// How it is doing.
    pub state: BackupState,
    /// When it was begun.
    #[serde(with = "wire::time")]
    pub create_time: SystemTime,
    /// Environments that are in it, whole and checked.
    pub environments: Vec<BackedUpEnvironment>,
    /// How far it is, while it runs.
    #[serde(default)]
    pub progress: Option<BackupProgress>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
}

/// An environment in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUpEnvironment {
    /// Its name.
    pub name: String,
    /// Queues, topics, groups, partitions and cursors.
    #[serde(with = "wire::number")]
    pub queue_count: u64,
    /// Deliveries of messages, in any state.
    #[serde(with = "wire::number")]
    pub delivery_count: u64,
    /// Bytes that it takes.
    #[serde(with = "wire::number")]
    pub bytes: u64,
}

/// How far a backup is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupProgress {
    /// The environment that is being copied.
    pub environment: String,
    /// Environments that were copied.
    #[serde(with = "wire::number")]
    pub done_count: u64,
    /// Environments that there are to copy.
    #[serde(with = "wire::number")]
    pub total_count: u64,
    /// Pages of this one.
    #[serde(with = "wire::number")]
    pub pages: u64,
    /// Pages of it that are not copied yet.
    #[serde(with = "wire::number")]
    pub pages_left: u64,
}

impl Client {
    /// Has the server begin a backup of these environments, by their whole names, or of all if there are none here. It is made where
    /// the server was told to; [`Client::backup`] tells how it is doing.
    ///
    /// It is tried once: another try would find the backup that the first one began.
    ///
    /// # Errors
    /// `invalid_state`: another one is being made. `not_found`: the server makes none.
    pub async fn begin_backup(&self, environments: &[String]) -> Result<Backup, Error> {
        let names = (!environments.is_empty()).then(|| environments.join(","));
        self.fetch_once(Call::harmless("/v1/backups").query_option("environments", names.as_deref())).await
    }

    /// A backup that was begun since the server was started, by its name.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn backup(&self, name: &str) -> Result<Backup, Error> {
        let id = name.strip_prefix("backups/").unwrap_or(name);
        self.fetch(Call::get(&format!("/v1/backups/{}", encode(id)))).await
    }
}
