//! A request as it is told of: its id, what it asks for, how long its phases took; in counts, in the log, and in the
//! answer's header.
//!
//! Counting is always on. The span and the line of a request cost nothing unless the log is told to show them; a request
//! that took long without a reason of its client's is warned of.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use millpond_api::ErrorCode;
use tokio::time::Instant;
use tracing::Span;

use crate::metrics::{Ending, HttpMetrics};
use crate::verb::Verb;

/// The header that carries the request id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("millpond-request-id");
/// Lengths of an id that a client may choose.
const ID_LENGTH_MIN: usize = 8;
const ID_LENGTH_MAX: usize = 64;
/// A request that takes longer is slow, not counting its body's way here and the wait that it asked for.
const SLOW: Duration = Duration::from_secs(1);
/// Slow requests that are warned of within a second; the others are only counted.
const WARNINGS_PER_SECOND: u64 = 10;

/// Makes ids: unique in this process, and most likely among the server's processes.
#[derive(Clone, Debug)]
pub(crate) struct RequestIds {
    prefix: u32,
    made: Arc<AtomicU64>,
}

impl Default for RequestIds {
    fn default() -> Self {
        let random = RandomState::new().hash_one(0);
        Self { prefix: u32::try_from(random >> 32).unwrap_or(0), made: Arc::new(AtomicU64::new(1)) }
    }
}

impl RequestIds {
    /// A new one.
    pub(crate) fn next(&self) -> HeaderValue {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let id = format!("req_{:08x}{number:08x}", self.prefix);
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("req"))
    }

    /// What the client chose if it is well-formed, so that it finds its request in our log; else a new one. It says
    /// nothing about who asks, and nobody looks anything up by it.
    fn for_request(&self, headers: &HeaderMap) -> HeaderValue {
        let mut given = headers.get_all(REQUEST_ID).iter();
        match (given.next(), given.next()) {
            (Some(id), None) if is_well_formed(id.as_bytes()) => id.clone(),
            _ => self.next(),
        }
    }
}

fn is_well_formed(id: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (ID_LENGTH_MIN..=ID_LENGTH_MAX).contains(&id.len()) && id.iter().all(legal)
}

/// Where a request's time went, as far as its handler can tell.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    body: Cell<Duration>,
    engine: Cell<Duration>,
    waited: Cell<Duration>,
}

tokio::task_local! {
    /// Of the request whose handler runs.
    pub(crate) static PHASES: Phases;
}

impl Phases {
    /// Runs the reading of a body.
    pub(crate) async fn body<F: Future>(reading: F) -> F::Output {
        Self::timed(|phases| &phases.body, reading).await
    }

    /// Runs a call of the engine.
    pub(crate) async fn engine<F: Future>(call: F) -> F::Output {
        Self::timed(|phases| &phases.engine, call).await
    }

    /// The request may wait for so long, and wants to.
    pub(crate) fn may_wait(wait: Duration) {
        // Outside of a request nobody asks.
        let _ = PHASES.try_with(|phases| phases.waited.set(wait));
    }

    async fn timed<F: Future>(phase: fn(&Self) -> &Cell<Duration>, work: F) -> F::Output {
        let begun = Instant::now();
        let output = work.await;
        let _ = PHASES.try_with(|phases| {
            let spent = phase(phases);
            spent.set(spent.get() + begun.elapsed());
        });
        output
    }

    fn is_slow(&self, took: Duration) -> bool {
        let of_the_client = self.body.get() + self.waited.get().min(took);
        took.saturating_sub(of_the_client) >= SLOW
    }
}

/// How many warnings were given in which second.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    /// The second, and how many: in the upper and the lower half.
    given: AtomicU64,
}

impl Warnings {
    /// Whether one more may be given in this second.
    fn may_warn(&self, second: u64) -> bool {
        let count = |given: u64| {
            let (of, count) = (given >> 32, given & u64::from(u32::MAX));
            if of != second & u64::from(u32::MAX) {
                Some((second << 32) | 1)
            } else {
                (count < WARNINGS_PER_SECOND).then_some(given + 1)
            }
        };
        self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

/// What all requests are told of by.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) ids: RequestIds,
    pub(crate) http: Arc<HttpMetrics>,
    warnings: Warnings,
    started: Instant,
}

impl Observer {
    pub(crate) fn new(http: Arc<HttpMetrics>) -> Self {
        Self { ids: RequestIds::default(), http, warnings: Warnings::default(), started: Instant::now() }
    }
}

/// A request that is being answered. Dropped before it ended, its client is gone.
#[derive(Debug)]
pub(crate) struct Observed {
    observer: Arc<Observer>,
    pub(crate) id: HeaderValue,
    pub(crate) span: Span,
    method: &'static str,
    verb: Verb,
    begun: Instant,
    ended: bool,
}

impl Observed {
    pub(crate) fn begin(observer: &Arc<Observer>, request: &Request) -> Self {
        let id = observer.ids.for_request(request.headers());
        let verb = Verb::of(request.method(), request.uri().path());
        let method = known_method(request.method());
        let span = tracing::info_span!("request", request_id = text(&id), method, route = verb.route());
        observer.http.request_began();
        Self { observer: Arc::clone(observer), id, span, method, verb, begun: Instant::now(), ended: false }
    }

