//! What each refusal of the core becomes.

use millpond_api::name::Kind;
use millpond_api::{ErrorCode, time};
use millpond_core::Rejection;
use millpond_core::command::TriggersOf;
use millpond_core::outcome::DeadLetterProblem;
use millpond_core::time::Timestamp;

use super::{ApiError, RETRY_UNAVAILABLE_MS};
use crate::convert::name::called;

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let of_state = |detail| Self::new(ErrorCode::InvalidState, detail);
        match rejection {
            Rejection::AlreadySettled { message } => {
                Self::new(ErrorCode::MessageSettled, format!("the group has settled message {message}"))
            }
            Rejection::BeyondExpiry { expires_at, requested } => beyond_expiry(expires_at, requested),
            Rejection::ByteLimit { held, more, limit } => {
                room(ErrorCode::ByteLimit, "bytes", held, more, limit)
            }
            Rejection::ConcurrencyReached { in_flight, limit } => concurrency(in_flight, limit),
            Rejection::DeadLettersElsewhere { queue, to } => {
                of_state(format!("dead letters of {queue} go to {to}: redrive them from there"))
            }
            Rejection::DeadLetterQueueInvalid { name, problem } => dead_letter_queue_invalid(&name, problem),
            Rejection::DedupLimit { limit } => {
                let detail = format!("{limit} idempotency keys are remembered, which is the limit");
                Self::limited(ErrorCode::DedupLimit, detail, limit)
            }
            Rejection::EtagMismatch { current } => {
                Self::new(ErrorCode::EtagMismatch, format!("the etag is {current} by now")).about("etag")
            }
            Rejection::IdempotencyKeyReused { key } => {
                let detail = format!("idempotency key {key} was used for another call");
                Self::new(ErrorCode::IdempotencyKeyReused, detail).about("idempotency-key")
            }
            Rejection::LeaseStale { stale } => {
                let stale: Vec<_> = stale.iter().map(|lease| lease.message.to_string()).collect();
                Self::lease_stale(&stale)
            }
            Rejection::MessageDelayed { message, until } => {
                let until = time::render(until.as_millis());
                let detail = format!("message {message} is not visible before {until}");
                Self::new(ErrorCode::MessageDelayed, detail)
            }
            Rejection::MessageLeased { message, .. } => of_state(format!("message {message} is leased")),
            Rejection::MessageLimit { held, more, limit } => {
                room(ErrorCode::MessageLimit, "messages", held, more, limit)
            }
            Rejection::MessageNotFound { message } => {
                Self::new(ErrorCode::MessageNotFound, format!("message {message} is not there"))
            }
            Rejection::OutOfRange { field, value, limit } => out_of_range(field, value, limit),
            Rejection::Paused { name } => of_state(format!("{} is paused", called(&name).1)),
            Rejection::QueueAlreadyExists { name } => already_exists(&name),
            Rejection::QueueInUse { by } => of_state(in_use(&by)),
            Rejection::QueueLimit { what, limit } => queue_limit(what, limit),
            Rejection::QueueNotFound { name } => not_found(&name),
            Rejection::RunLimit { limit } => run_limit(limit),
            Rejection::StorageFull => {
                Self::new(ErrorCode::StorageFull, "the store has no room for new messages")
                    .retry_after_ms(RETRY_UNAVAILABLE_MS)
            }
            Rejection::TriggerAlreadyExists { id } => {
                Self::new(ErrorCode::TriggerAlreadyExists, format!("trigger {id} exists already"))
                    .about("trigger_id")
            }
            Rejection::TriggerLimit { limit } => trigger_limit(limit),
            Rejection::TriggerNotFound { of } => trigger_not_found(&of),
            Rejection::TriggerOverlaps { id, other } => trigger_overlaps(&id, &other),
            Rejection::Unsuited { name, wanted } => {
                Self::new(ErrorCode::UnsuitedResource, format!("{name} does not do this, expected {wanted}"))
            }
            Rejection::UploadLimit { what, limit } => upload_limit(what, limit),
            Rejection::UploadLost => upload_lost(),
            Rejection::WaiterLimit { limit } => Self::overloaded("too many lease calls wait".into(), limit),
        }
    }
}

/// The core names all that it serves in one way; a client is told which of them is meant.
fn already_exists(name: &str) -> ApiError {
    let (kind, called) = called(name);
    let code = match kind {
        Kind::Group => ErrorCode::GroupAlreadyExists,
        // Nobody makes a partition but by sending to it.
        Kind::Partition | Kind::Queue => ErrorCode::QueueAlreadyExists,
        Kind::Topic => ErrorCode::TopicAlreadyExists,
    };
    ApiError::new(code, format!("{called} exists already"))
}

