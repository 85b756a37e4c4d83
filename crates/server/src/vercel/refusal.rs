//! Refusals as Vercel's clients read them: `{"error": …}`, under a status that tells them what to do.
//!
//! Overload and limits are 429 with `Retry-After`: clients take 503 for a project without consumers, and know neither 423
//! nor 507. Trouble with the store is 500.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use millpond_api::vercel::answer::{self, Detail, JSON};
use millpond_api::{ErrorCode, InputError};
use millpond_core::Rejection;

use crate::error::ApiError;

/// Seconds after which a client may try again, unless something says otherwise.
const RETRY_AFTER_SECONDS: u64 = 1;

/// A refused call.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Particulars>);

#[derive(Debug)]
struct Particulars {
    /// What it is counted as.
    code: ErrorCode,
    status: u16,
    /// Empty: there is no body.
    text: String,
    details: Vec<(&'static str, Detail)>,
    retry_after_seconds: Option<u64>,
    allow: Option<&'static str>,
    cause: Option<String>,
}

/// On a refusal's response: what is counted and logged of it.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) code: ErrorCode,
    pub(crate) cause: Option<String>,
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, status: u16, text: impl Into<String>) -> Self {
        let details = Vec::new();
        let (retry_after_seconds, allow, cause) = (None, None, None);
        let text = text.into();
        Self(Box::new(Particulars { code, status, text, details, retry_after_seconds, allow, cause }))
    }

    /// There is no such message, or none that this call may know of.
    pub(super) fn not_found() -> Self {
        Self::new(ErrorCode::MessageNotFound, 404, answer::NOT_FOUND)
    }

    /// The same with something more in its body.
    pub(super) fn with(mut self, name: &'static str, detail: Detail) -> Self {
        self.0.details.push((name, detail));
        self
    }

    /// The same with the time after which to try again.
    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_seconds = Some(seconds.max(1));
        self
    }

    pub(super) fn status(&self) -> u16 {
        self.0.status
    }

    pub(super) fn text(&self) -> &str {
        &self.0.text
    }

    /// The same call may go well later.
    pub(super) fn is_retryable(&self) -> bool {
        matches!(self.0.status, 408 | 429 | 500..)
    }
}

fn status_of(code: ErrorCode) -> u16 {
    match code {
        ErrorCode::ShuttingDown | ErrorCode::StorageFull => 429,
        // A path names a region at most: that its environment is missing is a fault of the server's settings.
        ErrorCode::EnvironmentNotFound | ErrorCode::OutcomeUnknown | ErrorCode::StorageUnavailable => 500,
        other => other.status(),
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        let (code, allow) = (error.code(), error.allow());
        let cause = error.cause().map(str::to_owned);
        let problem = error.problem("");
        let text = match code {
            // Whatever of topic, partition, group and message is missing: the message is not found.
            ErrorCode::GroupNotFound
            | ErrorCode::MessageNotFound
            | ErrorCode::PartitionNotFound
            | ErrorCode::QueueNotFound
            | ErrorCode::TopicNotFound => answer::NOT_FOUND.to_owned(),
            _ => problem.detail,
        };
        let status = status_of(code);
        let retry_after_seconds = problem.retry_after_ms.map(|milliseconds| milliseconds.div_ceil(1_000));
        let retry_after_seconds = retry_after_seconds.or((status == 429).then_some(RETRY_AFTER_SECONDS));
        let details = Vec::new();
        Self(Box::new(Particulars { code, status, text, details, retry_after_seconds, allow, cause }))
    }
}

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Self {
        ApiError::from(error).into()
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        let Rejection::ConcurrencyReached { in_flight, limit } = rejection else {
            return ApiError::from(rejection).into();
        };
        Self::from(ApiError::from(rejection))
            .with("currentInflight", Detail::Number(in_flight))
            .with("maxConcurrency", Detail::Number(limit.into()))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Particulars { code, status, text, details, retry_after_seconds, allow, cause } = *self.0;
        let has_body = !text.is_empty();
        let body = if has_body { Body::from(answer::render_error(&text, &details)) } else { Body::empty() };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        if let Some(seconds) = retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        response.extensions_mut().insert(Refused { code, cause });
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_becomes_a_status_that_clients_misread() {
        for code in ErrorCode::all() {
            let response = Refusal::from(ApiError::new(*code, "why")).into_response();
            let status = response.status().as_u16();
            assert!(!matches!(status, 423 | 502..), "{code}: {status}");
            assert_eq!(response.headers().contains_key(RETRY_AFTER), status == 429, "{code}");
            assert_eq!(response.headers()[CONTENT_TYPE], JSON);
        }
    }

    #[test]
    fn a_store_in_trouble_is_500_and_a_full_or_stopping_server_429() {
        for (code, status) in [
            (ErrorCode::EnvironmentNotFound, 500),
            (ErrorCode::OutcomeUnknown, 500),
            (ErrorCode::StorageCorrupt, 500),
            (ErrorCode::StorageUnavailable, 500),
            (ErrorCode::MessageLimit, 429),
            (ErrorCode::ServerOverloaded, 429),
            (ErrorCode::ShuttingDown, 429),
            (ErrorCode::StorageFull, 429),
            (ErrorCode::UploadLimit, 429),
        ] {
            assert_eq!(Refusal::from(ApiError::new(code, "why")).status(), status, "{code}");
        }
    }

    #[test]
    fn waiting_is_told_in_whole_seconds() {
        let refusal = Refusal::new(ErrorCode::InvalidState, 409, "leased").retry_after(0);
        assert_eq!(refusal.into_response().headers()[RETRY_AFTER], "1");
        let refusal = Refusal::from(ApiError::retryable(ErrorCode::ServerOverloaded, "too much".to_owned()));
        assert!(refusal.is_retryable());
        assert_eq!(refusal.into_response().headers()[RETRY_AFTER], "1");
    }

    #[test]
    fn a_reached_concurrency_says_how_much_is_in_flight() {
        let refusal = Refusal::from(Rejection::ConcurrencyReached { in_flight: 5, limit: 3 });
        let expected = [("currentInflight", Detail::Number(5)), ("maxConcurrency", Detail::Number(3))];
        assert_eq!((refusal.status(), &refusal.0.details[..]), (429, &expected[..]));
    }
}
