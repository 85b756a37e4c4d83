//! Apply.
use crate::change::RowKey;
/// Rows that memory lacks; nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs(pub Vec<RowKey>);
