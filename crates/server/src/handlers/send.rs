//! `:send`: one call, four forms, told apart by content type and headers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::duration;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::name::Kind;
use millpond_api::send::{
    SEND_PARAMETERS, SendForm, SendRequest, TOPIC_SEND_PARAMETERS, has_event_headers, parse_delay,
    parse_priority, parse_time_to_live, render_sent,
};
use millpond_core::command::{CreateQueue, NewMessage, Send, Start};
use millpond_core::row::MessageContent;
use millpond_core::{Command, Outcome};

use super::{json, send_binary, unexpected};
use crate::app::App;
use crate::convert::message::content_of;
use crate::error::ApiError;
use crate::extract::{self, Place, Query};
use crate::idempotency::{Key, mark};
use crate::making::make;

/// Options that stand in the query.
#[derive(Clone, Copy)]
pub(super) struct Options {
    delay: Option<Duration>,
    priority: i32,
    time_to_live: Option<Duration>,
}

/// A send, but for its body.
pub(super) struct Call<'a> {
    pub(super) place: &'a Place<'a>,
    pub(super) parts: &'a Parts,
    pub(super) queue: Box<str>,
    /// The partition that it goes to, which is made if it is not there.
    pub(super) makes: Vec<CreateQueue>,
    pub(super) options: Options,
    pub(super) key: Key,
}

pub(super) async fn send(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let is_topic = place.kind == Kind::Topic;
    let query = Query::of(&parts.uri, if is_topic { TOPIC_SEND_PARAMETERS } else { SEND_PARAMETERS })?;
    let options = Options::of(&query)?;
    let headers = &parts.headers;
    let has_event = has_event_headers(headers.keys().map(|name| name.as_str()));
    let form = SendForm::choose(extract::content_type(headers), has_event)?;
    let partition = query.text("partition").map(|id| partition_of(place, id)).transpose()?;
    let makes: Vec<_> = partition.clone().map(|name| make(name, Start::default())).into_iter().collect();
    let queue = partition.map_or_else(|| place.queue(), Ok)?;
    let call = Call { place, parts, queue, makes, options, key: Key::of(headers)? };
    if form == SendForm::Binary {
        return send_binary::send(app, call, body).await;
    }
    let body = app.bodies.read(body, CALL_BYTES_MAX).await?;
    let messages = options.apply(SendRequest::parse(form, &body)?)?;
    let send = Send { queue: call.queue, messages, idempotency: call.key.with(parts, &body) };
    sent(app, place, &call.makes, Command::Send(send)).await
}

fn partition_of(place: &Place<'_>, id: &str) -> Result<Box<str>, ApiError> {
    Kind::Partition.check_id(id).map_err(|fault| fault.at("partition", id))?;
    place.part(Kind::Partition, id)
}

/// Has the engine send, and answers with the ids.
pub(super) async fn sent(
    app: &App,
    place: &Place<'_>,
    makes: &[CreateQueue],
    command: Command,
) -> Result<Response, ApiError> {
    match app.submit_making(&place.environment, makes, command).await?.outcome {
        Outcome::Sent(sent) => {
            let ids: Vec<String> = sent.ids.iter().map(ToString::to_string).collect();
            Ok(mark(json(render_sent(&ids)), sent.repeated))
        }
        other => Err(unexpected(&other)),
    }
}

impl Options {
    fn of(query: &Query<'_>) -> Result<Self, ApiError> {
        let delay = query.text("delay").map(|text| parse_delay("delay", text)).transpose()?;
        let priority = query.text("priority").map(|text| parse_priority("priority", text)).transpose()?;
        let time_to_live = query.text("ttl").map(|text| parse_time_to_live("ttl", text)).transpose()?;
        Ok(Self { delay, priority: priority.unwrap_or(0), time_to_live })
    }

    /// The messages, each with the options of the call.
    fn apply(self, request: SendRequest) -> Result<Vec<NewMessage>, ApiError> {
        if self.delay.is_some() && request.delay.is_some() {
            let value = duration::render(self.delay.unwrap_or_default());
            return Err(ApiError::field(
                "delay",
                value,
                "delay stands in the query and in the body, expected one",
            ));
        }
        let options = Self { delay: self.delay.or(request.delay), ..self };
        Ok(request.events.into_iter().map(|event| options.message(content_of(event))).collect())
    }

    /// A message with these options.
    pub(super) fn message(self, content: MessageContent) -> NewMessage {
        NewMessage {
            content: Arc::new(content),
            delay: self.delay,
            priority: self.priority,
            time_to_live: self.time_to_live,
        }
    }
}
