//! Deployments: triggers that are put and removed together. A deployment is there as long as it has a trigger.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use millpond_api::deployment::{Deployment, DeploymentBody, check_deployment_id, render_deployments};
use millpond_api::{ErrorCode, InputError};
use millpond_core::Rejection;
use millpond_core::command::{PutTriggers, TriggersOf};
use millpond_core::outcome::TriggerView;

use super::{json, triggers};
use crate::app::App;
use crate::convert::trigger;
use crate::error::ApiError;
use crate::extract::{Environment, Member, Query};

pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let member = Member::of(&app, parts.uri.path())?;
    let query = Query::of(&parts.uri, &["deployment_id", "validate_only"])?;
    let validate_only = query.flag("validate_only")?;
    let id = query.text("deployment_id").ok_or_else(|| InputError {
        code: ErrorCode::MissingField,
        field: Some("deployment_id".to_owned()),
        value: None,
        detail: "deployment_id is missing".to_owned(),
        limit: None,
    })?;
    check_deployment_id(id).map_err(|fault| fault.at("deployment_id", id))?;
    let body = DeploymentBody::parse(&triggers::body_of(&app, &parts, body).await?)?;
    let environment = &member.environment;
    let new = trigger::of_deployment(id, body.triggers, &environment.name)?;
    let put = PutTriggers { deployment: Some(id.into()), triggers: new, validate_only };
    let mut views = triggers::put(&app, environment, put).await?;
    // As it would be.
    views.iter_mut().for_each(|view| view.current = true);
    Ok(json(show(&app, environment, id, views).render()))
}

pub(crate) async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let member = Member::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let mut deployments = BTreeMap::<Box<str>, Vec<_>>::new();
    for view in triggers::all(&app, &member.environment).await? {
        if let Some(deployment) = view.trigger.deployment.clone() {
            deployments.entry(deployment).or_default().push(view);
        }
    }
    let shown = deployments.into_iter().map(|(id, views)| show(&app, &member.environment, &id, views));
    Ok(json(render_deployments(&shown.collect::<Vec<_>>())))
}

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let member = Member::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let id = member.id()?;
    let mut views = triggers::all(&app, &member.environment).await?;
    views.retain(|view| view.trigger.deployment.as_deref() == Some(id));
    if views.is_empty() {
        return Err(Rejection::TriggerNotFound { of: TriggersOf::Deployment(id.into()) }.into());
    }
    Ok(json(show(&app, &member.environment, id, views).render()))
}

pub(crate) async fn delete(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let member = Member::of(&app, parts.uri.path())?;
    let of = TriggersOf::Deployment(member.id()?.into());
    triggers::delete_these(&app, &member.environment, of, &parts, body).await
}

/// A deployment with its triggers in the order in which they were given, which is that of their numbers.
fn show(app: &App, environment: &Environment, id: &str, mut views: Vec<TriggerView>) -> Deployment {
    views.sort_by_key(|view| view.trigger.number);
    let triggers = views.into_iter().map(|view| triggers::show(app, environment, view));
    trigger::deployment(id, triggers.collect(), &environment.name)
}
