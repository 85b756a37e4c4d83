//! Whether the server answers at all. It says nothing about the store: a store that is away shows in the calls.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use millpond_api::ErrorCode;

use super::json;
use crate::app::App;
use crate::error::ApiError;

pub(crate) async fn get(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    if app.shutdown.is_draining() {
        return Err(ApiError::new(ErrorCode::ShuttingDown, "the server is going down"));
    }
    Ok(json(r#"{"status":"ok"}"#))
}
