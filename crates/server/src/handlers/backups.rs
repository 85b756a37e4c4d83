//! Backups: begun by a call, and looked at by others until they are made.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use millpond_api::ErrorCode;
use millpond_api::name::EnvironmentName;

use super::{json, triggers};
use crate::app::App;
use crate::backups::{Backups, NotBegun};
use crate::error::ApiError;
use crate::extract::{self, Query};

pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let backups = backups_of(&app)?;
    let query = Query::of(&parts.uri, &["environments"])?;
    let environments: Result<Vec<String>, _> = match query.text("environments") {
        None => Ok(Vec::new()),
        Some(names) => {
            let names = names.split(',').map(|name| EnvironmentName::parse("environments", name));
            names.map(|name| name.map(|name| name.to_string())).collect()
        }
    };
    let environments = environments?;
    extract::check_no_fields(&triggers::body_of(&app, &parts, body).await?)?;
    match backups.begin(&app.engine, environments) {
        Ok(begun) => Ok(json(begun.render())),
        Err(NotBegun::Running(name)) => Err(ApiError::new(
            ErrorCode::InvalidState,
            format!("{name} is being made; one is made at a time"),
        )),
        Err(NotBegun::Directory(error)) => {
            Err(ApiError::internal(format!("the directory of backups cannot be used: {error}")))
        }
    }
}

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    Query::of(request.uri(), &[])?;
    let id = request.uri().path().rsplit('/').next().unwrap_or_default();
    let missing = || {
        let detail = format!("no backup {id:?} was begun since the server was started");
        ApiError::new(ErrorCode::NotFound, detail)
    };
    Ok(json(backups_of(&app)?.get(id).ok_or_else(missing)?.render()))
}

fn backups_of(app: &App) -> Result<&Arc<Backups>, ApiError> {
    let none = || ApiError::new(ErrorCode::NotFound, "this server has no directory for backups");
    app.backups.as_ref().ok_or_else(none)
}
