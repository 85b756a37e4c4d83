//! Values as stores that keep columns write them: codes, and JSON text.

mod answer;
mod codes;
mod live;
mod spec;

pub use answer::{answer_from_text, answer_to_text};
pub use codes::{
    RoleColumns, data_kind_code, data_kind_of, dead_reason_code, dead_reason_of, hold_code, hold_of,
    role_columns, role_of, state_code, state_of,
};
pub use live::{LIVE_BYTES, live_from_bytes, live_to_bytes};
pub use spec::{queue_spec_from_text, queue_spec_to_text, trigger_spec_from_text, trigger_spec_to_text};
