//! The one error of the HTTP surface, and how each refusal becomes one.
//!
//! Clients get the code, a sentence and the request id; what went on inside is a [`ApiError::cause`], which only the log
//! gets. The conversion to a response leaves the body to `envelope`, which knows the request id.

mod rejection;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millpond_api::{ErrorCode, InputError, Problem};
use millpond_engine::EngineError;

/// How long a client should wait before it tries an overloaded server again.
const RETRY_OVERLOADED_MS: u64 = 250;
/// The same for a store that is away or full, and for a server that is being replaced.
const RETRY_UNAVAILABLE_MS: u64 = 1_000;

/// Stale leases that an error names.
const STALE_NAMED_MAX: usize = 10;

/// A refused or failed request.
#[derive(Clone, Debug)]
pub struct ApiError {
    problem: Box<Problem>,
    cause: Option<String>,
    allow: Option<&'static str>,
    /// Of a range that cannot be had: bytes that there are.
    total: Option<u64>,
}

impl ApiError {
    /// An error that says nothing about a field.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Problem::new(code, detail, "").into()
    }

    /// A field with a value that it cannot have.
    pub(crate) fn field(
        field: impl Into<String>,
        value: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let mut error = Self::new(ErrorCode::InvalidField, detail);
        error.problem.field = Some(field.into());
        error.problem.value = Some(value.into());
        error
    }

    /// A route that exists for another method.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let mut error = Self::new(ErrorCode::MethodNotAllowed, format!("this route takes {allow}"));
        error.allow = Some(allow);
        error
    }

    /// Bytes were asked for that lie behind the end.
    pub(crate) fn range_not_satisfiable(range: &str, total: u64) -> Self {
        let detail = format!("range is {range}, the data has {total} bytes");
        let mut error = Self::new(ErrorCode::RangeNotSatisfiable, detail).about("range");
        error.problem.value = Some(range.to_owned());
        error.problem.limit = Some(total.to_string());
        error.total = Some(total);
        error
    }

    /// Something that cannot be: a bug, or damaged data. The client learns no more than that.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorCode::Internal, "the server failed, its log says more");
        error.cause = Some(cause.into());
        error
    }

    /// Leases of a call that applies as a whole; the first few of their messages are named.
    pub(crate) fn lease_stale<S: AsRef<str>>(message_ids: &[S]) -> Self {
        let named: Vec<_> = message_ids.iter().take(STALE_NAMED_MAX).map(AsRef::as_ref).collect();
        let others = message_ids.len() - named.len();
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        Self::new(ErrorCode::LeaseStale, format!("no longer held: {}{more}", named.join(", ")))
    }

    /// A body or part of it that is too large. `bytes` says how large, as far as that is known.
    pub(crate) fn too_large(subject: &str, bytes: impl std::fmt::Display, limit: usize) -> Self {
        let mut error =
            Self::new(ErrorCode::PayloadTooLarge, format!("{subject} is {bytes}, limit {limit} bytes"));
        error.problem.limit = Some(limit.to_string());
        error
    }

    /// More work than a bound allows.
    pub(crate) fn overloaded(what: String, limit: usize) -> Self {
        let mut error = Self::retryable(ErrorCode::ServerOverloaded, format!("{what}, limit {limit}"));
        error.problem.limit = Some(limit.to_string());
        error
    }

    /// An environment has as much as it may.
    fn quota(code: ErrorCode, detail: String, limit: u64) -> Self {
        Self::limited(code, detail, limit).retry_after_ms(RETRY_UNAVAILABLE_MS)
    }

    fn limited(code: ErrorCode, detail: String, limit: impl ToString) -> Self {
        let mut error = Self::new(code, detail);
        error.problem.limit = Some(limit.to_string());
        error
    }

    /// Something that may go well when it is tried again soon.
    pub(crate) fn retryable(code: ErrorCode, detail: String) -> Self {
        Self::new(code, detail).retry_after_ms(RETRY_OVERLOADED_MS)
    }

    /// The same error with the path under which a client knows the field.
    pub(crate) fn under(mut self, path_of: impl Fn(&str) -> String) -> Self {
        if let Some(field) = &self.problem.field {
            let path = path_of(field);
            if let Some(rest) = self.problem.detail.strip_prefix(field.as_str()) {
                self.problem.detail = format!("{path}{rest}");
            }
            self.problem.field = Some(path);
        }
        self
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.problem.code
    }

    /// Whether what was asked about is not there.
    pub(crate) fn is_missing(&self) -> bool {
        use ErrorCode::{GroupNotFound, PartitionNotFound, QueueNotFound, TopicNotFound};
        matches!(self.code(), GroupNotFound | PartitionNotFound | QueueNotFound | TopicNotFound)
    }

    /// What went wrong inside, for the log alone.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Methods that the route takes, where that was the matter.
    pub(crate) fn allow(&self) -> Option<&'static str> {
        self.allow
    }

    /// Bytes that there are, where more were asked for.
    pub(crate) fn total(&self) -> Option<u64> {
        self.total
    }

    /// The body for the request with this id.
    pub(crate) fn problem(self, request_id: &str) -> Problem {
        let mut problem = *self.problem;
        problem.instance = request_id.to_owned();
        problem
    }

    fn retry_after_ms(mut self, milliseconds: u64) -> Self {
        self.problem.retry_after_ms = Some(milliseconds);
        self
    }

    fn because(mut self, cause: String) -> Self {
        self.cause = Some(cause);
        self
    }

    /// The same error under another code.
    pub(crate) fn with_code(mut self, code: ErrorCode) -> Self {
        self.problem.code = code;
        self
    }

    fn about(mut self, field: &str) -> Self {
        self.problem.field = Some(field.to_owned());
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), cause: None, allow: None, total: None }
    }
}

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        Problem::from_input(error, "").into()
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Corrupt(cause) => {
                let detail = "what is stored of this environment cannot be used, the log says more";
                Self::new(ErrorCode::StorageCorrupt, detail).because(cause)
            }
            EngineError::EnvironmentNotFound(name) => {
                Self::new(ErrorCode::EnvironmentNotFound, format!("environment {name} does not exist"))
            }
            EngineError::Full => Self::new(ErrorCode::StorageFull, "the store has no room")
                .retry_after_ms(RETRY_UNAVAILABLE_MS),
            EngineError::Overloaded { what, limit } => {
                Self::overloaded(format!("too many {what} wait"), limit)
            }
            EngineError::ShuttingDown => Self::new(ErrorCode::ShuttingDown, "the server is going down")
                .retry_after_ms(RETRY_UNAVAILABLE_MS),
            EngineError::Unavailable(cause) => {
                Self::new(ErrorCode::StorageUnavailable, "the store cannot be reached, nothing was done")
                    .retry_after_ms(RETRY_UNAVAILABLE_MS)
                    .because(cause)
            }
            EngineError::Unknown(cause) => {
                let detail =
                    "the store did not say whether this was stored; ask again with the same idempotency key";
                Self::new(ErrorCode::OutcomeUnknown, detail)
                    .retry_after_ms(RETRY_OVERLOADED_MS)
                    .because(cause)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millpond_api::Effect;

    use super::*;

    #[test]
    fn corrupt_storage_is_told_without_its_particulars() {
        let error = ApiError::from(EngineError::Corrupt("row 7 of /srv/data".to_owned()));
        assert_eq!(error.cause(), Some("row 7 of /srv/data"));
        let problem = error.problem("id");
        assert_eq!((problem.code, problem.effect), (ErrorCode::StorageCorrupt, Effect::None));
        assert_eq!((problem.code.status(), problem.code.retryable()), (500, false));
        assert_eq!(problem.retry_after_ms, None);
        assert!(!problem.render().contains("row 7"), "{problem:?}");
    }
}
