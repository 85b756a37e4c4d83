//! Codes that stand for values in columns. Persisted: a code is never given another meaning.

use millpond_core::id::{LogNumber, QueueNumber};
use millpond_core::row::{DataKind, DeadReason, DeliveryState, Hold, Role};

/// Code of a value.
#[must_use]
pub fn state_code(state: DeliveryState) -> i64 {
    match state {
        DeliveryState::Delayed => 0,
        DeliveryState::Ready => 1,
        DeliveryState::Leased => 2,
        DeliveryState::Completed => 3,
        DeliveryState::Dead => 4,
        DeliveryState::Cancelled => 5,
    }
}

/// What a code stands for; `None`: none of this version.
#[must_use]
pub fn state_of(code: i64) -> Option<DeliveryState> {
    Some(match code {
        0 => DeliveryState::Delayed,
        1 => DeliveryState::Ready,
        2 => DeliveryState::Leased,
        3 => DeliveryState::Completed,
        4 => DeliveryState::Dead,
        5 => DeliveryState::Cancelled,
        _ => return None,
    })
}

/// Columns `role`, `parent`, `log` and `start`.
pub type RoleColumns = (i64, Option<u32>, Option<u32>, Option<i64>);

/// A role as columns.
#[must_use]
pub fn role_columns(role: Role) -> RoleColumns {
    match role {
        Role::Queue => (0, None, None, None),
        Role::Topic => (1, None, None, None),
        Role::Partition { topic } => (2, Some(topic.0), None, None),
        Role::Group { topic } => (3, Some(topic.0), None, None),
        Role::Cursor { group, log, start } => (4, Some(group.0), Some(log.0), Some(start.0.cast_signed())),
    }
}

/// What a code stands for; `None`: none of this version.
#[must_use]
pub fn role_of(columns: RoleColumns) -> Option<Role> {
    Some(match columns {
        (0, None, None, None) => Role::Queue,
        (1, None, None, None) => Role::Topic,
        (2, Some(topic), None, None) => Role::Partition { topic: QueueNumber(topic) },
        (3, Some(topic), None, None) => Role::Group { topic: QueueNumber(topic) },
        (4, Some(group), Some(log), Some(start)) => Role::Cursor {
            group: QueueNumber(group),
            log: QueueNumber(log),
            start: LogNumber(start.cast_unsigned()),
        },
        _ => return None,
    })
}

/// Code of a value.
#[must_use]
pub fn data_kind_code(kind: DataKind) -> i64 {
    match kind {
        DataKind::None => 0,
        DataKind::Json => 1,
        DataKind::Text => 2,
        DataKind::Binary => 3,
    }
}

/// What a code stands for; `None`: none of this version.
#[must_use]
pub fn data_kind_of(code: i64) -> Option<DataKind> {
    Some(match code {
        0 => DataKind::None,
        1 => DataKind::Json,
        2 => DataKind::Text,
        3 => DataKind::Binary,
        _ => return None,
    })
}

/// Code of a value.
#[must_use]
pub fn dead_reason_code(reason: DeadReason) -> i64 {
    match reason {
        DeadReason::AttemptsSpent => 0,
        DeadReason::LeasesLost => 1,
        DeadReason::Cancelled => 2,
        DeadReason::Deduplicated => 3,
        DeadReason::QueueDeleted => 4,
        DeadReason::Refused => 5,
    }
}

/// What a code stands for; `None`: none of this version.
#[must_use]
pub fn dead_reason_of(code: i64) -> Option<DeadReason> {
    Some(match code {
        0 => DeadReason::AttemptsSpent,
        1 => DeadReason::LeasesLost,
        2 => DeadReason::Cancelled,
        3 => DeadReason::Deduplicated,
        4 => DeadReason::QueueDeleted,
        5 => DeadReason::Refused,
        _ => return None,
    })
}

/// Code of a value.
#[must_use]
pub fn hold_code(hold: Hold) -> i64 {
    match hold {
        Hold::Granted => 0,
        Hold::Extended => 1,
        Hold::Reserved => 2,
    }
}

/// What a code stands for; `None`: none of this version.
#[must_use]
pub fn hold_of(code: i64) -> Option<Hold> {
    Some(match code {
        0 => Hold::Granted,
        1 => Hold::Extended,
        2 => Hold::Reserved,
        _ => return None,
    })
}