    /// The id as text.
    pub(crate) fn id(&self) -> &str {
        text(&self.id)
    }

    /// It speaks Vercel's wire.
    pub(crate) fn is_vercel(&self) -> bool {
        self.verb.is_vercel()
    }

    /// The answer will be an error.
    pub(crate) fn refused(&self, code: ErrorCode) {
        self.observer.http.refused(code);
    }

    /// There is an answer with this status and, if that is known, so many bytes of body.
    pub(crate) fn end(&mut self, status: u16, body_bytes: Option<u64>, phases: Option<&Phases>) {
        let took = self.count(Ending::Status(status));
        if let Some(bytes) = body_bytes {
            self.observer.http.body_goes(bytes);
        }
        tracing::info!(status, duration_ms = milliseconds(took), "answered");
        if let Some(phases) = phases.filter(|phases| phases.is_slow(took)) {
            self.warn_of(status, took, phases);
        }
    }

    fn count(&mut self, ending: Ending) -> Duration {
        let took = self.begun.elapsed();
        self.ended = true;
        self.observer.http.request_ended(self.verb, ending, took);
        took
    }

    fn warn_of(&self, status: u16, took: Duration, phases: &Phases) {
        self.observer.http.was_slow();
        if self.observer.warnings.may_warn(self.observer.started.elapsed().as_secs()) {
            tracing::warn!(
                request_id = self.id(),
                method = self.method,
                route = self.verb.route(),
                status,
                duration_ms = milliseconds(took),
                body_ms = milliseconds(phases.body.get()),
                engine_ms = milliseconds(phases.engine.get()),
                wait_ms = milliseconds(phases.waited.get()),
                "slow request"
            );
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        if !self.ended {
            let took = self.count(Ending::HungUp);
            let _inside = self.span.enter();
            tracing::info!(duration_ms = milliseconds(took), "client hung up");
        }
    }
}

/// Ids are ASCII by the way they are made or checked.
fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

/// A method that requests of ours have; others may hold anything.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::DELETE => "DELETE",
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::POST => "POST",
        Method::PUT => "PUT",
        _ => "other",
    }
}

fn milliseconds(duration: Duration) -> f64 {
    // Rounded to microseconds: what is beyond says nothing.
    duration.as_micros() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_id_of_a_client_is_taken_over() {
        let ids = RequestIds::default();
        let taken = |given: &[&'static [u8]]| {
            let mut headers = HeaderMap::new();
            for id in given {
                headers.append(REQUEST_ID, HeaderValue::from_bytes(id).expect("a value"));
            }
            text(&ids.for_request(&headers)).to_owned()
        };
        assert_eq!(taken(&[b"trace-01.A_b"]), "trace-01.A_b");
        let long = [b'a'; ID_LENGTH_MAX + 1];
        for bad in [&b"short-7"[..], b"", b"with blank", b"a\"quote\"b", b"\xff\xff\xff\xff\xff\xff\xff\xff"]
        {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(bad).expect("a value"));
            assert!(text(&ids.for_request(&headers)).starts_with("req_"), "{bad:?}");
        }
        assert!(is_well_formed(&long[1..]) && !is_well_formed(&long));
        assert!(taken(&[b"trace-01", b"trace-02"]).starts_with("req_"));
        assert_ne!(taken(&[]), taken(&[]));
    }

    #[test]
    fn what_a_client_takes_or_asks_for_is_not_slow() {
        let seconds = Duration::from_secs;
        let phases = |body, waited| Phases {
            body: Cell::new(seconds(body)),
            engine: Cell::default(),
            waited: Cell::new(seconds(waited)),
        };
        assert!(phases(0, 0).is_slow(seconds(1)));
        assert!(!phases(0, 0).is_slow(Duration::from_millis(999)));
        assert!(!phases(25, 0).is_slow(seconds(25)));
        assert!(!phases(0, 20).is_slow(seconds(20)));
        assert!(!phases(0, 20).is_slow(seconds(3)));
        assert!(phases(0, 20).is_slow(seconds(21)));
        assert!(phases(2, 20).is_slow(seconds(23)));
    }

    #[test]
    fn warnings_of_a_second_are_bounded() {
        let warnings = Warnings::default();
        let given = |second| (0..50).filter(|_| warnings.may_warn(second)).count() as u64;
        assert_eq!([given(1), given(1), given(2)], [WARNINGS_PER_SECOND, 0, WARNINGS_PER_SECOND]);
    }
}
