//! Triggers: making, showing and removing them, and what became of their pushes. What deployments do with triggers is
//! done here as well (`put`, `remove`, `all`).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use millpond_api::ErrorCode;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::name::check_topic_id;
use millpond_api::trigger::{Trigger, TriggerBody, render_triggers};
use millpond_core::command::{PutTriggers, TriggersOf};
use millpond_core::outcome::TriggerView;
use millpond_core::{Command, Outcome, Rejection};

use super::queues::made_id;
use super::{json, unexpected};
use crate::app::App;
use crate::convert::trigger;
use crate::error::ApiError;
use crate::extract::{self, Environment, Member, Query};
use crate::idempotency::Key;
use crate::pushes::{self, PushStatistics, TargetRefusal};

/// What ids start with that the server makes.
const MADE_ID_PREFIX: &str = "trg_";

pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let member = Member::of(&app, parts.uri.path())?;
    let query = Query::of(&parts.uri, &["trigger_id", "validate_only"])?;
    let validate_only = query.flag("validate_only")?;
    let id = match query.text("trigger_id") {
        Some(id) => {
            check_topic_id(id).map_err(|fault| fault.at("trigger_id", id))?;
            id.to_owned()
        }
        None => made_id(MADE_ID_PREFIX),
    };
    let body = TriggerBody::parse(&body_of(&app, &parts, body).await?)?;
    let environment = &member.environment;
    let triggers = vec![trigger::to_core(id, body, "", &environment.name)?];
    let views = put(&app, environment, PutTriggers { deployment: None, triggers, validate_only }).await?;
    let made = views.into_iter().next().ok_or_else(|| unexpected(&Outcome::Triggers(Vec::new())))?;
    Ok(json(show(&app, environment, made).render()))
}

pub(crate) async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let member = Member::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let views = all(&app, &member.environment).await?.into_iter();
    let triggers: Vec<_> = views.map(|view| show(&app, &member.environment, view)).collect();
    Ok(json(render_triggers(&triggers)))
}

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let member = Member::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let view = one(&app, &member).await?;
    Ok(json(show(&app, &member.environment, view).render()))
}

pub(crate) async fn pushes(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let member = Member::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let view = one(&app, &member).await?;
    let statistics = statistics(&app, &member.environment, &view);
    Ok(json(trigger::pushes(statistics).render()))
}

pub(crate) async fn delete(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let member = Member::of(&app, parts.uri.path())?;
    let of = TriggersOf::Id(member.id()?.into());
    delete_these(&app, &member.environment, of, &parts, body).await
}

/// The removal of a trigger, or of all of a deployment.
pub(super) async fn delete_these(
    app: &App,
    environment: &Environment,
    of: TriggersOf,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let allow_missing = Query::of(&parts.uri, &["allow_missing"])?.flag("allow_missing")?;
    extract::check_no_fields(&body_of(app, parts, body).await?)?;
    match app.ask(environment, Command::DeleteTriggers(of)).await?.outcome {
        Outcome::Triggers(_) => changed(app, environment).await,
        Outcome::Rejected(Rejection::TriggerNotFound { .. }) if allow_missing => {}
        Outcome::Rejected(rejection) => return Err(rejection.into()),
        other => return Err(unexpected(&other)),
    }
    Ok(json("{}"))
}

/// The body of a call that is not remembered under a key: a repetition does no harm, or is refused. The key is looked at
/// even so.
pub(super) async fn body_of(app: &App, parts: &Parts, body: Body) -> Result<Bytes, ApiError> {
    Key::of(&parts.headers)?;
    extract::json_body(app, &parts.headers, body, CALL_BYTES_MAX).await
}

