//! The OpenAPI document.

use axum::response::Response;

use super::json;
use crate::openapi;

pub(crate) async fn get() -> Response {
    json(openapi::text())
}
