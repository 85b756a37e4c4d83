//! One file a resource or verb: extract, convert, call the engine, convert.

pub(crate) mod backups;
pub(crate) mod cache;
pub(crate) mod data;
pub(crate) mod dead_letters;
pub(crate) mod deployments;
pub(crate) mod environments;
pub(crate) mod health;
mod lease;
pub(crate) mod list_queues;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod queues;
pub(crate) mod send;
mod settle;
pub(crate) mod signing_secret;
pub(crate) mod triggers;
pub(crate) mod update_queue;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use millpond_core::Outcome;

use crate::error::ApiError;

/// The content type of answers.
const JSON: &str = "application/json";

/// An answer of 200.
fn json(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// The core answered something that this command never gets.
pub(crate) fn unexpected(outcome: &Outcome) -> ApiError {
    ApiError::internal(format!("unexpected outcome {outcome:?}"))
}
