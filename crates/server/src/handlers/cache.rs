//! The runtime cache, as Vercel's clients speak to it: values by keys, and their removal by tags.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use millpond_api::limits::VERCEL_CACHE_VALUE_BYTES_MAX;
use millpond_api::vercel::cache::{self, CacheOptions, FRESH, STATE, TAGS};
use millpond_api::{ErrorCode, InputError};

use super::json;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{self, Query};
use crate::paths;
use crate::runtime_cache::RuntimeCache;

/// What Vercel's clients send: the one for Python nothing, the one for Node text.
const CONTENT_TYPES: &str = "application/json, text/plain or none";

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (cache, key) = of_key(&app, request.uri())?;
    let missing = || ApiError::new(ErrorCode::ValueNotFound, "the runtime cache has no value under this key");
    let value = cache.get(&key, app.engine.now()).ok_or_else(missing)?;
    let mut response = json(value);
    response.headers_mut().insert(STATE, HeaderValue::from_static(FRESH));
    Ok(response)
}

pub(crate) async fn set(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let (cache, key) = of_key(&app, &parts.uri)?;
    let options = CacheOptions::read(|name| parts.headers.get(name).map(|value| value.as_bytes()))?;
    check_content_type(&parts.headers)?;
    let value = app.bodies.read(body, VERCEL_CACHE_VALUE_BYTES_MAX).await?;
    if value.is_empty() {
        return Err(missing("body"));
    }
    cache.set(key, &value, options, app.engine.now());
    Ok(json("{}"))
}

pub(crate) async fn delete(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (cache, key) = of_key(&app, request.uri())?;
    cache.delete(&key);
    Ok(json("{}"))
}

pub(crate) async fn revalidate(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let cache = Arc::clone(cache_of(&app)?);
    let query = Query::of(request.uri(), &[TAGS])?;
    let tags = cache::tags(TAGS, query.text(TAGS).unwrap_or_default())?;
    if tags.is_empty() {
        return Err(missing(TAGS));
    }
    // Every value is looked at, which the threads that serve should not wait for.
    let removing = tokio::task::spawn_blocking(move || cache.revalidate(&tags));
    removing.await.map_err(|error| ApiError::internal(format!("values could not be removed: {error}")))?;
    Ok(json("{}"))
}

fn cache_of(app: &App) -> Result<&Arc<RuntimeCache>, ApiError> {
    let off = "the runtime cache is off, millpond serve --runtime-cache BYTES turns it on";
    app.runtime_cache.as_ref().ok_or_else(|| ApiError::new(ErrorCode::NotFound, off))
}

fn of_key<'a>(app: &'a App, uri: &Uri) -> Result<(&'a RuntimeCache, String), ApiError> {
    let cache = cache_of(app)?;
    Query::of(uri, &[])?;
    let path = uri.path();
    let segment = path.strip_prefix(paths::CACHE_PREFIX).ok_or_else(|| extract::no_route(path))?;
    Ok((cache, cache::key(segment)?))
}

fn check_content_type(headers: &HeaderMap) -> Result<(), InputError> {
    let given = extract::content_type(headers).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    let known = ["", "application/json", "text/plain"];
    if known.iter().any(|known| essence.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err(InputError {
        code: ErrorCode::UnsupportedMediaType,
        field: Some("content-type".to_owned()),
        value: Some(given.to_owned()),
        detail: format!("content-type is {given}, expected {CONTENT_TYPES}"),
        limit: None,
    })
}

fn missing(field: &str) -> ApiError {
    let detail = format!("{field} is missing");
    let (code, field) = (ErrorCode::MissingField, Some(field.to_owned()));
    InputError { code, field, value: None, detail, limit: None }.into()
}
