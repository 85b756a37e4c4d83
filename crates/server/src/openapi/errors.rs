//! Which codes come together, by what a request passes on its way.

use millpond_api::ErrorCode::{self, *};

/// What every request may get: the guards, and bugs.
pub(super) const EVERYWHERE: &[ErrorCode] = &[CrossOrigin, HostNotAllowed, Internal];

/// What the engine may answer instead of the core.
pub(super) const ENGINE: &[ErrorCode] = &[
    EnvironmentNotFound,
    OutcomeUnknown,
    ServerOverloaded,
    ShuttingDown,
    StorageCorrupt,
    StorageFull,
    StorageUnavailable,
];

/// What a path with ids in it may get: an id may be none, or turn it into another path.
pub(super) const PATH: &[ErrorCode] = &[InvalidField, NotFound];

/// What a query may get.
pub(super) const QUERY: &[ErrorCode] = &[InvalidField, UnknownField];

/// What a body may get.
pub(super) const BODY: &[ErrorCode] = &[
    InvalidField,
    MalformedJson,
    PayloadTooLarge,
    RequestTimeout,
    ServerOverloaded,
    UnknownField,
    UnsupportedMediaType,
];

/// What a call with an idempotency key may get.
pub(super) const KEYED: &[ErrorCode] = &[DedupLimit, IdempotencyKeyReused, InvalidField];
