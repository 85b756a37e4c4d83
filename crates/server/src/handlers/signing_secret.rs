//! The secret that an environment's pushes are signed with: it is made when it is first asked for.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use millpond_api::signing_secret::{RotateRequest, SigningSecret};
use millpond_core::command::SetSecret;
use millpond_core::{Command, Outcome};
use millpond_push::signature::Secret;

use super::{json, triggers};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Environment, Member, Query};

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let member = Member::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let set = SetSecret { secret: draw()?, grace: Duration::ZERO, only_if_none: true };
    submit(&app, &member.environment, set).await
}

pub(crate) async fn rotate(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let member = Member::of(&app, parts.uri.path())?;
    Query::of(&parts.uri, &[])?;
    let grace = RotateRequest::parse(&triggers::body_of(&app, &parts, body).await?)?.grace;
    let set = SetSecret { secret: draw()?, grace, only_if_none: false };
    let answer = submit(&app, &member.environment, set).await?;
    triggers::changed(&app, &member.environment).await;
    Ok(answer)
}

async fn submit(app: &App, environment: &Environment, set: SetSecret) -> Result<Response, ApiError> {
    let Outcome::Secret(row) = app.submit(environment, Command::SetSecret(set)).await?.outcome else {
        // What it was instead may hold the secret.
        return Err(ApiError::internal("unexpected outcome of setting a secret"));
    };
    let secret = SigningSecret {
        secret: row.current.into(),
        since: row.since.as_millis(),
        previous_until: row.previous.map(|(_, until)| until.as_millis()),
    };
    Ok(json(secret.render()))
}

fn draw() -> Result<Box<str>, ApiError> {
    let drawn = Secret::draw();
    let drawn = drawn.map_err(|error| ApiError::internal(format!("no random bytes: {error}")))?;
    Ok(drawn.reveal().into())
}
