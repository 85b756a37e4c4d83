//! What became of pushes. Never read from a client.

use serde::Serialize;

use crate::queue::{as_string, as_time};

/// Pushes of a trigger since the server was started. `total` is the sum of what ended, by its [`PushOutcome`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PushCounts {
    /// Pushes that ended.
    #[serde(serialize_with = "as_string")]
    pub total: u64,
    /// The answer was 2xx.
    #[serde(serialize_with = "as_string")]
    pub succeeded: u64,
    /// The answer was another one.
    #[serde(serialize_with = "as_string")]
    pub failed: u64,
    /// The connection broke before an answer.
    #[serde(serialize_with = "as_string")]
    pub broken: u64,
    /// There was no answer while the lease lasted.
    #[serde(serialize_with = "as_string")]
    pub gave_up: u64,
    /// There was no connection.
    #[serde(serialize_with = "as_string")]
    pub unreachable: u64,
    /// The message cannot be written as a push.
    #[serde(serialize_with = "as_string")]
    pub unwritable: u64,
    /// Pushes that have no answer yet.
    #[serde(serialize_with = "as_string")]
    pub in_flight: u64,
    /// Half of the last pushes that reached their target took at most so long, in milliseconds. None: none did.
    pub duration_p50_ms: Option<u64>,
    /// Of a hundred of them 99 did.
    pub duration_p99_ms: Option<u64>,
}

/// One push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PushRecord {
    /// When it ended, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub at: i64,
    /// The message.
    pub message_id: String,
    /// Deliveries of the message to the group, this one included.
    pub delivery_count: u32,
    /// The data went with it; otherwise its handler fetches the message by its id.
    pub inline: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What became of it.
    pub outcome: PushOutcome,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What went wrong: how an answer that is not 2xx begins, or why there was none.
    pub error: Option<String>,
}

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PushOutcome {
    /// The connection broke before an answer.
    Broken,
    /// The answer was not 2xx.
    Failed,
    /// There was no answer while the lease lasted.
    GaveUp,
    /// The answer was 2xx.
    Succeeded,
    /// There was no connection: the message was not handed out.
    Unreachable,
    /// The message cannot be written as a push.
    Unwritable,
}

impl PushOutcome {
    /// All of them, in the order of their words.
    pub const ALL: [PushOutcome; 6] = [
        PushOutcome::Broken,
        PushOutcome::Failed,
        PushOutcome::GaveUp,
        PushOutcome::Succeeded,
        PushOutcome::Unreachable,
        PushOutcome::Unwritable,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            PushOutcome::Broken => "broken",
            PushOutcome::Failed => "failed",
            PushOutcome::GaveUp => "gave_up",
            PushOutcome::Succeeded => "succeeded",
            PushOutcome::Unreachable => "unreachable",
            PushOutcome::Unwritable => "unwritable",
        }
    }
}

/// The pushes of one trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TriggerPushes {
    /// What became of them. None: this server does not push the trigger.
    pub pushes: Option<PushCounts>,
    /// The last hundred, newest first.
    pub last: Vec<PushRecord>,
}

impl TriggerPushes {
    /// The answer as JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and structs serialize")
    }
}
