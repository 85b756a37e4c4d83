//! Events to message contents; grants to leased messages, and rows to messages as resources.

use std::sync::Arc;
use std::time::Duration;

use millpond_api::lease::{LeasedMessage, render_leased, render_leased_batch};
use millpond_api::message::{Message, MessageDeath, MessageState};
use millpond_api::name::{Kind, ResourceName};
use millpond_api::{AttributeValue, DataKind, Event, time, vercel};
use millpond_core::command::NewMessage;
use millpond_core::id::MessageId;
use millpond_core::outcome::Grant;
use millpond_core::row::{self, Data, DeadLetter, DeadReason, DeliveryRow, DeliveryState, MessageContent};

use crate::error::ApiError;
use crate::extract::Place;
use crate::paths;

/// The attribute that tells events apart.
const ID: &str = "id";
/// Attributes that a dead letter carries.
const DEAD_LETTER_QUEUE: &str = "deadletterqueue";
const DEAD_LETTER_REASON: &str = "deadletterreason";
const DEAD_LETTER_TIME: &str = "deadlettertime";

/// What is stored of an event.
pub(crate) fn content_of(event: Event) -> MessageContent {
    let attributes = event.attributes_json().into_boxed_str();
    let (data_kind, data) = match event.data {
        None => (row::DataKind::None, Vec::new()),
        Some(data) => (kind_to_core(data.kind), data.bytes),
    };
    MessageContent { attributes, data_kind, data: data.into() }
}

/// The content type as it was sent; JSON has one even if its event does not say.
pub(crate) fn content_type_of(content: &MessageContent) -> Result<String, ApiError> {
    let event = Event::from_stored(&content.attributes, None)
        .map_err(|error| ApiError::internal(format!("stored attributes cannot be read: {error}")))?;
    Ok(vercel::content_type(&event, kind_from_core(content.data_kind)).to_owned())
}

/// Where data is that is too large to be in an answer; `None`: it is in there.
pub(crate) fn data_url(home: &ResourceName, message: MessageId, content: &MessageContent) -> Option<String> {
    match content.data {
        Data::Chunked { .. } => Some(paths::data_url(home, message)),
        Data::Whole(_) => None,
    }
}

/// A message of this event, with no options but its delay.
pub(crate) fn new_message(event: Event, delay: Option<Duration>) -> NewMessage {
    NewMessage { content: Arc::new(content_of(event)), delay, priority: 0, time_to_live: None }
}

/// The answer to a lease call.
pub(crate) fn render_grants(
    place: &Place<'_>,
    grants: &[Grant],
    contents: &[Arc<MessageContent>],
    as_batch: bool,
) -> Result<String, ApiError> {
    if grants.len() != contents.len() {
        return Err(ApiError::internal(format!("{} grants, {} contents", grants.len(), contents.len())));
    }
    let ids: Vec<String> = grants.iter().map(|grant| grant.message.to_string()).collect();
    let events = grants.iter().zip(contents);
    let events =
        events.map(|(grant, content)| event_of(grant.message, grant.dead_letter.as_deref(), content));
    let events: Vec<Event> = events.collect::<Result<_, _>>()?;
    let home = place.name_of(&place.queue()?)?;
    let urls = grants.iter().zip(contents).map(|(grant, content)| data_url(&home, grant.message, content));
    let urls: Vec<Option<String>> = urls.collect();
    let named = grants.iter().zip(&ids).zip(events.iter().zip(&urls));
    let messages = named.map(|((grant, id), (event, url))| LeasedMessage {
        message_id: id,
        event,
        data_url: url.as_deref(),
        lease_generation: grant.generation.0,
        // Of a queue the delivery is the message's own.
        delivery: (place.kind == Kind::Topic).then_some(grant.delivery.0),
        delivery_count: u64::from(grant.delivery_count),
        lease_expire_time: grant.lease_until.as_millis(),
    });
    let messages: Vec<_> = messages.collect();
    Ok(if as_batch { render_leased_batch(&messages) } else { render_leased(&messages) })
}

