//! Queues: making, showing, explaining, pausing, emptying and removing them; and which verb a POST means. Topics, groups and
//! partitions are handled alike: the core knows what each of them does.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::ErrorCode;
use millpond_api::name::Kind;
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

/// Verbs of a topic, all of them POST.
pub(crate) const TOPIC_VERBS: [(&str, Method); 7] = [
    ("ack", Method::POST),
    ("extend", Method::POST),
    ("lease", Method::POST),
    ("nack", Method::POST),
    ("peek", Method::POST),
    ("send", Method::POST),
    ("settle", Method::POST),
];

/// Verbs of a group.
pub(crate) const GROUP_VERBS: [(&str, Method); 3] =
    [("pause", Method::POST), ("resume", Method::POST), ("why", Method::GET)];

/// Verbs of what is of this kind.
fn verbs_of(kind: Kind) -> &'static [(&'static str, Method)] {
    match kind {
        Kind::Group => &GROUP_VERBS,
        Kind::Partition => &[],
        Kind::Queue => &VERBS,
        Kind::Topic => &TOPIC_VERBS,
    }
}

/// Characters of an id that the server makes: 32 of them, so that five bits choose one.
const ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Random characters of such an id: 60 bits.
const ID_LENGTH: usize = 12;

pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let place = Place::of(&app, parts.uri.path())?;
    let id_parameter = place.kind.id_parameter();
    let query = Query::of(&parts.uri, &[id_parameter, "validate_only"])?;
    let validate_only = query.flag("validate_only")?;
    let given = query.text(id_parameter);
    let given = given.map(|id| place.member(id_parameter, id)).transpose()?;
    let (body, key) = keyed_body(&app, &parts, body).await?;
    let update = QueueUpdate::parse(place.kind, &body, None)?;
    let name = new_name(given, &update.body, &place)?;
    let create = queue::to_create(place.kind, name, &update, &place.environment.name, validate_only)?;
    let answer = app.submit_once(&place.environment, key, Command::CreateQueue(create)).await;
    let (outcome, repeated) = answer.map_err(|error| error.under(queue::path_of))?;
    Ok(mark(show(outcome, &place)?, repeated))
}

/// The name by the id from the query, by the name in the body, or by an id that the server makes.
fn new_name(given: Option<Box<str>>, body: &QueueBody, place: &Place<'_>) -> Result<Box<str>, ApiError> {
    let Some(name) = &body.name else {
        return given
            .map_or_else(|| place.member(place.kind.id_parameter(), &made_id(&place.kind.noun()[..1])), Ok);
    };
    let own = match given {
        Some(given) => given,
        None => place.member("name", name.id())?,
    };
    let expected = place.name_of(&own)?;
    if *name != expected {
        let detail = format!("name is {name}, expected {expected}");
        return Err(ApiError::field("name", name.to_string(), detail));
    }
    Ok(own)
}

/// An id that nobody has, for all that can be known, and that starts so.
pub(super) fn made_id(prefix: &str) -> String {
    let random = RandomState::new().hash_one("id");
    let digit = |at: usize| ID_ALPHABET[usize::try_from((random >> (5 * at)) & 31).unwrap_or(0)];
    prefix.chars().chain((0..ID_LENGTH).map(|at| char::from(digit(at)))).collect()
}

pub(crate) async fn get_or_why(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let place = Place::of(&app, request.uri().path())?;
    let explain = match place.verb {
        None => false,
        Some(verb) if place.has_verb(verb, &Method::GET) => true,
        Some(_) => return Err(wrong_verb(&place, request.method())),
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
    if place.verb.is_some() {
        return Err(wrong_verb(&place, &parts.method));
    }
    let known = ["allow_missing", "etag", "validate_only", "force"];
    // Nothing but a queue can be in use by another.
    let known = if place.kind == Kind::Queue { &known[..] } else { &known[..3] };
    let query = Query::of(&parts.uri, known)?;
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
    let verb = place.verb.filter(|verb| place.has_verb(verb, &Method::POST));
    match verb {
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
        Some(_) | None => Err(wrong_verb(&place, &parts.method)),
    }
}

/// The method is not one of what the path names: of another verb, or of none.
pub(super) fn wrong_verb(place: &Place<'_>, method: &Method) -> ApiError {
    match (allowed(place), place.verb) {
        (Some(allow), _) => ApiError::method_not_allowed(allow),
        (None, verb) => {
            let verb = verb.unwrap_or_default();
            ApiError::new(ErrorCode::NotFound, format!("no verb {verb:?} for {method}"))
        }
    }
}

/// The methods that something takes, or a verb of it, which the router cannot tell apart.
fn allowed(place: &Place<'_>) -> Option<&'static str> {
    match (place.verb, place.kind) {
        (None, Kind::Partition) => Some("DELETE"),
        (None, Kind::Group | Kind::Queue | Kind::Topic) => Some("GET,HEAD,DELETE,PATCH"),
        (Some(verb), kind) => {
            let (_, method) = verbs_of(kind).iter().find(|(known, _)| *known == verb)?;
            Some(if *method == Method::GET { "GET,HEAD" } else { "POST" })
        }
    }
}

impl Place<'_> {
    fn has_verb(&self, verb: &str, method: &Method) -> bool {
        verbs_of(self.kind).iter().any(|(known, own)| *known == verb && own == method)
    }
}

/// A method that nothing and no verb takes.
pub(crate) async fn no_method(State(app): State<Arc<App>>, request: Request) -> ApiError {
    match Place::of(&app, request.uri().path()) {
        Ok(place) => wrong_verb(&place, request.method()),
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
