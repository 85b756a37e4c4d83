//! Queues: making, showing, explaining, pausing, emptying and removing them; and which verb a POST means.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::ErrorCode;
use millpond_api::name::check_id;
use millpond_api::purge::{PurgeRequest, render_purged};
use millpond_api::queue::{QueueBody, QueueUpdate};
use millpond_core::command::DeleteQueue;
use millpond_core::outcome::QueueView;
use millpond_core::{Command, Outcome};
use serde_json::json;

use super::update_queue::one_etag;
use super::{dead_letters, lease, messages, send, settle, unexpected};
use crate::app::App;
use crate::convert::{queue, why};
use crate::error::ApiError;
use crate::extract::{Place, Query};
use crate::idempotency::{keyed_body, mark, no_arguments};

/// Verbs of a queue, and the method of each.
pub(crate) const VERBS: [(&str, Method); 13] = [
    ("ack", Method::POST),
    ("extend", Method::POST),
    ("lease", Method::POST),
    ("nack", Method::POST),
    ("pause", Method::POST),
    ("peek", Method::POST),
    ("purge", Method::POST),
    ("redrive", Method::POST),
    ("replay", Method::POST),
    ("resume", Method::POST),
    ("send", Method::POST),
    ("settle", Method::POST),
    ("why", Method::GET),
];

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
    let (body, key) = keyed_body(&app, &parts, body).await?;
    let update = QueueUpdate::parse(&body, None)?;
    let id = new_id(given, &update.body, &place)?;
    let create = queue::to_create(id, &update, &place.environment.name, validate_only)?;
    let answer = app.submit_once(&place.environment, key, Command::CreateQueue(create)).await;
    let (outcome, repeated) = answer.map_err(|error| error.under(queue::path_of))?;
    Ok(mark(show(outcome, &place)?, repeated))
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
        Some(verb) => return Err(wrong_verb(verb, request.method())),
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
    let place = Place::of(&app, parts.uri.path())?;
    if let Some(verb) = place.verb {
        return Err(wrong_verb(verb, &parts.method));
    }
    let query = Query::of(&parts.uri, &["allow_missing", "etag", "force", "validate_only"])?;
    let command = Command::DeleteQueue(DeleteQueue {
        name: place.queue()?,
        etag: one_etag([query.text("etag")])?.map(Into::into),
        allow_missing: query.flag("allow_missing")?,
        force: query.flag("force")?,
        validate_only: query.flag("validate_only")?,
    });
    let key = no_arguments(&app, &parts, body).await?;
    match app.submit_once(&place.environment, key, command).await? {
        (Outcome::QueueDeleted(_), repeated) => Ok(mark(super::json("{}"), repeated)),
        (other, _) => Err(unexpected(&other)),
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
        Some("peek") => messages::peek(&app, &place, &parts, body).await,
        Some("purge") => purge(&app, &place, &parts, body).await,
        Some("redrive") => dead_letters::redrive(&app, &place, &parts, body).await,
        Some("replay") => dead_letters::replay(&app, &place, &parts, body).await,
        Some("resume") => resume(&app, &place, &parts, body).await,
        Some("send") => send::send(&app, &place, &parts, body).await,
        Some("settle") => settle::together(&app, &place, &parts, body).await,
        Some(verb) => Err(wrong_verb(verb, &parts.method)),
        None => Err(ApiError::method_not_allowed(allowed(None).unwrap_or_default())),
    }
}

/// The verb is not one of this method: of another, or of none.
pub(super) fn wrong_verb(verb: &str, method: &Method) -> ApiError {
    match allowed(Some(verb)) {
        Some(allow) => ApiError::method_not_allowed(allow),
        None => ApiError::new(ErrorCode::NotFound, format!("no verb {verb:?} for {method}")),
    }
}

/// The methods that a queue takes, or a verb of it, which the router cannot tell apart.
fn allowed(verb: Option<&str>) -> Option<&'static str> {
    let Some(verb) = verb else { return Some("GET,HEAD,DELETE,PATCH") };
    match VERBS.iter().find(|(known, _)| *known == verb)?.1 {
        Method::GET => Some("GET,HEAD"),
        _ => Some("POST"),
    }
}

/// A method that no queue and no verb takes.
pub(crate) async fn no_method(State(app): State<Arc<App>>, request: Request) -> ApiError {
    match Place::of(&app, request.uri().path()) {
        Ok(Place { verb: Some(verb), .. }) => wrong_verb(verb, request.method()),
        Ok(Place { verb: None, .. }) => ApiError::method_not_allowed(allowed(None).unwrap_or_default()),
        Err(error) => error,
    }
}

async fn pause(app: &App, place: &Place<'_>, parts: &Parts, body: Body) -> Result<Response, ApiError> {
    let command = Command::PauseQueue { queue: place.queue()? };
    show_changed(app, place, parts, body, command).await
}

async fn resume(app: &App, place: &Place<'_>, parts: &Parts, body: Body) -> Result<Response, ApiError> {
    let command = Command::ResumeQueue { queue: place.queue()? };
    show_changed(app, place, parts, body, command).await
}

async fn show_changed(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
    command: Command,
) -> Result<Response, ApiError> {
    Query::of(&parts.uri, &[])?;
    let key = no_arguments(app, parts, body).await?;
    let (outcome, repeated) = app.submit_once(&place.environment, key, command).await?;
    Ok(mark(show(outcome, place)?, repeated))
}

async fn purge(app: &App, place: &Place<'_>, parts: &Parts, body: Body) -> Result<Response, ApiError> {
    Query::of(&parts.uri, &[])?;
    let (body, key) = keyed_body(app, parts, body).await?;
    let target = queue::purge_target(PurgeRequest::parse(&body)?.target);
    let command = Command::PurgeQueue { queue: place.queue()?, target };
    match app.submit_once(&place.environment, key, command).await? {
        (Outcome::Purged(count), repeated) => Ok(mark(super::json(render_purged(count)), repeated)),
        (other, _) => Err(unexpected(&other)),
    }
}

pub(super) fn show(outcome: Outcome, place: &Place<'_>) -> Result<Response, ApiError> {
    let Outcome::Queue(view) = outcome else { return Err(unexpected(&outcome)) };
    let view: &QueueView = &view;
    let name = place.name_of(&view.queue.name)?;
    Ok(super::json(queue::from_view(view, name).render()))
}
