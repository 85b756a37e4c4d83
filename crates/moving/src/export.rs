//! Writes an environment as lines.

use std::io::Write;

use millpond_core::id::Incarnation;
use millpond_core::time::Timestamp;
use millpond_store::{RowCounts, Snapshots};

use crate::format::{Check, Checksum, Counts, End, Header, Line};
use crate::{MoveError, MoveProgress, Moved};

/// Who makes an export, and when.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The program and its version.
    pub made_by: &'a str,
    /// When.
    pub made_at: Timestamp,
}

/// Writes all of an environment to `to`, which is flushed but made durable by nobody here.
///
/// # Errors
/// The store's; `Write`; `Miscounted`; `Unfinished`: an import into the environment was broken off.
pub fn export(
    from: &dyn Snapshots,
    environment: &str,
    origin: Origin<'_>,
    to: &mut dyn Write,
    progress: &mut dyn FnMut(MoveProgress),
) -> Result<Moved, MoveError> {
    let mut snapshot = from.snapshot(environment)?;
    let head = snapshot.head().clone();
    if head.environment.incarnation == Incarnation::IMPORTING {
        return Err(MoveError::Unfinished(environment.to_owned()));
    }
    let rows_total = head.counts.total();
    let mut lines = Lines { to, checksum: Checksum::default() };
    let header = Header::new(environment, &head, origin.made_by, origin.made_at);
    lines.write(&Line::MillpondExport(header))?;
    let mut counts = RowCounts::default();
    loop {
        let page = snapshot.next_page()?;
        if page.is_empty() {
            break;
        }
        let mut rows = 0;
        for row in page {
            counts.add(row.kind(), 1);
            rows += 1;
            lines.write(&Line::Row(row.into()))?;
        }
        let sha256 = lines.checksum.text();
        lines.write(&Line::Check(Check { rows, sha256 }))?;
        progress(MoveProgress { rows: counts.total(), rows_total });
    }
    if counts != head.counts {
        let (rows, counted) = (counts.total(), rows_total);
        return Err(MoveError::Miscounted { environment: environment.to_owned(), rows, counted });
    }
    let sha256 = lines.checksum.text();
    let end = End { lines: lines.checksum.lines, rows: Counts::of(&counts), sha256: sha256.clone() };
    lines.write(&Line::End(end))?;
    lines.to.flush().map_err(MoveError::Write)?;
    Ok(Moved { environment: environment.to_owned(), counts, lines: lines.checksum.lines, sha256 })
}

struct Lines<'a> {
    to: &'a mut dyn Write,
    checksum: Checksum,
}

impl Lines<'_> {
    fn write(&mut self, line: &Line) -> Result<(), MoveError> {
        let written = serde_json::to_vec(line).map_err(std::io::Error::from);
        let mut bytes = written.map_err(MoveError::Write)?;
        bytes.push(b'\n');
        self.checksum.take(&bytes);
        self.to.write_all(&bytes).map_err(MoveError::Write)
    }
}
