//! The table of operations on the runtime cache.

use millpond_api::ErrorCode::*;
use millpond_api::limits::{VERCEL_CACHE_TTL_MAX, VERCEL_CACHE_TTL_MIN};
use serde_json::json;

use super::operation::{JSON, Operation};
use crate::paths;

const CACHE: &str = "cache";

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    let seconds = json!({
        "type": "integer",
        "minimum": VERCEL_CACHE_TTL_MIN.as_secs(),
        "maximum": VERCEL_CACHE_TTL_MAX.as_secs(),
    });
    let of_value =
        |method, id| Operation::new(method, paths::CACHE_VALUE, CACHE, id).codes(super::errors::QUERY);
    vec![
        of_value("get", "cache.get")
            .says("Get a value", "Byte for byte as it was sent.")
            .answers_as(JSON, json!({}))
            .answer_header("X-Vercel-Cache-State")
            .codes(&[ValueNotFound]),
        of_value("post", "cache.set")
            .says("Keep a value", "In the place of what was under the key. Up to 2 MiB of JSON, which is not looked at; as `text/plain` or without a content type as well.")
            .header("X-Vercel-Revalidate", seconds, "Seconds after which it is gone; until it has to make room unless given.")
            .header("X-Vercel-Cache-Tags", json!({ "type": "string" }), "Up to 128 tags of up to 256 bytes, with commas between.")
            .bodies(&[(JSON, json!({}))], true)
            .answers("Empty")
            .codes(&[MissingField]),
        of_value("delete", "cache.delete")
            .says("Remove a value", "If there is none, that is no error.")
            .answers("Empty"),
        Operation::new("post", paths::CACHE_REVALIDATE, CACHE, "cache.revalidate")
            .says("Remove values by their tags", "All that have any of them.")
            .query("tags", json!({ "type": "string", "minLength": 1 }), "Up to 128 tags, with commas between.")
            .required()
            .answers("Empty")
            .codes(super::errors::QUERY)
            .codes(&[NotFound]),
    ]
}
