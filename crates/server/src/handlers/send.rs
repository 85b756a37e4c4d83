//! `:send`: one call, four forms, told apart by content type and headers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use millpond_api::event::binary;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::send::{SendForm, SendRequest, has_event_headers, parse_delay, render_sent};
use millpond_api::{Fault, duration};
use millpond_core::command::{Idempotency, NewMessage, Send};
use millpond_core::limits::{CONTENT_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
use millpond_core::{Command, Outcome};
use sha2::{Digest, Sha256};

use super::{json, unexpected};
use crate::app::App;
use crate::convert::message::content_of;
use crate::error::ApiError;
use crate::extract::{self, Place, Query};

/// The header that makes a send repeatable.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

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
    let options = Options::of(&Query::of(&parts.uri, &["delay", "priority", "ttl"])?)?;
    let headers = &parts.headers;
    let has_event = has_event_headers(headers.keys().map(|name| name.as_str()));
    let form = SendForm::choose(extract::content_type(headers), has_event)?;
    let queue = place.queue()?;
    let key = idempotency_key(headers)?;
    let limit = if form == SendForm::Binary { CONTENT_BYTES_MAX } else { CALL_BYTES_MAX };
    let body = app.bodies.read(body, limit).await?;
    let idempotency = key.map(|key| Idempotency { key, digest: digest(parts, &body) });
    let request = read(form, headers, body)?;
    let messages = options.apply(request)?;
    let command = Command::Send(Send { queue, messages, idempotency });
    match app.submit(&place.environment, command).await?.outcome {
        Outcome::Sent(sent) => {
            let ids: Vec<String> = sent.ids.iter().map(ToString::to_string).collect();
            Ok(json(render_sent(&ids)))
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

fn event_headers(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    let all = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    all.filter(|(name, _)| name.starts_with(binary::HEADER_PREFIX))
}

impl Options {
    fn of(query: &Query<'_>) -> Result<Self, ApiError> {
        let delay = query.text("delay").map(|text| parse_delay("delay", text)).transpose()?;
        let priority = query.text("priority").map(|text| {
            text.parse().map_err(|_| Fault::new("a whole number of 32 bits").at("priority", text))
        });
        let life = |text| duration::parse(text).map_err(|fault| fault.at("ttl", text));
        let time_to_live = query.text("ttl").map(life).transpose()?;
        Ok(Self { delay, priority: priority.transpose()?.unwrap_or(0), time_to_live })
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
            content: Arc::new(content_of(event)),
            delay,
            priority: self.priority,
            time_to_live: self.time_to_live,
        };
        Ok(request.events.into_iter().map(message).collect())
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<Box<str>>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let refuse = |expected: &str| {
        Fault::beyond(IDEMPOTENCY_KEY_BYTES_MAX, expected)
            .at(IDEMPOTENCY_KEY, &String::from_utf8_lossy(value.as_bytes()))
            .into()
    };
    if values.next().is_some() {
        return Err(refuse("to be given once"));
    }
    match std::str::from_utf8(value.as_bytes()) {
        Ok(key) if (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) => Ok(Some(key.into())),
        _ => Err(refuse(&format!("1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes of utf-8"))),
    }
}

/// What a key stands for: content type, `ce-` headers in the order of their names, query and body, each with its length
/// before it.
fn digest(parts: &Parts, body: &[u8]) -> u128 {
    let mut hasher = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(bytes.len().to_be_bytes());
        hasher.update(bytes);
    };
    add(extract::content_type(&parts.headers).unwrap_or_default().as_bytes());
    let mut headers: Vec<_> = event_headers(&parts.headers).collect();
    headers.sort_unstable();
    add(&headers.len().to_be_bytes());
    for (name, value) in headers {
        add(name.as_bytes());
        add(value);
    }
    add(parts.uri.query().unwrap_or_default().as_bytes());
    add(body);
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize()[..16]);
    u128::from_be_bytes(half)
}
