//! The table of operations on backups.

use millpond_api::ErrorCode::*;
use millpond_api::schema::text;
use millpond_core::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use serde_json::json;

use super::operation::Operation;
use crate::paths;

const SERVER: &str = "server";

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    let names = json!({ "type": "string" });
    vec![
        Operation::new("post", paths::BACKUPS, SERVER, "backups.create")
            .says(
                "Begin a backup",
                "It is made while the server goes on, where the server's configuration says, one at a time.",
            )
            .of_engine()
            .query("environments", names, "Whole names, with commas between; all environments unless given.")
            .header(
                "Idempotency-Key",
                text(1..=IDEMPOTENCY_KEY_BYTES_MAX),
                "Not remembered: a repetition is refused while the first backup runs.",
            )
            .optional_body("Empty")
            .answers("Backup")
            .codes(&[InvalidState, NotFound]),
        Operation::new("get", paths::BACKUP, SERVER, "backups.get")
            .says("Get a backup", "And how far it is. Those of before the server was started are not known.")
            .answers("Backup")
            .codes(super::errors::QUERY)
            .codes(&[NotFound]),
    ]
}
