//! `:send`: one call, four forms, told apart by content type and headers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::event::binary;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::send::{SendForm, SendRequest, has_event_headers, parse_delay, render_sent};
use millpond_api::{Fault, duration};
use millpond_core::command::{Idempotency, NewMessage, Send};
use millpond_core::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use millpond_core::row::MessageContent;
use millpond_core::{Command, Outcome};
use sha2::{Digest, Sha256};

use super::{json, send_binary, unexpected};
use crate::app::App;
use crate::convert::message::content_of;
use crate::error::ApiError;
use crate::extract::{self, Place, Query};

/// The header that makes a send repeatable.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

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
    pub(super) options: Options,
    pub(super) key: Option<Box<str>>,
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
    let call = Call { place, parts, queue, options, key: idempotency_key(headers)? };
    if form == SendForm::Binary {
        return send_binary::send(app, call, body).await;
    }
    let body = app.bodies.read(body, CALL_BYTES_MAX).await?;
    let mut digest = SendDigest::of(parts);
    digest.add_body(&body);
    let messages = options.apply(SendRequest::parse(form, &body)?)?;
    let send = Send { queue: call.queue.clone(), messages, idempotency: call.idempotency(digest) };
    sent(app, &call, Command::Send(send)).await
}

/// Has the engine send, and answers with the ids.
pub(super) async fn sent(app: &App, call: &Call<'_>, command: Command) -> Result<Response, ApiError> {
    match app.submit(&call.place.environment, command).await?.outcome {
        Outcome::Sent(sent) => {
            let ids: Vec<String> = sent.ids.iter().map(ToString::to_string).collect();
            Ok(json(render_sent(&ids)))
        }
        other => Err(unexpected(&other)),
    }
}

impl Call<'_> {
    pub(super) fn idempotency(&self, digest: SendDigest) -> Option<Idempotency> {
        let key = self.key.clone()?;
        Some(Idempotency { key, digest: digest.finish() })
    }
}

pub(super) fn event_headers(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
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

/// What a key stands for: content type, `ce-` headers in the order of their names and query, each with its length before it,
/// and the body, whose length nobody may know before its end.
pub(crate) struct SendDigest(Sha256);

impl SendDigest {
    pub(crate) fn of(parts: &Parts) -> Self {
        let mut digest = Self(Sha256::new());
        digest.add(extract::content_type(&parts.headers).unwrap_or_default().as_bytes());
        let mut headers: Vec<_> = event_headers(&parts.headers).collect();
        headers.sort_unstable();
        digest.add(&headers.len().to_be_bytes());
        for (name, value) in headers {
            digest.add(name.as_bytes());
            digest.add(value);
        }
        digest.add(parts.uri.query().unwrap_or_default().as_bytes());
        digest
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes.len().to_be_bytes());
        self.0.update(bytes);
    }

    /// The next bytes of the body, which comes last.
    pub(crate) fn add_body(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> u128 {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0.finalize()[..16]);
        u128::from_be_bytes(half)
    }
}
