//! `Idempotency-Key`: makes a call repeatable. The same key with the same call gets the first answer again.
//!
//! The core remembers a key with a digest of the call, in the commit of its work; another digest under it is refused there.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use millpond_api::Fault;
use millpond_api::event::binary;
use millpond_core::command::Idempotency;
use millpond_core::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use sha2::{Digest, Sha256};

use crate::error::ApiError;
use crate::extract;

/// The header that makes a call repeatable.
pub(crate) const KEY: &str = "idempotency-key";
/// Set on an answer that was given before: nothing was done now.
const REPLAY: HeaderName = HeaderName::from_static("millpond-idempotent-replay");

/// A key as it was given, checked before anything of the body is read.
pub(crate) struct Key(Option<Box<str>>);

impl Key {
    /// Reads the header.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut values = headers.get_all(KEY).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let refuse = |expected: &str| {
            Fault::beyond(IDEMPOTENCY_KEY_BYTES_MAX, expected)
                .at(KEY, &String::from_utf8_lossy(value.as_bytes()))
                .into()
        };
        if values.next().is_some() {
            return Err(refuse("to be given once"));
        }
        match std::str::from_utf8(value.as_bytes()) {
            Ok(key) if (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) => Ok(Self(Some(key.into()))),
            _ => Err(refuse(&format!("1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes of utf-8"))),
        }
    }

    /// The key with what it stands for.
    pub(crate) fn with(self, parts: &Parts, body: &[u8]) -> Option<Idempotency> {
        self.0.map(|key| Idempotency { key, digest: digest(parts, body) })
    }
}

/// What tells a call from another: method, path, query, content type, `ce-` headers in the order of their names, and body,
/// each with its length before it.
fn digest(parts: &Parts, body: &[u8]) -> u128 {
    let mut hasher = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(bytes.len().to_be_bytes());
        hasher.update(bytes);
    };
    add(parts.method.as_str().as_bytes());
    add(parts.uri.path().as_bytes());
    add(parts.uri.query().unwrap_or_default().as_bytes());
    add(extract::content_type(&parts.headers).unwrap_or_default().as_bytes());
    let mut headers: Vec<_> = event_headers(&parts.headers).collect();
    headers.sort_unstable();
    add(&headers.len().to_be_bytes());
    for (name, value) in headers {
        add(name.as_bytes());
        add(value);
    }
    add(body);
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize()[..16]);
    u128::from_be_bytes(half)
}

/// The headers that hold attributes of an event.
pub(crate) fn event_headers(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    let all = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    all.filter(|(name, _)| name.starts_with(binary::HEADER_PREFIX))
}

/// Says on an answer that it was given before, if it was.
pub(crate) fn mark(mut response: Response, repeated: bool) -> Response {
    if repeated {
        response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn digest_of(method: &str, uri: &str, headers: &[(&str, &str)], body: &[u8]) -> u128 {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        digest(&request.body(()).expect("valid").into_parts().0, body)
    }

    #[test]
    fn every_part_of_a_call_counts() {
        let calls = [
            ("POST", "/v1/queues/q:send", &[][..], &b""[..]),
            ("DELETE", "/v1/queues/q:send", &[], b""),
            ("POST", "/v1/queues/p:send", &[], b""),
            ("POST", "/v1/queues/q:send?delay=1s", &[], b""),
            ("POST", "/v1/queues/q:send", &[("content-type", "text/plain")], b""),
            ("POST", "/v1/queues/q:send", &[("ce-id", "1")], b""),
            ("POST", "/v1/queues/q:send", &[("ce-id", "2")], b""),
            ("POST", "/v1/queues/q:send", &[], b"x"),
        ];
        let digests: Vec<_> =
            calls.iter().map(|(method, uri, headers, body)| digest_of(method, uri, headers, body)).collect();
        for (at, digest) in digests.iter().enumerate() {
            assert_eq!(digests.iter().position(|other| other == digest), Some(at), "{:?}", calls[at]);
        }
    }

    #[test]
    fn other_headers_and_their_order_do_not_count() {
        let one = digest_of("POST", "/q", &[("ce-id", "1"), ("ce-type", "t"), ("idempotency-key", "a")], b"");
        let two = digest_of("POST", "/q", &[("ce-type", "t"), ("user-agent", "x"), ("ce-id", "1")], b"");
        assert_eq!(one, two);
    }
}
