//! Environments: making one. Making it again is no error and changes nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use millpond_api::ErrorCode;
use millpond_api::InputError;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::name::EnvironmentName;
use serde_json::json;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{self, Query};
use crate::idempotency::Key;

pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let query = Query::of(&parts.uri, &["env_id"])?;
    let (org, project) = extract::project_of(parts.uri.path())?;
    let env = query.text("env_id").ok_or_else(|| InputError {
        code: ErrorCode::MissingField,
        field: Some("env_id".to_owned()),
        value: None,
        detail: "env_id is missing".to_owned(),
        limit: None,
    })?;
    let name = EnvironmentName::new(org, project, env)?;
    // Making it again does no harm, so that a key is looked at and not remembered.
    Key::of(&parts.headers)?;
    extract::check_no_fields(&extract::json_body(&app, &parts.headers, body, CALL_BYTES_MAX).await?)?;
    let name = name.to_string();
    app.engine.create_environment(&name).await?;
    Ok(super::json(json!({ "name": name }).to_string()))
}