/// Puts triggers whose targets are allowed; answers them in the order of their ids.
pub(super) async fn put(
    app: &App,
    environment: &Environment,
    put: PutTriggers,
) -> Result<Vec<TriggerView>, ApiError> {
    for (at, trigger) in put.triggers.iter().enumerate() {
        check_target(app, &trigger.target).map_err(|refusal| target_refused(&put, at, refusal))?;
    }
    match app.ask(environment, Command::PutTriggers(put.clone())).await?.outcome {
        Outcome::Triggers(views) => {
            if !put.validate_only {
                changed(app, environment).await;
            }
            Ok(views)
        }
        Outcome::Rejected(rejection) => Err(refused(&put, rejection)),
        other => Err(unexpected(&other)),
    }
}

/// Every trigger of an environment, in the order of their ids.
pub(super) async fn all(app: &App, environment: &Environment) -> Result<Vec<TriggerView>, ApiError> {
    match app.submit(environment, Command::ListTriggers).await?.outcome {
        Outcome::Triggers(views) => Ok(views),
        other => Err(unexpected(&other)),
    }
}

async fn one(app: &App, member: &Member<'_>) -> Result<TriggerView, ApiError> {
    let id = member.id()?;
    let views = all(app, &member.environment).await?;
    let found = views.into_iter().find(|view| *view.trigger.id == *id);
    found.ok_or_else(|| Rejection::TriggerNotFound { of: TriggersOf::Id(id.into()) }.into())
}

/// The trigger as it is now.
pub(super) fn show(app: &App, environment: &Environment, view: TriggerView) -> Trigger {
    let statistics = statistics(app, environment, &view);
    trigger::from_view(view, statistics, &environment.name, app.engine.now())
}

fn statistics(app: &App, environment: &Environment, view: &TriggerView) -> Option<PushStatistics> {
    app.pushes.as_ref()?.statistics(&environment.text, view.trigger.uid)
}

/// What is removed is pushed no more when this ends.
pub(super) async fn changed(app: &App, environment: &Environment) {
    if let Some(pushes) = &app.pushes {
        pushes.changed(&environment.text).await;
    }
}

fn check_target(app: &App, target: &str) -> Result<(), TargetRefusal> {
    pushes::check_form(target)?;
    app.pushes.as_ref().map_or(Ok(()), |pushes| pushes.check_target(target))
}

/// The path of a field of one of the triggers.
fn path_of(put: &PutTriggers, at: usize, field: &str) -> String {
    if put.deployment.is_some() { format!("triggers[{at}].{field}") } else { field.to_owned() }
}

fn target_refused(put: &PutTriggers, at: usize, refusal: TargetRefusal) -> ApiError {
    let target = put.triggers.get(at).map(|trigger| &*trigger.target).unwrap_or_default();
    let field = path_of(put, at, "target");
    let (code, detail) = match refusal {
        TargetRefusal::Malformed(expected) => (ErrorCode::InvalidField, format!("expected {expected}")),
        TargetRefusal::NotAllowed(why) => (ErrorCode::TargetNotAllowed, why),
    };
    let detail = format!("{field} is {target}, {detail}");
    ApiError::field(field, target, detail).with_code(code)
}

/// What the core refuses, by the names of the call.
fn refused(put: &PutTriggers, rejection: Rejection) -> ApiError {
    let of_deployment = put.deployment.is_some();
    let field = match &rejection {
        Rejection::DeadLetterQueueInvalid { name, .. } => {
            let named = put.triggers.iter().position(|new| new.spec.dead_letter_queue.as_ref() == Some(name));
            Some(path_of(put, named.unwrap_or(0), "dead_letter_queue"))
        }
        Rejection::TriggerAlreadyExists { .. } if of_deployment => Some("deployment_id".to_owned()),
        Rejection::TriggerOverlaps { id, .. } => {
            let named = put.triggers.iter().position(|new| new.id == *id);
            Some(path_of(put, named.unwrap_or(0), "topic"))
        }
        _ => None,
    };
    let error = ApiError::from(rejection);
    match field {
        Some(field) => error.under(|_| field.clone()),
        None => error,
    }
}
