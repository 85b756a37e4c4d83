//! One call of a target over pooled HTTP/1.1 connections, and what became of it.
//!
//! The outcomes are told apart by what the target can have had of the request: all of it ([`Reply`]), perhaps
//! ([`CallError::Broken`]), surely nothing ([`CallError::Unreachable`]). A pooled connection that turns out to be closed before
//! the request was begun is replaced by hyper. Redirects are replies like any other; proxies are not used.
//!
//! A call takes as long as its target does. To end it, drop it: the connection is closed.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use millpond_api::Fault;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::oneshot;

use crate::connect::{Connector, Lookup, TcpConnector, system_lookup};
use crate::target::{AllowList, Target};

/// How long resolving, connecting and encrypting may take together, unless told.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long a reply's body is read once its head is there, unless told.
pub const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a reply's body that are read so that its connection can be used again.
pub const DRAINED_BYTES_MAX: usize = 64 << 10;
/// Bytes of a reply's body that are kept for the log.
pub const SHOWN_BYTES_MAX: usize = 1 << 10;

/// How long a connection is kept that nobody uses. Servers close theirs after a while of their own, 2 s (gunicorn) to 5 s
/// (Node, uvicorn) by default; a request that meets such a close on its way may or may not have been processed.
const IDLE_MAX: Duration = Duration::from_millis(1_500);
/// Connections to one target that are kept.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// What a [`Caller`] needs to know.
#[derive(Clone)]
pub struct CallSettings {
    /// Where calls may go.
    pub allowed: AllowList,
    /// How long resolving, connecting and encrypting may take together.
    pub connect_patience: Duration,
    /// How long a reply's body is read once its head is there.
    pub drain_patience: Duration,
    lookup: Arc<Lookup>,
    roots: RootCertStore,
}

impl Default for CallSettings {
    /// Loopback alone, the system's resolver, and the certificate authorities that browsers trust.
    fn default() -> Self {
        Self {
            allowed: AllowList::default(),
            connect_patience: CONNECT_PATIENCE,
            drain_patience: DRAIN_PATIENCE,
            lookup: Arc::new(system_lookup),
            roots: RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        }
    }
}

impl CallSettings {
    /// Trusts these certificate authorities as well: one or more certificates in PEM.
    pub fn trust(&mut self, pem: &[u8]) -> Result<(), Fault> {
        let none = || Fault::new("one or more certificates in PEM");
        let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|_| none())?;
        if certificates.is_empty() {
            return Err(none());
        }
        for certificate in certificates {
            self.roots.add(certificate).map_err(|_| none())?;
        }
        Ok(())
    }

    /// Looks names up in this way instead of the system's.
    pub fn look_up_by(&mut self, lookup: Arc<Lookup>) {
        self.lookup = lookup;
    }
}

/// What to send to a target, as a `POST`.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// To whom.
    pub target: Target,
    /// Headers, but for those that are about the connection.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What a target replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
    /// The beginning of the body as text, for the log: up to [`SHOWN_BYTES_MAX`] bytes.
    pub body_start: String,
}

impl Reply {
    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection was lost after something of the request was sent: it may have been processed.
    #[error("the connection broke: {error}")]
    Broken {
        /// What went wrong.
        error: String,
    },
    /// The target has nothing of the request: no such name, not allowed, refused, no answer, no trusted certificate.
    #[error("the target cannot be reached: {error}")]
    Unreachable {
        /// What went wrong.
        error: String,
    },
}

/// Calls targets. A clone is another handle.
#[derive(Clone)]
pub struct Caller {
    http: Client<Connector, Full<Bytes>>,
    drain_patience: Duration,
}

impl fmt::Debug for Caller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Caller")
    }
}

impl Caller {
    /// Keeps connections in the runtime that the calls are made in.
    #[must_use]
    pub fn new(settings: CallSettings) -> Self {
        let CallSettings { allowed, connect_patience, drain_patience, lookup, roots } = settings;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for these versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpConnector { allowed: Arc::new(allowed), lookup, patience: connect_patience };
        let connector = Connector { inner: HttpsConnector::from((tcp, tls)), patience: connect_patience };
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Self { http, drain_patience }
    }

    /// Calls once. It is not tried again when the target may have had the request. `connected` is told when there is a connection,
    /// long before a handler may have done its work.
    pub async fn call(
        &self,
        request: CallRequest,
        connected: oneshot::Sender<()>,
    ) -> Result<Reply, CallError> {
        // A turn of the runtime lets pooled connections notice what has arrived until now, above all that they were closed.
        tokio::task::yield_now().await;
        let mut http = to_http(&request);
        let mut connection = capture_connection(&mut http);
        let response = self.http.request(http);
        tokio::pin!(response);
        let first = tokio::select! {
            biased;
            ended = &mut response => Some(ended),
            _ = connection.wait_for_connection_metadata() => None,
        };
        // Whoever asked need not wait for it.
        let _ = if first.is_none() { connected.send(()) } else { Ok(()) };
        let ended = match first {
            Some(ended) => ended,
            None => response.await,
        };
        let response = ended.map_err(|error| {
            let text = root_cause(&error);
            if is_unsent(&error) {
                CallError::Unreachable { error: text }
            } else {
                CallError::Broken { error: text }
            }
        })?;
        Ok(self.read(response).await)
    }

    async fn read(&self, response: Response<Incoming>) -> Reply {
        let (parts, body) = response.into_parts();
        let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| parse_retry_after(text, SystemTime::now()));
        let mut start = Vec::new();
        // The status counts, so a body that never ends or breaks off changes nothing.
        let drained = drain(body, &mut start);
        let _ = tokio::time::timeout(self.drain_patience, drained).await;
        let body_start = String::from_utf8_lossy(&start).into_owned();
        Reply { status: parts.status.as_u16(), retry_after, body_start }
    }
}

fn to_http(request: &CallRequest) -> Request<Full<Bytes>> {
    let mut http = Request::new(Full::new(request.body.clone()));
    *http.method_mut() = Method::POST;
    *http.uri_mut() = request.target.uri().clone();
    http.headers_mut().clone_from(&request.headers);
    let agent = HeaderValue::from_static(concat!("millpond/", env!("CARGO_PKG_VERSION")));
    http.headers_mut().entry(USER_AGENT).or_insert(agent);
    // hyper leaves it out, and some servers answer such a request with 411.
    if request.body.is_empty() {
        http.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    http
}

/// Reads a body, so that its connection can serve another call, and keeps its start. If it is too long the rest is left, which
/// closes the connection.
async fn drain(mut body: Incoming, start: &mut Vec<u8>) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        let wanted = SHOWN_BYTES_MAX.saturating_sub(start.len()).min(data.len());
        start.extend_from_slice(&data[..wanted]);
        read += data.len();
        if read > DRAINED_BYTES_MAX {
            return;
        }
    }
}

/// Whether nothing of the request was sent: there was no connection, or it was found to be closed before hyper began to write.
fn is_unsent(error: &ClientError) -> bool {
    let causes =
        std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source());
    let mut of_hyper = causes.filter_map(|error| error.downcast_ref::<hyper::Error>());
    error.connect_info().is_none() || of_hyper.any(hyper::Error::is_canceled)
}

/// The innermost error: the outer ones only say that a request failed.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

/// Seconds, or the time left until a date.
fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_given_in_seconds_or_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:49:38 GMT", Some(1)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn only_certificates_are_trusted() {
        let mut settings = CallSettings::default();
        for pem in ["", "no pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(settings.trust(pem.as_bytes()).is_err(), "{pem}");
        }
    }
}
