//! How many connections are served at once. One too many is told so, in a request's answer where it sends one soon; only
//! when many are being told already, further ones are closed without a word.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::envelope::write_error;
use crate::error::ApiError;
use crate::request::{Observer, REQUEST_ID};

/// Connections served at once unless told otherwise: as many as lease calls may wait in an environment.
pub const CONNECTIONS: usize = 20_000;
/// The most that may be.
pub const CONNECTIONS_MAX: usize = 1_000_000;
/// Connections that are being told at once that they are too many.
const REFUSALS_MAX: usize = 64;
/// How long one of them has for its request.
const REFUSAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// The bound on connections, and how many there are.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    free: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    observer: Arc<Observer>,
}

/// A connection that is served.
#[derive(Debug)]
pub(crate) struct Admitted {
    observer: Arc<Observer>,
    _place: OwnedSemaphorePermit,
}

/// A connection that is one too many.
#[derive(Debug)]
pub(crate) struct Refusal {
    most: usize,
    observer: Arc<Observer>,
    _place: OwnedSemaphorePermit,
}

impl Connections {
    pub(crate) fn new(most: usize, observer: Arc<Observer>) -> Self {
        observer.http.connections_max_is(most);
        let free = Arc::new(Semaphore::new(most));
        Self { most, free, refusals: Arc::new(Semaphore::new(REFUSALS_MAX)), observer }
    }

    /// A place for one more; it is given back when this is dropped.
    pub(crate) fn admit(&self) -> Option<Admitted> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok()?;
        self.observer.http.connection_began();
        Some(Admitted { observer: Arc::clone(&self.observer), _place: place })
    }

    /// One that has no place. `None`: it cannot even be told.
    pub(crate) fn refuse(&self) -> Option<Refusal> {
        self.observer.http.connection_refused();
        tracing::debug!(limit = self.most, "connection refused: too many");
        let place = Arc::clone(&self.refusals).try_acquire_owned().ok()?;
        Some(Refusal { most: self.most, observer: Arc::clone(&self.observer), _place: place })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.observer.http.connection_ended();
    }
}

impl Refusal {
    /// Answers the first request with why there is no other answer, and closes.
    pub(crate) async fn answer<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let service = service_fn(|_: hyper::Request<hyper::body::Incoming>| {
            std::future::ready(Ok::<_, Infallible>(self.response()))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // Whether it heard us or not, it is gone.
        let _ = tokio::time::timeout(REFUSAL_WAIT_MAX, connection).await;
    }

    fn response(&self) -> Response<Body> {
        let error = ApiError::overloaded("too many connections are open".to_owned(), self.most);
        self.observer.http.refused(error.code());
        let id = self.observer.ids.next();
        let mut response = error.clone().into_response();
        response.extensions_mut().clear();
        write_error(&mut response, error, id.to_str().unwrap_or_default());
        response.headers_mut().insert(REQUEST_ID, id);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
