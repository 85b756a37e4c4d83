//! Around every handler: who may ask (`guard`), the request id, the body of errors, and what is told of each request
//! (`request`).
//!
//! Errors leave handlers as an [`ApiError`] among the response's extensions; here they get the id of the request and
//! become `application/problem+json`, or what Vercel's clients read where it is their wire, and what went on inside goes to the log under the same id.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ALLOW, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use http_body::Body as _;
use millpond_api::{ErrorCode, problem};
use tokio::task::futures::TaskLocalFuture;
use tower::{Layer, Service};

use crate::app::App;
use crate::delivery::Deliveries;
use crate::error::ApiError;
use crate::guard;
use crate::request::{Observed, PHASES, Phases, REQUEST_ID};
use crate::vercel::{Refusal, Refused};

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
    pub(crate) struct EnvelopeFuture<F> {
        app: Arc<App>,
        deliveries: Option<Deliveries>,
        observed: Observed,
        #[pin]
        work: Work<F>,
    }
}

pin_project_lite::pin_project! {
    #[project = WorkProjection]
    enum Work<F> {
        Refused { error: Option<ApiError> },
        Running { #[pin] inner: TaskLocalFuture<Phases, F> },
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
        let observed = Observed::begin(&self.app.observer, &request);
        let deliveries = request.extensions().get::<Deliveries>().cloned();
        let work = match guard::check(&self.app.hosts, request.uri(), request.headers()) {
            Ok(()) => Work::Running { inner: PHASES.scope(Phases::default(), self.inner.call(request)) },
            Err(error) => Work::Refused { error: Some(error) },
        };
        EnvelopeFuture { app: Arc::clone(&self.app), deliveries, observed, work }
    }
}

impl<F, R> Future for EnvelopeFuture<F>
where
    F: Future<Output = Result<R, Infallible>>,
    R: IntoResponse,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let span = this.observed.span.clone();
        let _inside = span.enter();
        match this.work.project() {
            WorkProjection::Refused { error } => {
                let response = error.take().map(IntoResponse::into_response).unwrap_or_default();
                Poll::Ready(Ok(finish(this.observed, response, None)))
            }
            WorkProjection::Running { mut inner } => {
                let Ok(response) = ready!(inner.as_mut().poll(context));
                let phases = inner.take_value();
                let held = this.app.answers.hold(response.into_response(), this.deliveries.as_ref());
                let response = held.unwrap_or_else(IntoResponse::into_response);
                Poll::Ready(Ok(finish(this.observed, response, phases)))
            }
        }
    }
}

fn finish(observed: &mut Observed, mut response: Response, phases: Option<Phases>) -> Response {
    if observed.is_vercel()
        && let Some(error) = response.extensions_mut().remove::<ApiError>()
    {
        response = Refusal::from(error).into_response();
    }
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        observed.refused(error.code());
        write_error(&mut response, error, observed.id());
    } else if let Some(Refused { code, cause }) = response.extensions_mut().remove() {
        observed.refused(code);
        log_refusal(observed.id(), code, cause.as_deref());
    }
    observed.end(response.status().as_u16(), response.body().size_hint().exact(), phases.as_ref());
    response.headers_mut().insert(REQUEST_ID, observed.id.clone());
    response
}

pub(crate) fn write_error(response: &mut Response, error: ApiError, id: &str) {
    log_refusal(id, error.code(), error.cause());
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

/// What went on inside goes to the log alone.
fn log_refusal(id: &str, code: ErrorCode, cause: Option<&str>) {
    match cause {
        Some(cause) => tracing::error!(request_id = id, %code, cause, "request failed"),
        None => tracing::debug!(request_id = id, %code, "request refused"),
    }
}