fn beyond_expiry(expires_at: Timestamp, requested: Timestamp) -> ApiError {
    let [expires_at, requested] = [expires_at, requested].map(|at| time::render(at.as_millis()));
    let detail = format!("the lease would last to {requested}, the message lives to {expires_at}");
    ApiError::limited(ErrorCode::BeyondExpiry, detail, expires_at).about("visibility_timeout")
}

fn concurrency(in_flight: u64, limit: u32) -> ApiError {
    let detail = format!("{in_flight} messages are in flight, limit {limit}");
    ApiError::quota(ErrorCode::ConcurrencyLimit, detail, u64::from(limit))
}

fn dead_letter_queue_invalid(name: &str, problem: DeadLetterProblem) -> ApiError {
    let why = match problem {
        DeadLetterProblem::Missing => "which does not exist",
        DeadLetterProblem::Itself => "which is the queue itself",
        DeadLetterProblem::Circle => "from which dead letters would come back",
    };
    let field = "spec.dead_letter_queue";
    ApiError::field(field, name, format!("{field} is {name}, {why}"))
}

/// Whose dead letters go to a queue: another queue's, or a trigger's.
fn in_use(by: &str) -> String {
    let by = by.strip_prefix("triggers/").map_or(by.to_owned(), |id| format!("trigger {id}"));
    format!("it is the dead-letter queue of {by}; force deletes it even so")
}

fn not_found(name: &str) -> ApiError {
    let (kind, called) = called(name);
    let code = match kind {
        Kind::Group => ErrorCode::GroupNotFound,
        Kind::Partition => ErrorCode::PartitionNotFound,
        Kind::Queue => ErrorCode::QueueNotFound,
        Kind::Topic => ErrorCode::TopicNotFound,
    };
    ApiError::new(code, format!("{called} does not exist"))
}

/// The content of one message is the only size among the core's ranges.
fn out_of_range(field: &'static str, value: String, limit: String) -> ApiError {
    let detail = format!("{field} is {value}, expected {limit}");
    let mut error = ApiError::field(field, value, detail);
    error.problem.limit = Some(limit);
    if field == "data" {
        error.problem.code = ErrorCode::PayloadTooLarge;
    }
    error
}

fn queue_limit(what: &str, limit: usize) -> ApiError {
    let of = if matches!(what, "groups" | "partitions") { "topic" } else { "environment" };
    let detail = format!("the {of} has {limit} {what}, which is the limit");
    ApiError::limited(ErrorCode::QueueLimit, detail, limit)
}

fn room(code: ErrorCode, what: &str, held: u64, more: u64, limit: u64) -> ApiError {
    let detail = format!("the environment holds {held} {what} and this call adds {more}, limit {limit}");
    ApiError::quota(code, detail, limit)
}

fn run_limit(limit: usize) -> ApiError {
    let detail = format!("the group took {limit} runs of messages out of their order, which is the limit");
    ApiError::limited(ErrorCode::RunLimit, detail, limit)
}

fn trigger_limit(limit: usize) -> ApiError {
    let detail = format!("the environment would have more than {limit} triggers");
    ApiError::limited(ErrorCode::TriggerLimit, detail, limit)
}

fn trigger_not_found(of: &TriggersOf) -> ApiError {
    let (code, detail) = match of {
        TriggersOf::Deployment(id) => {
            (ErrorCode::DeploymentNotFound, format!("deployment {id} has no triggers"))
        }
        TriggersOf::Id(id) => (ErrorCode::TriggerNotFound, format!("trigger {id} does not exist")),
    };
    ApiError::new(code, detail)
}

fn trigger_overlaps(id: &str, other: &str) -> ApiError {
    let detail = format!("trigger {other} is for the same group and for topics of trigger {id}");
    ApiError::new(ErrorCode::TriggerOverlaps, detail).about("topic")
}

fn upload_limit(what: &str, limit: u64) -> ApiError {
    let detail = format!("too many {what} are being uploaded, limit {limit}");
    ApiError::quota(ErrorCode::UploadLimit, detail, limit)
}

fn upload_lost() -> ApiError {
    let detail = "the upload was given up: too little came, or the store was opened again";
    ApiError::retryable(ErrorCode::RequestTimeout, detail.to_owned())
}
