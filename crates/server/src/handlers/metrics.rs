//! What an operator watches, as text.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::Query;
use crate::metrics::MEDIA_TYPE;

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    Query::of(request.uri(), &[])?;
    let page = app.metrics.page(&app.engine, app.runtime_cache.as_ref()).await?;
    let mut response = Response::new(Body::from(page));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(response)
}
