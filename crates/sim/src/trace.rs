//! The history of a world, line by line, kept only when somebody will read it.

use millpond_core::row::DeliveryRow;
use millpond_core::{ChangeSet, DeliveryChange};

/// Lines of what happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that keeps its lines.
    #[must_use]
    pub fn recording() -> Self {
        Self { lines: Some(Vec::new()) }
    }

    /// Notes a line; it is only made if it is kept.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }

    /// Notes a commit with the deliveries that it changes.
    pub fn note_commit(&mut self, changes: &ChangeSet) {
        self.note(|| format!("commit {} of {} rows", changes.commit, changes.row_count()));
        for change in &changes.deliveries {
            self.note(|| match change {
                DeliveryChange::Insert(row) => format!("  insert {}", show(row)),
                DeliveryChange::Update(row) => format!("  update {}", show(row)),
                DeliveryChange::Remove(sequence) => format!("  remove {sequence}"),
            });
        }
    }

    /// All lines.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}

/// A delivery in one line.
#[must_use]
pub fn show(row: &DeliveryRow) -> String {
    format!(
        "{} {} queue={} {:?} generation={} deliveries={} failures={} lost={} due={} expires={}",
        row.sequence,
        row.message_id(),
        row.queue,
        row.state,
        row.lease_generation,
        row.delivery_count,
        row.failure_count,
        row.lost_lease_count,
        row.due_at.as_millis(),
        row.expires_at.as_millis()
    )
}
