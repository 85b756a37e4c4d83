//! The data of one message, as it was sent: whole or a range of it, as a stream where it is large.

use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_RANGE, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use millpond_api::name::Kind;
use millpond_api::{ErrorCode, Fault};
use millpond_core::command::{MessageRef, OpenData};
use millpond_core::id::LeaseGeneration;
use millpond_core::outcome::DataView;
use millpond_core::row::Data;
use millpond_core::{Command, Outcome, Rejection};
use millpond_engine::Answer;

use super::messages::named;
use super::unexpected;
use crate::answers::Streamed;
use crate::app::App;
use crate::convert::message::content_type_of;
use crate::error::ApiError;
use crate::extract::{Place, Query};
use crate::stream::DataStream;

/// Names the reader's lease.
const LEASE_GENERATION: &str = "millpond-lease-generation";

pub(crate) async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let place = Place::of(&app, request.uri().path())?;
    Query::of(request.uri(), &[])?;
    let generation = lease_generation(request.headers())?;
    // A topic's message is there for every group, whoever else holds it.
    let generation = generation.filter(|_| place.kind == Kind::Queue);
    let MessageRef { queue, message } = named(&app, &place).await?;
    let open = Command::OpenData(OpenData { queue, message, generation });
    let answer = app.submit(&place.environment, open).await;
    let Answer { outcome, contents, pin, .. } = answer.map_err(|error| match error.code() {
        ErrorCode::InvalidState => {
            let detail = format!("message {message} is leased: who holds it names it by {LEASE_GENERATION}");
            ApiError::new(ErrorCode::InvalidState, detail)
        }
        _ => error,
    })?;
    let Outcome::Data(view) = outcome else { return Err(unexpected(&outcome)) };
    let Some(content) = contents.first() else {
        return Err(Rejection::MessageNotFound { message: view.message }.into());
    };
    let total = content.data.size_bytes();
    let tag = format!("\"{}\"", view.message);
    let part = wanted_range(request.headers(), &tag, total)?;
    let Range { start, end } = part.clone().unwrap_or(0..total);
    let body = match (&content.data, pin) {
        (Data::Whole(data), _) => {
            let bounds = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            Body::from(Bytes::copy_from_slice(&data[bounds(start)..bounds(end)]))
        }
        (Data::Chunked { .. }, Some(pin)) => {
            let DataView { chunk_bytes, .. } = view;
            Body::new(DataStream::new(pin, chunk_bytes, start, end))
        }
        (Data::Chunked { .. }, None) => return Err(ApiError::internal("data in chunks without a pin")),
    };
    let mut response = Response::new(body);
    if matches!(content.data, Data::Chunked { .. }) {
        response.extensions_mut().insert(Streamed);
    }
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let content_type = HeaderValue::try_from(content_type_of(content)?);
    let unknown = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, content_type.unwrap_or(unknown));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    // A browser that follows the address must not take what somebody sent for a page of this server.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    if part.is_some() {
        let last = end.saturating_sub(1);
        if let Ok(range) = HeaderValue::try_from(format!("bytes {start}-{last}/{total}")) {
            headers.insert(CONTENT_RANGE, range);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

fn lease_generation(headers: &HeaderMap) -> Result<Option<LeaseGeneration>, ApiError> {
    let Some(value) = headers.get(LEASE_GENERATION) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    match text.parse() {
        Ok(generation) => Ok(Some(LeaseGeneration(generation))),
        Err(_) => Err(Fault::new("a lease generation, digits only").at(LEASE_GENERATION, &text).into()),
    }
}

/// The bytes asked for, if it is a part. What is not one range of bytes is passed over, as RFC 9110 allows.
fn wanted_range(headers: &HeaderMap, tag: &str, total: u64) -> Result<Option<Range<u64>>, ApiError> {
    let Some(text) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else { return Ok(None) };
    if headers.get(IF_RANGE).is_some_and(|value| value.as_bytes() != tag.as_bytes()) {
        return Ok(None);
    }
    let Some(range) = parse_range(text, total) else { return Ok(None) };
    if range.start >= total || range.is_empty() {
        return Err(ApiError::range_not_satisfiable(text, total));
    }
    Ok(Some(range))
}

/// `bytes=A-B`, `bytes=A-` or `bytes=-N`.
fn parse_range(text: &str, total: u64) -> Option<Range<u64>> {
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let (first, last) = range.trim().split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", "") => None,
        ("", last) => Some(total.saturating_sub(digits(last)?)..total),
        (first, "") => Some(digits(first)?..total),
        (first, last) => {
            let (first, last): (u64, u64) = (digits(first)?, digits(last)?);
            (first <= last).then(|| first..last.saturating_add(1).min(total))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_rfc_9110_says() {
        for (text, expected) in [
            ("bytes=0-0", Some((0, 1))),
            ("bytes=2-5", Some((2, 6))),
            ("Bytes = 2 - 5", Some((2, 6))),
            ("bytes=2-", Some((2, 10))),
            ("bytes=2-99", Some((2, 10))),
            ("bytes=-3", Some((7, 10))),
            ("bytes=-99", Some((0, 10))),
            ("bytes=-0", Some((10, 10))),
            ("bytes=10-", Some((10, 10))),
            ("bytes=11-12", Some((11, 10))),
            ("bytes=5-2", None),
            ("bytes=0-1,3-4", None),
            ("bytes=-", None),
            ("bytes=a-", None),
            ("bytes=+1-2", None),
            ("bytes=1-99999999999999999999", None),
            ("items=0-1", None),
            ("0-1", None),
        ] {
            let found = parse_range(text, 10).map(|range| (range.start, range.end));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_lies_behind_the_end_is_refused() {
        for (text, total, refused) in
            [("bytes=10-", 10, true), ("bytes=9-", 10, false), ("bytes=-0", 10, true), ("bytes=0-", 0, true)]
        {
            let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static(text))]);
            let range = wanted_range(&headers, "\"tag\"", total);
            match range {
                Err(error) => assert!(refused && error.code() == ErrorCode::RangeNotSatisfiable, "{text}"),
                Ok(_) => assert!(!refused, "{text}"),
            }
        }
    }
}
