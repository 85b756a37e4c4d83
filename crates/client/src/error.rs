//! Why a call failed: refused by the server ([`Problem`], RFC 9457), or never answered.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument that no server would take.
    #[error("{field} is {value:?}, expected {expected}")]
    InvalidArgument {
        /// Which one.
        field: &'static str,
        /// What it was.
        value: String,
        /// What it should have been.
        expected: &'static str,
    },
    /// The server said why not.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The request went out and no whole answer came back: the call may or may not have happened.
    #[error("{url} gave no answer: {reason}")]
    Unanswered {
        /// The server.
        url: String,
        /// What became of the connection.
        reason: String,
    },
    /// An answer that Millpond would not give, as a proxy's own error page.
    #[error("{url} answered what is not Millpond's: {reason}")]
    Unexpected {
        /// The server.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What is wrong with it.
        reason: String,
        /// When to try again, if it says so.
        retry_after: Option<Duration>,
    },
    /// There was no connection, so nothing has happened.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The server.
        url: String,
        /// Why not.
        reason: String,
    },
}

impl Error {
    /// The code, if the server refused.
    pub fn code(&self) -> Option<&ErrorCode> {
        match self {
            Error::Refused(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// Whether the same call may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::InvalidArgument { .. } => false,
            Error::Refused(problem) => problem.retryable,
            Error::Unanswered { .. } | Error::Unreachable { .. } => true,
            Error::Unexpected { status, .. } => matches!(status, 429 | 502 | 503 | 504),
        }
    }

    /// Whether the call may have happened although it failed.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Error::InvalidArgument { .. } | Error::Unreachable { .. } => false,
            Error::Refused(problem) => problem.effect != Effect::None,
            Error::Unanswered { .. } | Error::Unexpected { .. } => true,
        }
    }

    /// When to try again, if the server said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Refused(problem) => problem.retry_after(),
            Error::Unexpected { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// The server's answer to a call that it did not carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The address of the code's page.
    #[serde(rename = "type", default)]
    pub type_uri: String,
    /// The same few words for each occurrence of the code.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// One sentence about this occurrence.
    #[serde(default)]
    pub detail: String,
    /// The id of the request, which the server's log carries too.
    #[serde(default)]
    pub instance: String,
    /// What went wrong.
    pub code: ErrorCode,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// What the call has changed all the same.
    #[serde(default)]
    pub effect: Effect,
    /// When to try again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Which field was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The bound that was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

impl Problem {
    /// When to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = if self.detail.is_empty() { &self.title } else { &self.detail };
        write!(formatter, "{said} ({})", self.code)
    }
}

/// What a refused call has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// All of it is stored, although the answer is an error.
    Applied,
    /// Nothing was stored.
    None,
    /// It may be stored or not.
    #[default]
    #[serde(other)]
    Unknown,
}

macro_rules! error_codes {
    ($($variant:ident $code:literal,)+) => {
        /// What went wrong. The set grows: match with a last arm for the rest.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $code, "`.")] $variant,)+
            /// A code that is newer than this client.
            Other(Box<str>),
        }

        impl ErrorCode {
            /// The code as it stands in answers.
            pub fn as_str(&self) -> &str {
                match self { $(ErrorCode::$variant => $code,)+ ErrorCode::Other(code) => code }
            }
        }

        impl From<String> for ErrorCode {
            fn from(code: String) -> Self {
                match code.as_str() {
                    $($code => ErrorCode::$variant,)+
                    _ => ErrorCode::Other(code.into()),
                }
            }
        }
    };
}

error_codes! {
    BeyondExpiry "beyond_expiry",
    ByteLimit "byte_limit",
    ConcurrencyLimit "concurrency_limit",
    CredentialInvalid "credential_invalid",
    CredentialScope "credential_scope",
    CrossOrigin "cross_origin",
    DedupLimit "dedup_limit",
    DeploymentNotFound "deployment_not_found",
    EnvironmentNotFound "environment_not_found",
    EtagMismatch "etag_mismatch",
    GroupAlreadyExists "group_already_exists",
    GroupNotFound "group_not_found",
    HostNotAllowed "host_not_allowed",
    IdempotencyKeyReused "idempotency_key_reused",
    Internal "internal",
    InvalidField "invalid_field",
    InvalidState "invalid_state",
    LeaseStale "lease_stale",
    MalformedJson "malformed_json",
    MessageDelayed "message_delayed",
    MessageLimit "message_limit",
    MessageNotFound "message_not_found",
    MessageSettled "message_settled",
    MethodNotAllowed "method_not_allowed",
    MissingField "missing_field",
    NotFound "not_found",
    OutcomeUnknown "outcome_unknown",
    PageTokenInvalid "page_token_invalid",
    PartitionNotFound "partition_not_found",
    PayloadTooLarge "payload_too_large",
    QueueAlreadyExists "queue_already_exists",
    QueueLimit "queue_limit",
    QueueNotFound "queue_not_found",
    RangeNotSatisfiable "range_not_satisfiable",
    RequestTimeout "request_timeout",
    RunLimit "run_limit",
    ServerOverloaded "server_overloaded",
    ShuttingDown "shutting_down",
    StorageCorrupt "storage_corrupt",
    StorageFull "storage_full",
    StorageUnavailable "storage_unavailable",
    TargetNotAllowed "target_not_allowed",
    TopicAlreadyExists "topic_already_exists",
    TopicNotFound "topic_not_found",
    TriggerAlreadyExists "trigger_already_exists",
    TriggerLimit "trigger_limit",
    TriggerNotFound "trigger_not_found",
    TriggerOverlaps "trigger_overlaps",
    UnknownField "unknown_field",
    UnsuitedResource "unsuited_resource",
    UnsupportedMediaType "unsupported_media_type",
    UploadLimit "upload_limit",
    ValueNotFound "value_not_found",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(deserializer)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_read_with_members_that_are_new_or_absent() {
        let text = r#"{"status": 429, "code": "brand_new", "retryable": true, "effect": "half", "more": []}"#;
        let problem: Problem = serde_json::from_str(text).expect("a problem");
        assert_eq!(problem.code, ErrorCode::Other("brand_new".into()));
        assert_eq!((problem.retryable, problem.effect, problem.retry_after()), (true, Effect::Unknown, None));
        let error = Error::Refused(Box::new(problem));
        assert!(error.is_retryable() && error.may_have_happened());
    }

    #[test]
    fn every_code_of_the_server_is_known_by_name() {
        for code in millpond_api::ErrorCode::all() {
            let ours = ErrorCode::from(code.as_str().to_owned());
            assert!(!matches!(ours, ErrorCode::Other(_)), "{code}");
            assert_eq!(ours.as_str(), code.as_str());
        }
    }
}
