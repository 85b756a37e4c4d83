//! Events to message contents, and grants to leased messages.

use std::sync::Arc;
use std::time::Duration;

use millpond_api::lease::{LeasedMessage, render_leased, render_leased_batch};
use millpond_api::{AttributeValue, DataKind, Event, time};
use millpond_core::command::NewMessage;
use millpond_core::outcome::Grant;
use millpond_core::row::{self, DeadLetter, DeadReason, MessageContent};

use crate::error::ApiError;

/// Attributes that a dead letter carries.
const DEAD_LETTER_QUEUE: &str = "deadletterqueue";
const DEAD_LETTER_REASON: &str = "deadletterreason";
const DEAD_LETTER_TIME: &str = "deadlettertime";

/// What is stored of an event.
fn content_of(event: Event) -> MessageContent {
    let attributes = event.attributes_json().into_boxed_str();
    let (data_kind, data) = match event.data {
        None => (row::DataKind::None, Vec::new()),
        Some(data) => (kind_to_core(data.kind), data.bytes),
    };
    MessageContent { attributes, data_kind, data: data.into_boxed_slice() }
}

/// A message of this event, with no options but its delay.
pub(crate) fn new_message(event: Event, delay: Option<Duration>) -> NewMessage {
    NewMessage { content: Arc::new(content_of(event)), delay, priority: 0, time_to_live: None }
}

/// The answer to a lease call.
pub(crate) fn render_grants(
    grants: &[Grant],
    contents: &[Arc<MessageContent>],
    as_batch: bool,
) -> Result<String, ApiError> {
    if grants.len() != contents.len() {
        return Err(ApiError::internal(format!("{} grants, {} contents", grants.len(), contents.len())));
    }
    let ids: Vec<String> = grants.iter().map(|grant| grant.message.to_string()).collect();
    let events = grants.iter().zip(contents).map(|(grant, content)| event_of(grant, content));
    let events: Vec<Event> = events.collect::<Result<_, _>>()?;
    let messages = grants.iter().zip(&ids).zip(&events).map(|((grant, id), event)| LeasedMessage {
        message_id: id,
        event,
        lease_generation: grant.generation.0,
        delivery_count: u64::from(grant.delivery_count),
        lease_expire_time: grant.lease_until.as_millis(),
    });
    let messages: Vec<_> = messages.collect();
    Ok(if as_batch { render_leased_batch(&messages) } else { render_leased(&messages) })
}

fn event_of(grant: &Grant, content: &MessageContent) -> Result<Event, ApiError> {
    let data = kind_from_core(content.data_kind).map(|kind| (kind, content.data.to_vec()));
    let mut event = Event::from_stored(&content.attributes, data).map_err(|error| {
        ApiError::internal(format!("attributes of message {} cannot be read: {error}", grant.message))
    })?;
    if let Some(dead_letter) = &grant.dead_letter {
        mark_dead_letter(&mut event, dead_letter);
    }
    Ok(event)
}

fn mark_dead_letter(event: &mut Event, dead_letter: &DeadLetter) {
    let reason = match dead_letter.reason {
        DeadReason::AttemptsSpent => "attempts_spent",
        DeadReason::LeasesLost => "leases_lost",
    };
    for (name, value) in [
        (DEAD_LETTER_REASON, reason),
        (DEAD_LETTER_QUEUE, &dead_letter.queue),
        (DEAD_LETTER_TIME, &time::render(dead_letter.at.as_millis())),
    ] {
        event.attributes.retain(|(own, _)| own != name);
        event.attributes.push((name.to_owned(), AttributeValue::from(value)));
    }
}

fn kind_to_core(kind: DataKind) -> row::DataKind {
    match kind {
        DataKind::Json => row::DataKind::Json,
        DataKind::Text => row::DataKind::Text,
        DataKind::Binary => row::DataKind::Binary,
    }
}

fn kind_from_core(kind: row::DataKind) -> Option<DataKind> {
    match kind {
        row::DataKind::None => None,
        row::DataKind::Json => Some(DataKind::Json),
        row::DataKind::Text => Some(DataKind::Text),
        row::DataKind::Binary => Some(DataKind::Binary),
    }
}
