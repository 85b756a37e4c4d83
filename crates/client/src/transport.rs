//! Requests and answers over pooled HTTP/1.1 connections; one try each.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::error::{Error, Problem};

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a connection that nobody uses is kept: shorter than what proxies commonly allow.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// How much of a foreign error page is shown.
const SHOWN_CHARS: usize = 100;

/// Connections to one server.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    http: Client<HttpConnector, Full<Bytes>>,
    /// Scheme, host, port and path, without a slash at the end.
    base: String,
}

/// An answer with a status of success.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Transport {
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        let refuse = || Error::InvalidArgument {
            field: "url",
            value: url.to_owned(),
            expected: "http://HOST:PORT (for https, go through a proxy on this machine)",
        };
        let uri: Uri = url.parse().map_err(|_| refuse())?;
        if uri.scheme_str() != Some("http") || uri.authority().is_none() || uri.query().is_some() {
            return Err(refuse());
        }
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_MAX));
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Ok(Self { http, base: url.trim_end_matches('/').to_owned() })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// One try, which must be answered within `most`.
    pub(crate) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        most: Duration,
    ) -> Result<Reply, Error> {
        match tokio::time::timeout(most, self.answer(request)).await {
            Ok(result) => result,
            Err(_) => Err(self.unanswered(format!("none within {} s", most.as_secs_f64()))),
        }
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Reply, Error> {
        let response = self.http.request(request).await.map_err(|error| {
            let reason = root_cause(&error);
            if error.is_connect() {
                Error::Unreachable { url: self.base.clone(), reason }
            } else {
                self.unanswered(reason)
            }
        })?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| self.unanswered(root_cause(&error)))?.to_bytes();
        if parts.status.is_success() {
            return Ok(Reply { headers: parts.headers, body });
        }
        Err(self.refusal(parts.status, &parts.headers, &body))
    }

    /// An answer that is an error: a problem of Millpond's, or somebody else's page.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Error {
        let retry_after = headers.get(RETRY_AFTER).and_then(|value| parse_retry_after(value.to_str().ok()?));
        if let Ok(mut problem) = serde_json::from_slice::<Problem>(body) {
            // The header has whole seconds and may be a proxy's; the member is the server's own.
            let header = retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok());
            problem.retry_after_ms = problem.retry_after_ms.or(header);
            return Error::Refused(Box::new(problem));
        }
        let text = String::from_utf8_lossy(body);
        let shown: String = text.trim().chars().take(SHOWN_CHARS).collect();
        let reason = format!("{status}: {shown:?}");
        Error::Unexpected { url: self.base.clone(), status: status.as_u16(), reason, retry_after }
    }

    /// An answer of success whose body is not what the call promises.
    pub(crate) fn misunderstood(&self, error: &serde_json::Error) -> Error {
        let reason = error.to_string();
        Error::Unexpected { url: self.base.clone(), status: 200, reason, retry_after: None }
    }

    fn unanswered(&self, reason: String) -> Error {
        Error::Unanswered { url: self.base.clone(), reason }
    }
}

/// Seconds, or the time left until a date.
fn parse_retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(date.duration_since(std::time::SystemTime::now()).unwrap_or_default())
}

/// The innermost error: the outer ones only say that a request failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_addresses_are_taken() {
        for url in ["http://127.0.0.1:8400", "http://localhost", "http://[::1]:8400/", "http://host/mount/"] {
            assert!(Transport::new(url).is_ok(), "{url}");
        }
        for url in ["", "127.0.0.1:8400", "localhost:8400", "https://host", "http://", "http://h/?q=1"] {
            assert!(matches!(Transport::new(url), Err(Error::InvalidArgument { .. })), "{url}");
        }
    }

    #[test]
    fn a_pause_is_given_in_seconds_or_as_a_date() {
        assert_eq!(parse_retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        let far = parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT");
        assert!(far > Some(Duration::from_secs(3_600)));
        assert_eq!(parse_retry_after("soon"), None);
    }
}
