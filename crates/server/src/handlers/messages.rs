//! Messages as resources: looked up, looked at, deleted. Nothing is leased or counted.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::ErrorCode;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::message::{Message, PeekRequest, render_messages};
use millpond_api::name::Kind;
use millpond_core::command::{Browse, Cursor, MessageRef, WaiterId};
use millpond_core::{Command, Outcome};

use super::{json, unexpected};
use crate::app::App;
use crate::convert::message::{message_of, messages_of, state_to_core};
use crate::error::ApiError;
use crate::extract::{self, Place, Query};
use crate::idempotency::{mark, no_arguments};

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let place = Place::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let wanted = named(&app, &place).await?;
    let answer = app.submit(&place.environment, Command::GetMessage(wanted)).await?;
    match (answer.outcome, answer.contents.first()) {
        (Outcome::Message(row), Some(content)) => Ok(json(message_of(&row, content, &place)?.render())),
        (other, _) => Err(unexpected(&other)),
    }
}

pub(crate) async fn delete(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let place = Place::of(&app, parts.uri.path())?;
    Query::of(&parts.uri, &[])?;
    let key = no_arguments(&app, &parts, body).await?;
    let command = Command::DeleteMessage(named(&app, &place).await?);
    match app.submit_once(&place.environment, key, command).await? {
        (Outcome::MessageDeleted, repeated) => Ok(mark(json("{}"), repeated)),
        (other, _) => Err(unexpected(&other)),
    }
}

/// The message that a path names. What is no message id names none; whether there is such a queue still matters.
pub(super) async fn named(app: &App, place: &Place<'_>) -> Result<MessageRef, ApiError> {
    let queue = place.queue()?;
    if let Ok(message) = place.message.parse() {
        return Ok(MessageRef { queue, message });
    }
    app.submit(&place.environment, Command::GetQueue { queue }).await?;
    Err(ApiError::new(ErrorCode::MessageNotFound, "what the path names is no message id"))
}

pub(super) async fn peek(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    Query::of(&parts.uri, &[])?;
    let body = extract::json_body(app, &parts.headers, body, CALL_BYTES_MAX).await?;
    let request = PeekRequest::parse(place.kind, &body)?;
    let partition = request.partition.as_deref().map(|id| place.part(Kind::Partition, id));
    let browse = Browse {
        queue: partition.unwrap_or_else(|| place.queue())?,
        state: state_to_core(request.state),
        after: None,
        from: None,
        until: None,
        limit: usize::try_from(request.max_messages).unwrap_or(usize::MAX),
        contents: true,
        // The engine names the call.
        waiter: WaiterId(0),
    };
    let (messages, _) = browse_messages(app, place, browse).await?;
    Ok(json(render_messages(&messages)))
}

/// A page of messages, and where the next one begins.
pub(super) async fn browse_messages(
    app: &App,
    place: &Place<'_>,
    browse: Browse,
) -> Result<(Vec<Message>, Option<Cursor>), ApiError> {
    let answer = app.submit(&place.environment, Command::Browse(browse)).await?;
    match answer.outcome {
        Outcome::Browsed(page) => Ok((messages_of(&page.deliveries, &answer.contents, place)?, page.next)),
        other => Err(unexpected(&other)),
    }
}
