//! `:send`: one call, four forms, told apart by content type and headers.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use millpond_api::duration;
use millpond_api::event::binary;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::send::{
    SEND_PARAMETERS, SendForm, SendRequest, has_event_headers, parse_delay, parse_priority,
    parse_time_to_live, render_sent,
};
use millpond_core::command::{NewMessage, Send};
use millpond_core::limits::CONTENT_BYTES_MAX;
use millpond_core::{Command, Outcome};

use super::{json, unexpected};
use crate::app::App;
use crate::convert::message::new_message;
use crate::error::ApiError;
use crate::extract::{self, Place, Query};
use crate::idempotency::{Key, event_headers, mark};

/// Options that stand in the query.
struct Options {
    delay: Option<Duration>,
    priority: i32,
    time_to_live: Option<Duration>,
}

pub(super) async fn send(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let options = Options::of(&Query::of(&parts.uri, SEND_PARAMETERS)?)?;
    let headers = &parts.headers;
    let has_event = has_event_headers(headers.keys().map(|name| name.as_str()));
    let form = SendForm::choose(extract::content_type(headers), has_event)?;
    let queue = place.queue()?;
    let key = Key::of(headers)?;
    let limit = if form == SendForm::Binary { CONTENT_BYTES_MAX } else { CALL_BYTES_MAX };
    let body = app.bodies.read(body, limit).await?;
    let idempotency = key.with(parts, &body);
    let request = read(form, headers, body)?;
    let messages = options.apply(request)?;
    let command = Command::Send(Send { queue, messages, idempotency });
    match app.submit(&place.environment, command).await?.outcome {
        Outcome::Sent(sent) => {
            let ids: Vec<String> = sent.ids.iter().map(ToString::to_string).collect();
            Ok(mark(json(render_sent(&ids)), sent.repeated))
        }
        other => Err(unexpected(&other)),
    }
}

fn read(form: SendForm, headers: &HeaderMap, body: Bytes) -> Result<SendRequest, ApiError> {
    if form != SendForm::Binary {
        return Ok(SendRequest::parse(form, &body)?);
    }
    let content_type = headers.get(axum::http::header::CONTENT_TYPE).map(|value| value.as_bytes());
    let event = binary::parse(event_headers(headers), content_type, Vec::from(body))?;
    Ok(SendRequest { events: vec![event], delay: None })
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
        let delay = self.delay.or(request.delay);
        let message = |event| NewMessage {
            priority: self.priority,
            time_to_live: self.time_to_live,
            ..new_message(event, delay)
        };
        Ok(request.events.into_iter().map(message).collect())
    }
}
