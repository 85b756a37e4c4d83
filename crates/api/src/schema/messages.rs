//! The message resource.

use serde_json::{Value, json};

use super::queues::next_page_token;
use super::{about, answer, answer_with, component, count, integer, list, time, words};
use crate::limits::{DEAD_LETTERS_PAGE_MAX, PEEK_MESSAGES_MAX};

/// Why a message ended without being done.
const DEATHS: [&str; 6] =
    ["attempts_spent", "cancelled", "deduplicated", "leases_lost", "queue_deleted", "refused"];

pub(super) fn all() -> Vec<(&'static str, Value)> {
    let messages =
        |name: &str, most: u32| list(component(name), 0..=usize::try_from(most).unwrap_or(usize::MAX));
    let page = vec![
        ("messages", messages("Message", DEAD_LETTERS_PAGE_MAX)),
        ("next_page_token", next_page_token()),
    ];
    vec![
        ("DeadLetterList", answer(page)),
        ("Message", message()),
        ("MessageList", answer(vec![("messages", messages("Message", PEEK_MESSAGES_MAX))])),
        ("TopicMessage", topic_message()),
        ("TopicMessageList", answer(vec![("messages", messages("TopicMessage", PEEK_MESSAGES_MAX))])),
    ]
}

fn message() -> Value {
    let number = || json!({ "type": "integer", "minimum": 0 });
    let string = || json!({ "type": "string" });
    let always = vec![
        ("message_id", string()),
        ("queue", about(string(), "The whole name of the queue that holds it.")),
        ("state", words(["cancelled", "completed", "dead", "delayed", "leased", "ready"])),
        ("event", component("Event")),
        ("priority", integer(i32::MIN..=i32::MAX)),
        ("delivery_count", about(number(), "Leases granted.")),
        ("failure_count", about(number(), "Attempts spent.")),
        ("lost_lease_count", about(number(), "Leases that ran out in a row.")),
        ("send_time", time()),
        ("expire_time", about(time(), "When it is removed, unless it is leased then.")),
        ("size_bytes", about(count(), "Bytes of attributes and data.")),
    ];
    let sometimes = vec![
        ("visible_time", about(time(), "From when on it can be leased, while it waits.")),
        ("lease_expire_time", about(time(), "When its lease ends, while it is leased.")),
        ("dead_letter_time", about(time(), "When it was out of attempts, or cancelled.")),
        ("dead_letter_reason", words(DEATHS)),
        ("dead_letter_queue", about(string(), "The whole name of the queue or group in which that was.")),
        ("finish_time", about(time(), "When it was done.")),
    ];
    answer_with(always, sometimes)
}

fn topic_message() -> Value {
    let string = || json!({ "type": "string" });
    let always = vec![
        ("message_id", string()),
        ("topic", about(string(), "The whole name of the topic that holds it.")),
        ("state", words(["delayed", "ready"])),
        ("event", component("Event")),
        ("send_time", time()),
        ("expire_time", about(time(), "When it is removed.")),
        ("size_bytes", about(count(), "Bytes of attributes and data.")),
    ];
    answer_with(always, vec![("visible_time", about(time(), "From when on groups get it, while it waits."))])
}
