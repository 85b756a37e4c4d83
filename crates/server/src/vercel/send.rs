//! Sends one message: its payload is the body, of any length up to the server's bound.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use millpond_api::vercel::answer::{JSON, render_sent};
use millpond_api::vercel::event;
use millpond_api::vercel::handle::duplicate_id;
use millpond_api::vercel::header::SendOptions;
use millpond_core::outcome::Sent;

use super::{Call, Refusal, random};
use crate::app::App;
use crate::error::ApiError;
use crate::idempotency::Key;
use crate::incoming::{self, Draft, Options};

const MESSAGE_ID: HeaderName = HeaderName::from_static("vqs-message-id");

pub(super) async fn send(app: &App, call: &Call<'_>, body: Body) -> Result<Response, Refusal> {
    let options = SendOptions::read(|name| call.header(name))?;
    let draft = Draft {
        environment: &call.environment,
        queue: call.log(),
        makes: call.makes_log(),
        event: event(&call.names.topic, |name| call.header(name))?,
        options: options_of(&options),
        key: Key::of_vercel(options.key),
        digest: None,
    };
    let sent = incoming::send(app, draft, body).await?;
    let id = answered_id(&sent)?;
    let mut response = Response::new(Body::from(render_sent(&id)));
    *response.status_mut() = StatusCode::CREATED;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    if let Ok(id) = HeaderValue::try_from(id) {
        headers.insert(MESSAGE_ID, id);
    }
    Ok(response)
}

/// Options of a message as the core takes them.
pub(super) fn options_of(options: &SendOptions<'_>) -> Options {
    Options { delay: options.delay, priority: 0, time_to_live: Some(options.time_to_live) }
}

/// The id that the sender of one message gets: the message's own, or a new one that names it if the key was known.
pub(super) fn answered_id(sent: &Sent) -> Result<String, ApiError> {
    let id = sent.ids.first().ok_or_else(|| ApiError::internal("a send without an id"))?.to_string();
    Ok(if sent.repeated { duplicate_id(&id, random()) } else { id })
}
