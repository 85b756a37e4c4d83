//! `Idempotency-Key`: makes a call repeatable. The same key with the same call gets the first answer again.
//!
//! The core remembers a key with a digest of the call, in the commit of its work; another digest under it is refused there.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use millpond_api::Fault;
use millpond_api::event::binary;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_core::command::Idempotency;
use millpond_core::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::error::ApiError;
use crate::extract;

/// The header that makes a call repeatable.
pub(crate) const KEY: &str = "idempotency-key";
/// Set on an answer that was given before: nothing was done now.
const REPLAY: HeaderName = HeaderName::from_static("millpond-idempotent-replay");

/// A key as it was given, checked before anything of the body is read.
#[derive(Default)]
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

    /// A key of Vercel's wire, which may be longer than ours: its digest stands for it, under a name that keeps it apart from
    /// keys of this API.
    pub(crate) fn of_vercel(given: Option<&[u8]>) -> Self {
        let digest = |key: &[u8]| {
            let hex: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("vqs_{hex}").into()
        };
        Self(given.map(digest))
    }

    /// The key alone.
    pub(crate) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The key with what it stands for.
    pub(crate) fn with(self, parts: &Parts, body: &[u8]) -> Option<Idempotency> {
        self.0.as_ref()?;
        let mut digest = CallDigest::of(parts);
        digest.add_body(body);
        self.with_digest(Some(digest))
    }

    /// The same, of a body that was read in parts. Without a digest the key alone counts, whatever the call.
    pub(crate) fn with_digest(self, digest: Option<CallDigest>) -> Option<Idempotency> {
        self.0.map(|key| Idempotency { key, digest: digest.map_or(0, CallDigest::finish) })
    }
}

/// The body of a call, and its key with what that stands for. The key is checked before the body is read.
pub(crate) async fn keyed_body(
    app: &App,
    parts: &Parts,
    body: Body,
) -> Result<(Bytes, Option<Idempotency>), ApiError> {
    let key = Key::of(&parts.headers)?;
    let body = extract::json_body(app, &parts.headers, body, CALL_BYTES_MAX).await?;
    let key = key.with(parts, &body);
    Ok((body, key))
}

/// The key of a call that has no fields, whose body is looked at all the same.
pub(crate) async fn no_arguments(
    app: &App,
    parts: &Parts,
    body: Body,
) -> Result<Option<Idempotency>, ApiError> {
    let (body, key) = keyed_body(app, parts, body).await?;
    extract::check_no_fields(&body)?;
    Ok(key)
}

/// What tells a call from another: method, path, query, content type and `ce-` headers in the order of their names, each
/// with its length before it, and the body, whose length nobody may know before its end.
pub(crate) struct CallDigest(Sha256);

impl CallDigest {
    /// Of all but the body.
    pub(crate) fn of(parts: &Parts) -> Self {
        let mut digest = Self(Sha256::new());
        digest.add(parts.method.as_str().as_bytes());
        digest.add(parts.uri.path().as_bytes());
        digest.add(parts.uri.query().unwrap_or_default().as_bytes());
        digest.add(extract::content_type(&parts.headers).unwrap_or_default().as_bytes());
        let mut headers: Vec<_> = event_headers(&parts.headers).collect();
        headers.sort_unstable();
        digest.add(&headers.len().to_be_bytes());
        for (name, value) in headers {
            digest.add(name.as_bytes());
            digest.add(value);
        }
        digest
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes.len().to_be_bytes());
        self.0.update(bytes);
    }

    /// The next bytes of the body, which comes last.
    pub(crate) fn add_body(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> u128 {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0.finalize()[..16]);
        u128::from_be_bytes(half)
    }
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
        let mut digest = CallDigest::of(&request.body(()).expect("valid").into_parts().0);
        digest.add_body(body);
        digest.finish()
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
