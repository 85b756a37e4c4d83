//! `:purge`: which messages leave.

use crate::input_error::InputError;
use crate::reader::Node;
use crate::writer;

/// Fields of the call.
pub(crate) const PURGE_NAMES: &[&str] = &["target"];
/// Words of `target`.
pub(crate) const TARGETS: [(&str, PurgeTarget); 3] = [
    ("all", PurgeTarget::All),
    ("dead_letters", PurgeTarget::DeadLetters),
    ("waiting", PurgeTarget::Waiting),
];

/// Which messages a purge removes. Leased ones stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PurgeTarget {
    /// Ready, delayed and dead ones.
    All,
    /// Those in the queue's own dead-letter set.
    DeadLetters,
    /// Ready and delayed ones.
    #[default]
    Waiting,
}

/// What `:purge` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Which messages leave.
    pub target: PurgeTarget,
}

impl PurgeRequest {
    /// Reads a body. No body at all purges what waits.
    pub fn parse(body: &[u8]) -> Result<PurgeRequest, InputError> {
        let root = Node::optional_root(body)?;
        let mut object = root.object(PURGE_NAMES)?;
        let target = object.optional("target", |node| node.word(&TARGETS))?;
        Ok(PurgeRequest { target: target.unwrap_or_default() })
    }
}

/// The answer: how many left.
pub fn render_purged(count: u64) -> String {
    let mut out = String::from("{");
    writer::push_text_field(&mut out, "purged_count", &count.to_string());
    out.push('}');
    out
}
