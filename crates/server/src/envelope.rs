//! Around every handler: who may ask (`guard`), the request id, and the body of errors.
//!
//! Errors leave handlers as an [`ApiError`] among the response's extensions; here they get the id of the request and
//! become `application/problem+json`, and what went on inside goes to the log under the same id.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use millpond_api::problem;
use tower::{Layer, Service};

use crate::app::App;
use crate::error::ApiError;
use crate::guard;

/// The header that carries the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("millpond-request-id");

/// Wraps handlers.
#[derive(Clone)]
pub(crate) struct EnvelopeLayer {
    pub(crate) app: Arc<App>,
}

impl<S> Layer<S> for EnvelopeLayer {
    type Service = Envelope<S>;

    fn layer(&self, inner: S) -> Envelope<S> {
        Envelope { app: Arc::clone(&self.app), inner }
    }
}

/// A wrapped handler.
#[derive(Clone)]
pub(crate) struct Envelope<S> {
    app: Arc<App>,
    inner: S,
}

pin_project_lite::pin_project! {
    /// An answer in the making.
    #[project = EnvelopeProjection]
    pub(crate) enum EnvelopeFuture<F> {
        Refused { app: Arc<App>, error: Option<ApiError> },
        Running { app: Arc<App>, #[pin] inner: F },
    }
}

impl<S> Service<Request> for Envelope<S>
where
    S: Service<Request, Error = Infallible>,
    S::Response: IntoResponse,
{
    type Response = Response;
    type Error = Infallible;
    type Future = EnvelopeFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let app = Arc::clone(&self.app);
        match guard::check(&app.hosts, request.uri(), request.headers()) {
            Ok(()) => EnvelopeFuture::Running { app, inner: self.inner.call(request) },
            Err(error) => EnvelopeFuture::Refused { app, error: Some(error) },
        }
    }
}

impl<F, R> Future for EnvelopeFuture<F>
where
    F: Future<Output = Result<R, Infallible>>,
    R: IntoResponse,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            EnvelopeProjection::Refused { app, error } => {
                let response = error.take().map(IntoResponse::into_response).unwrap_or_default();
                Poll::Ready(Ok(finish(app, response)))
            }
            EnvelopeProjection::Running { app, inner } => {
                let Ok(response) = ready!(inner.poll(context));
                Poll::Ready(Ok(finish(app, response.into_response())))
            }
        }
    }
}

fn finish(app: &App, mut response: Response) -> Response {
    let id = app.next_request_id();
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        write_error(&mut response, error, &id);
    }
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

fn write_error(response: &mut Response, error: ApiError, id: &str) {
    if let Some(cause) = error.cause() {
        tracing::error!(request_id = id, code = %error.code(), cause, "request failed");
    } else {
        tracing::debug!(request_id = id, code = %error.code(), "request refused");
    }
    if let Some(allow) = error.allow() {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(total) = error.total()
        && let Ok(range) = HeaderValue::try_from(format!("bytes */{total}"))
    {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    let problem = error.problem(id);
    if let Some(milliseconds) = problem.retry_after_ms {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1_000)));
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(problem::MEDIA_TYPE));
    *response.body_mut() = Body::from(problem.render());
}
