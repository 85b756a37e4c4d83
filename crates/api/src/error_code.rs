//! The closed set of error codes.
//!
//! Once shipped, a code is never reused or given another meaning. Each has a page `docs/errors/<code>.md`
//! (`tests/it/error_pages.rs`). Codes are alphabetical.

use crate::problem::Effect;

macro_rules! error_codes {
    ($($variant:ident $code:literal $status:literal $retry:ident $title:literal,)+) => {
        /// What went wrong, as clients may match on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $code, "` (", $status, "): ", $title, ".")] $variant,)+
        }

        impl ErrorCode {
            /// Every code, in alphabetical order.
            pub fn all() -> &'static [ErrorCode] {
                &[$(ErrorCode::$variant,)+]
            }

            /// The code as it is written in answers.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $code,)+ }
            }

            /// The HTTP status that goes with it.
            pub fn status(self) -> u16 {
                match self { $(ErrorCode::$variant => $status,)+ }
            }

            /// Whether the same call may succeed later, unchanged.
            pub fn retryable(self) -> bool {
                match self { $(ErrorCode::$variant => error_codes!(@ $retry),)+ }
            }

            /// The same few words for every occurrence; the page's heading.
            pub fn title(self) -> &'static str {
                match self { $(ErrorCode::$variant => $title,)+ }
            }
        }
    };
    (@ retry) => { true };
    (@ final) => { false };
}

error_codes! {
    BeyondExpiry "beyond_expiry" 400 final "lease would outlive its message",
    ByteLimit "byte_limit" 429 retry "environment holds too many bytes",
    ConcurrencyLimit "concurrency_limit" 429 retry "as many messages are in flight as the call allows",
    CredentialInvalid "credential_invalid" 401 final "credential is not good, or not any more",
    CredentialScope "credential_scope" 403 final "credential is for something else",
    CrossOrigin "cross_origin" 403 final "request comes from another web origin",
    DedupLimit "dedup_limit" 429 final "too many live idempotency keys",
    DeploymentNotFound "deployment_not_found" 404 final "deployment has no triggers",
    EnvironmentNotFound "environment_not_found" 404 final "environment does not exist",
    EtagMismatch "etag_mismatch" 409 final "resource has changed since it was read",
    GroupAlreadyExists "group_already_exists" 409 final "group exists already",
    GroupNotFound "group_not_found" 404 final "group does not exist",
    HostNotAllowed "host_not_allowed" 421 final "host is not one that this server answers for",
    IdempotencyKeyReused "idempotency_key_reused" 409 final "idempotency key was used for another call",
    Internal "internal" 500 final "internal error",
    InvalidField "invalid_field" 400 final "field has an invalid value",
    InvalidState "invalid_state" 409 final "resource is in a state that forbids this",
    LeaseStale "lease_stale" 409 final "lease is no longer held",
    MalformedJson "malformed_json" 400 final "body is not valid json",
    MessageDelayed "message_delayed" 409 final "message is not visible yet",
    MessageLimit "message_limit" 429 retry "environment holds too many messages",
    MessageNotFound "message_not_found" 404 final "message does not exist",
    MessageSettled "message_settled" 410 final "group has settled the message",
    MethodNotAllowed "method_not_allowed" 405 final "route has no such method",
    MissingField "missing_field" 400 final "required field is missing",
    NotFound "not_found" 404 final "no such route",
    OutcomeUnknown "outcome_unknown" 503 retry "call may or may not have been stored",
    PageTokenInvalid "page_token_invalid" 400 final "page token does not belong to this list",
    PartitionNotFound "partition_not_found" 404 final "partition does not exist",
    PayloadTooLarge "payload_too_large" 413 final "payload is too large",
    QueueAlreadyExists "queue_already_exists" 409 final "queue exists already",
    QueueLimit "queue_limit" 429 final "too many queues, topics, groups or partitions",
    QueueNotFound "queue_not_found" 404 final "queue does not exist",
    RangeNotSatisfiable "range_not_satisfiable" 416 final "range lies behind the end of the data",
    RequestTimeout "request_timeout" 408 retry "request did not arrive in time",
    RunLimit "run_limit" 429 final "group took too many messages out of their order",
    ServerOverloaded "server_overloaded" 429 retry "server has too much waiting work",
    ShuttingDown "shutting_down" 503 retry "server is shutting down",
    StorageCorrupt "storage_corrupt" 500 final "what is stored cannot be used",
    StorageFull "storage_full" 507 retry "storage is full",
    StorageUnavailable "storage_unavailable" 503 retry "storage cannot be reached",
    TargetNotAllowed "target_not_allowed" 400 final "target is not one that this server pushes to",
    TopicAlreadyExists "topic_already_exists" 409 final "topic exists already",
    TopicNotFound "topic_not_found" 404 final "topic does not exist",
    TriggerAlreadyExists "trigger_already_exists" 409 final "trigger exists already",
    TriggerLimit "trigger_limit" 429 final "too many triggers",
    TriggerNotFound "trigger_not_found" 404 final "trigger does not exist",
    TriggerOverlaps "trigger_overlaps" 409 final "another trigger is for the same topics",
    UnknownField "unknown_field" 400 final "field does not exist",
    UnsuitedResource "unsuited_resource" 400 final "resource is not of the kind that this needs",
    UnsupportedMediaType "unsupported_media_type" 415 final "content type is not supported",
    UploadLimit "upload_limit" 429 retry "too much is being uploaded",
    ValueNotFound "value_not_found" 404 final "runtime cache has no such value",
}

impl ErrorCode {
    /// The code with hyphens, as it stands in the `type` of a problem.
    pub fn kebab(self) -> String {
        self.as_str().replace('_', "-")
    }

    /// What the refused call changed, unless the caller knows better.
    pub fn effect(self) -> Effect {
        match self {
            ErrorCode::Internal | ErrorCode::OutcomeUnknown => Effect::Unknown,
            _ => Effect::None,
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_snake_case_alphabetical_and_distinct() {
        let codes: Vec<_> = ErrorCode::all().iter().map(|code| code.as_str()).collect();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        let snake = |code: &&str| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(codes.iter().all(snake), "{codes:?}");
    }

    #[test]
    fn only_errors_that_pass_by_themselves_are_retryable() {
        let retryable: Vec<_> =
            ErrorCode::all().iter().filter(|code| code.retryable()).map(|c| c.as_str()).collect();
        let expected = [
            "byte_limit",
            "concurrency_limit",
            "message_limit",
            "outcome_unknown",
            "request_timeout",
            "server_overloaded",
            "shutting_down",
            "storage_full",
            "storage_unavailable",
            "upload_limit",
        ];
        assert_eq!(retryable, expected);
        assert!(ErrorCode::all().iter().all(|code| (400..600).contains(&code.status())));
    }

    #[test]
    fn titles_are_lower_case_without_full_stop() {
        for code in ErrorCode::all() {
            assert_eq!(code.title(), code.title().to_lowercase());
            assert!(!code.title().ends_with('.'), "{code}");
        }
    }
}