/// A message of the queue that `place` names.
pub(crate) fn message_of(
    row: &DeliveryRow,
    content: &MessageContent,
    place: &Place<'_>,
) -> Result<Message, ApiError> {
    let id = row.message_id();
    let dead_letter = row.dead_letter.as_deref();
    let death = dead_letter.map(|dead| {
        // A group is named by its path; of a queue the id is told.
        let within = if dead.queue.contains('/') { "" } else { "queues/" };
        let queue = format!("{}/{within}{}", place.environment.name, dead.queue);
        MessageDeath { time: dead.at.as_millis(), reason: reason_of(dead.reason), queue }
    });
    let state = state_from_core(row.state);
    let home = place.name_of(&place.queue()?)?;
    let due_in = |wanted: MessageState| (state == wanted).then(|| row.due_at.as_millis());
    Ok(Message {
        message_id: id.to_string(),
        data_url: data_url(&home, id, content),
        home,
        state,
        // As it was sent: the resource has fields of its own for what became of it.
        event: event_of(id, None, content)?,
        priority: row.priority,
        delivery_count: row.delivery_count,
        failure_count: row.failure_count,
        lost_lease_count: row.lost_lease_count,
        send_time: row.sent_at.as_millis(),
        visible_time: due_in(MessageState::Delayed),
        lease_expire_time: due_in(MessageState::Leased),
        expire_time: row.expires_at.as_millis(),
        dead_letter: death,
        finish_time: due_in(MessageState::Completed).or(due_in(MessageState::Cancelled)),
        size_bytes: row.size_bytes,
    })
}

/// A page of messages of that queue.
pub(crate) fn messages_of(
    rows: &[DeliveryRow],
    contents: &[Arc<MessageContent>],
    place: &Place<'_>,
) -> Result<Vec<Message>, ApiError> {
    if rows.len() != contents.len() {
        return Err(ApiError::internal(format!("{} messages, {} contents", rows.len(), contents.len())));
    }
    rows.iter().zip(contents).map(|(row, content)| message_of(row, content, place)).collect()
}

/// The event as it is shown: with its data, unless that is elsewhere.
fn event_of(
    message: MessageId,
    dead_letter: Option<&DeadLetter>,
    content: &MessageContent,
) -> Result<Event, ApiError> {
    let kind = kind_from_core(content.data_kind);
    let data = match &content.data {
        Data::Chunked { .. } => None,
        Data::Whole(data) => kind.map(|kind| (kind, data.to_vec())),
    };
    let mut event = Event::from_stored(&content.attributes, data).map_err(|error| {
        ApiError::internal(format!("attributes of message {message} cannot be read: {error}"))
    })?;
    // Messages that were sent in another form than an event have no id of their own.
    if event.attribute(ID).is_none() {
        event.attributes.insert(0, (ID.to_owned(), AttributeValue::String(message.to_string())));
    }
    if let Some(dead_letter) = dead_letter {
        mark_dead_letter(&mut event, dead_letter);
    }
    Ok(event)
}

fn mark_dead_letter(event: &mut Event, dead_letter: &DeadLetter) {
    for (name, value) in [
        (DEAD_LETTER_REASON, reason_of(dead_letter.reason)),
        (DEAD_LETTER_QUEUE, &dead_letter.queue),
        (DEAD_LETTER_TIME, &time::render(dead_letter.at.as_millis())),
    ] {
        event.attributes.retain(|(own, _)| own != name);
        event.attributes.push((name.to_owned(), AttributeValue::from(value)));
    }
}

fn reason_of(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::AttemptsSpent => "attempts_spent",
        DeadReason::LeasesLost => "leases_lost",
        DeadReason::Cancelled => "cancelled",
        DeadReason::Deduplicated => "deduplicated",
        DeadReason::QueueDeleted => "queue_deleted",
        DeadReason::Refused => "refused",
    }
}

/// The state that a peek looks into.
pub(crate) fn state_to_core(state: MessageState) -> DeliveryState {
    match state {
        MessageState::Cancelled => DeliveryState::Cancelled,
        MessageState::Completed => DeliveryState::Completed,
        MessageState::Dead => DeliveryState::Dead,
        MessageState::Delayed => DeliveryState::Delayed,
        MessageState::Leased => DeliveryState::Leased,
        MessageState::Ready => DeliveryState::Ready,
    }
}

fn state_from_core(state: DeliveryState) -> MessageState {
    match state {
        DeliveryState::Cancelled => MessageState::Cancelled,
        DeliveryState::Completed => MessageState::Completed,
        DeliveryState::Dead => MessageState::Dead,
        DeliveryState::Delayed => MessageState::Delayed,
        DeliveryState::Leased => MessageState::Leased,
        DeliveryState::Ready => MessageState::Ready,
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
