//! Queues: making, showing, explaining, pausing, emptying and removing them; and which verb a POST means.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::ErrorCode;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::name::check_id;
use millpond_api::queue::QueueBody;
use millpond_core::command::{DeleteQueue, PurgeTarget};
use millpond_core::outcome::QueueView;
use millpond_core::{Command, Outcome};
use serde_json::json;

use super::{lease, send, settle, unexpected};
use crate::app::App;
use crate::convert::{queue, why};
use crate::error::ApiError;
use crate::extract::{self, Place, Query};

/// Characters of an id that the server makes: 32 of them, so that five bits choose one.
const ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Random characters of such an id: 60 bits.
const ID_LENGTH: usize = 12;

pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let query = Query::of(&parts.uri, &["queue_id", "validate_only"])?;
    let place = Place::of(&app, parts.uri.path())?;
    let validate_only = query.flag("validate_only")?;
    let given = query.text("queue_id");
    if let Some(id) = given {
        check_id(id).map_err(|fault| fault.at("queue_id", id))?;
    }
    let body = extract::json_body(&app, &parts.headers, body, CALL_BYTES_MAX).await?;
    let body = QueueBody::parse(&body)?;
    let id = new_id(given, &body, &place)?;
    let create = queue::to_create(id, body, &place.environment.name, validate_only)?;
    let answer = app.submit(&place.environment, Command::CreateQueue(create)).await;
    show(answer.map_err(|error| error.under(queue::path_of))?.outcome, &place)
}

/// The id from the query, from the name in the body, or one that the server makes.
fn new_id(given: Option<&str>, body: &QueueBody, place: &Place<'_>) -> Result<Box<str>, ApiError> {
    let Some(name) = &body.name else {
        return Ok(given.map_or_else(made_id, Into::into));
    };
    if *name.environment() != place.environment.name || given.is_some_and(|given| given != name.queue()) {
        let expected = place.name_of(given.unwrap_or(name.queue()))?;
        return Err(ApiError::field(
            "name",
            name.to_string(),
            format!("name is {name}, expected {expected}"),
        ));
    }
    Ok(name.queue().into())
}

fn made_id() -> Box<str> {
    let random = RandomState::new().hash_one("queue id");
    let digit = |at: usize| ID_ALPHABET[usize::try_from((random >> (5 * at)) & 31).unwrap_or(0)];
    let id: String = std::iter::once('q').chain((0..ID_LENGTH).map(|at| char::from(digit(at)))).collect();
    id.into()
}

pub(crate) async fn get_or_why(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let place = Place::of(&app, request.uri().path())?;
    let explain = match place.verb {
        None => false,
        Some("why") => true,
        Some(verb) => return Err(wrong_verb(verb, "GET")),
    };
    Query::of(request.uri(), &[])?;
    let command = Command::GetQueue { queue: place.queue()? };
    let outcome = app.submit(&place.environment, command).await?.outcome;
    if explain { explain_queue(&outcome) } else { show(outcome, &place) }
}

fn explain_queue(outcome: &Outcome) -> Result<Response, ApiError> {
    let Outcome::Queue(view) = outcome else { return Err(unexpected(outcome)) };
    let why = why::why_of(view);
    Ok(super::json(json!({ "why": why, "sentence": why.detail }).to_string()))
}

pub(crate) async fn delete(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let query = Query::of(&parts.uri, &["allow_missing", "etag", "force", "validate_only"])?;
    let place = Place::of(&app, parts.uri.path())?;
    if let Some(verb) = place.verb {
        return Err(wrong_verb(verb, "DELETE"));
    }
    let command = Command::DeleteQueue(DeleteQueue {
        name: place.queue()?,
        etag: query.text("etag").map(Into::into),
        allow_missing: query.flag("allow_missing")?,
        force: query.flag("force")?,
        validate_only: query.flag("validate_only")?,
    });
    extract::check_no_fields(&extract::json_body(&app, &parts.headers, body, CALL_BYTES_MAX).await?)?;
    match app.submit(&place.environment, command).await?.outcome {
        Outcome::QueueDeleted(_) => Ok(super::json("{}")),
        other => Err(unexpected(&other)),
    }
}

/// A POST to a queue: the verb says what is meant.
pub(crate) async fn verb(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let place = Place::of(&app, parts.uri.path())?;
    match place.verb {
        Some("ack") => settle::ack(&app, &place, &parts, body).await,
        Some("extend") => settle::extend(&app, &place, &parts, body).await,
        Some("lease") => lease::lease(&app, &place, &parts, body).await,
        Some("nack") => settle::nack(&app, &place, &parts, body).await,
        Some("pause") => pause(&app, &place, &parts, body).await,
        Some("purge") => purge(&app, &place, &parts, body).await,
        Some("resume") => resume(&app, &place, &parts, body).await,
        Some("send") => send::send(&app, &place, &parts, body).await,
        Some(verb) => Err(wrong_verb(verb, "POST")),
        None => Err(ApiError::method_not_allowed("GET, DELETE")),
    }
}

/// The verb is not one of this method: of another, or of none.
fn wrong_verb(verb: &str, method: &str) -> ApiError {
    match verb {
        "why" => ApiError::method_not_allowed("GET"),
        "ack" | "extend" | "lease" | "nack" | "pause" | "purge" | "resume" | "send" => {
            ApiError::method_not_allowed("POST")
        }
        _ => ApiError::new(ErrorCode::NotFound, format!("no verb {verb:?} for {method}")),
    }
}

async fn pause(app: &App, place: &Place<'_>, parts: &Parts, body: Body) -> Result<Response, ApiError> {
    no_arguments(app, parts, body).await?;
    let command = Command::PauseQueue { queue: place.queue()? };
    show(app.submit(&place.environment, command).await?.outcome, place)
}

async fn resume(app: &App, place: &Place<'_>, parts: &Parts, body: Body) -> Result<Response, ApiError> {
    no_arguments(app, parts, body).await?;
    let command = Command::ResumeQueue { queue: place.queue()? };
    show(app.submit(&place.environment, command).await?.outcome, place)
}

async fn purge(app: &App, place: &Place<'_>, parts: &Parts, body: Body) -> Result<Response, ApiError> {
    no_arguments(app, parts, body).await?;
    let command = Command::PurgeQueue { queue: place.queue()?, target: PurgeTarget::Waiting };
    match app.submit(&place.environment, command).await?.outcome {
        Outcome::Purged(count) => Ok(super::json(json!({ "purged_count": count.to_string() }).to_string())),
        other => Err(unexpected(&other)),
    }
}

async fn no_arguments(app: &App, parts: &Parts, body: Body) -> Result<(), ApiError> {
    Query::of(&parts.uri, &[])?;
    extract::check_no_fields(&extract::json_body(app, &parts.headers, body, CALL_BYTES_MAX).await?)
}

fn show(outcome: Outcome, place: &Place<'_>) -> Result<Response, ApiError> {
    let Outcome::Queue(view) = outcome else { return Err(unexpected(&outcome)) };
    let view: &QueueView = &view;
    let name = place.name_of(&view.queue.name)?;
    Ok(super::json(queue::from_view(view, name).render()))
}
