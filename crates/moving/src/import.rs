//! Reads lines and commits their rows into an empty environment.
//!
//! A page is committed when its checksum was right, and with it how far the import is, in a remembered call that no caller can
//! have made. Until the last commit the environment's incarnation is [`Incarnation::IMPORTING`], which nobody serves.

use std::io::{BufRead, Read as _};

use millpond_api::name::EnvironmentName;
use millpond_core::id::{CommitSequence, Incarnation, LeaseGeneration, Sequence};
use millpond_core::remembered::{Remembered, SentIds};
use millpond_core::row::{DedupKey, DedupRow, EnvironmentRow, SecretRow};
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, DeliveryChange, RowKey, Scan};
use millpond_store::{
    Opened, Resolution, RowCounts, RowKind, Store, StoreErrorKind, StoreFactory, StoredRow,
};

use crate::format::{Check, Checksum, Counts, End, Header, LINE_BYTES_MAX, Line, PAGE_ROWS_MAX, VERSION};
use crate::row::RowLine;
use crate::{MoveError, MoveProgress, Moved};

/// The key under which is remembered how far an import is. Callers' keys do not begin with a space.
const KEY: &str = " import";

/// Commits all of an export into an environment of this name, or else of the name that it had. The environment is empty, or one
/// that an import of this very file was broken off in, which then goes on. `progress` is told of rows read, those that were
/// there already among them.
///
/// # Errors
/// The store's; `NotEmpty`, `OtherFile`; what is wrong with the file. What was committed by then stays, for the same file to go on
/// from.
pub fn import(
    from: &mut dyn BufRead,
    into: &dyn StoreFactory,
    environment: Option<&str>,
    progress: &mut dyn FnMut(MoveProgress),
) -> Result<Moved, MoveError> {
    let mut lines = Lines { from, checksum: Checksum::default(), before: String::new(), checked: 0 };
    let header = match lines.next()? {
        Line::MillpondExport(header) if header.version == VERSION => header,
        Line::MillpondExport(header) => {
            return Err(lines.wrong(format!("version {} of the format, expected {VERSION}", header.version)));
        }
        _ => return Err(lines.wrong("an export begins with another line")),
    };
    let name = environment.unwrap_or(&header.environment).to_owned();
    EnvironmentName::parse("environment", &name).map_err(|error| lines.wrong(error.to_string()))?;
    // What the first line says is not acted upon before a checksum was right.
    let mut target = None;
    let mut counts = RowCounts::default();
    let rows_total = header.rows.counts().total();
    let mut page = Page::default();
    let end = loop {
        match lines.next()? {
            Line::Row(line) => {
                let row =
                    line.row().map_err(|field| lines.wrong(format!("{field} is none of this version")))?;
                page.take(row).map_err(|what| lines.wrong(what))?;
            }
            Line::Check(check) => {
                lines.check(&check.sha256)?;
                Target::once(&mut target, into, &name, &header)?.end_page(&lines, &check, &mut page)?;
                page.counts.iter().for_each(|(kind, rows)| counts.add(kind, rows));
                page.counts = RowCounts::default();
                progress(MoveProgress { rows: counts.total(), rows_total });
            }
            Line::End(end) => break end,
            Line::MillpondExport(_) => return Err(lines.wrong("a second export begins")),
        }
    };
    lines.end(&end, counts, &header)?;
    Target::once(&mut target, into, &name, &header)?;
    if let Some(target) = target {
        target.finish()?;
    }
    Ok(Moved { environment: name, counts, lines: lines.checksum.lines, sha256: end.sha256 })
}

/// Rows that wait for their checksum.
#[derive(Default)]
struct Page {
    changes: ChangeSet,
    counts: RowCounts,
    /// The kind of the last row.
    kind: Option<RowKind>,
}

impl Page {
    fn take(&mut self, row: StoredRow) -> Result<(), &'static str> {
        let kind = row.kind();
        if self.counts.total() == PAGE_ROWS_MAX {
            return Err("more rows than one page has stand before it without a checksum");
        }
        if self.kind.is_some_and(|before| before > kind) {
            return Err("rows of this kind stand before those of the last line");
        }
        self.kind = Some(kind);
        self.counts.add(kind, 1);
        let changes = &mut self.changes;
        match row {
            StoredRow::Queue(row, counters) => {
                changes.queues_put.push(*row);
                changes.counters.extend(counters.map(|row| *row));
            }
            StoredRow::Segment(row) => changes.segments_put.push(*row),
            StoredRow::Run(row) => changes.runs_put.push(row),
            StoredRow::Trigger(row) => changes.triggers_put.push(*row),
            StoredRow::Secret(row) => changes.secret = Some(row),
            StoredRow::Dedup(row) => changes.dedup_put.push(*row),
            StoredRow::Chunk(row) => changes.chunks.push(row),
            StoredRow::Upload(row) => changes.uploads_put.push(row),
            StoredRow::Delivery(row, message) => {
                changes.deliveries.push(DeliveryChange::Insert(*row));
                changes.messages.extend(message);
            }
        }
        Ok(())
    }
}

/// The lines of the file, and the checksum of those that were read.
struct Lines<'a> {
    from: &'a mut dyn BufRead,
    checksum: Checksum,
    /// The checksum of what stands before the last line, if that states one.
    before: String,
    /// The last line whose checksum was right.
    checked: u64,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Line, MoveError> {
        let mut line = Vec::new();
        let mut limited = (&mut *self.from).take(LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut line).map_err(MoveError::Read)?;
        if line.is_empty() {
            return Err(MoveError::EndsEarly(self.checksum.lines));
        }
        let whole = line.ends_with(b"\n");
        if !whole {
            let what = match usize_of(LINE_BYTES_MAX) == line.len() {
                true => "it is longer than any line of an export",
                false => "it is torn: the file ends within it",
            };
            return Err(MoveError::Line { line: self.checksum.lines + 1, what: what.to_owned() });
        }
        let parsed = serde_json::from_slice(&line).map_err(|_| MoveError::Line {
            line: self.checksum.lines + 1,
            what: format!("it is no line of an export, altered, or of another version: {}", why_not(&line)),
        })?;
        if matches!(parsed, Line::Check(_) | Line::End(_)) {
            self.before = self.checksum.text();
        }
        self.checksum.take(&line);
        Ok(parsed)
    }

    /// The last line cannot be.
    fn wrong(&self, what: impl Into<String>) -> MoveError {
        MoveError::Line { line: self.checksum.lines, what: what.into() }
    }

    /// The last line states this checksum of what stands before it.
    fn check(&mut self, stated: &str) -> Result<(), MoveError> {
        if self.before != stated {
            return Err(MoveError::Altered { from: self.checked + 1, to: self.checksum.lines });
        }
        self.checked = self.checksum.lines;
        Ok(())
    }

    /// The last line is the end, and says the same as the rest.
    fn end(&mut self, end: &End, counts: RowCounts, header: &Header) -> Result<(), MoveError> {
        self.check(&end.sha256)?;
        if end.lines + 1 != self.checksum.lines || end.rows != Counts::of(&counts) || end.rows != header.rows
        {
            return Err(self.wrong("it counts other lines or rows than there are"));
        }
        let more = self.from.fill_buf().map_err(MoveError::Read)?;
        if more.is_empty() {
            return Ok(());
        }
        Err(MoveError::Line { line: self.checksum.lines + 1, what: "it stands behind the end".to_owned() })
    }
}

/// Why a line is none: what a row lacks, rather than that it is nothing else either.
fn why_not(line: &[u8]) -> String {
    match serde_json::from_slice::<RowLine>(line) {
        Err(error) => error.to_string(),
        Ok(_) => "it is another kind of line".to_owned(),
    }
}

fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The environment that is filled.
struct Target {
    name: String,
    store: Box<dyn Store>,
    commit: CommitSequence,
    /// Its row when the import is finished.
    row: EnvironmentRow,
    /// Behind this line the import goes on, whose checksum was that one; none: it is behind it.
    done: Option<(u64, u128)>,
}

impl Target {
    /// Opens it when it is first needed.
    fn once<'a>(
        target: &'a mut Option<Self>,
        into: &dyn StoreFactory,
        name: &str,
        header: &Header,
    ) -> Result<&'a mut Self, MoveError> {
        match target {
            Some(target) => Ok(target),
            None => Ok(target.insert(Self::open(into, name, header)?)),
        }
    }

    fn open(into: &dyn StoreFactory, name: &str, header: &Header) -> Result<Self, MoveError> {
        let (mut store, opened) = into.open(name)?;
        let moved = header.head().environment;
        let before = &opened.environment;
        let mut row = EnvironmentRow {
            incarnation: moved.incarnation.max(before.incarnation),
            stamp: moved.stamp.max(before.stamp),
            next_sequence: moved.next_sequence.max(before.next_sequence),
            next_queue: moved.next_queue.max(before.next_queue),
            dedup_count: moved.dedup_count,
            // Whoever holds a lease that is found in it holds it of the source.
            leases_void_below: LeaseGeneration::HIGHEST,
        };
        let mut done = None;
        if before.incarnation == Incarnation::IMPORTING {
            let other = |line| MoveError::OtherFile { environment: name.to_owned(), line };
            let marker = marker(store.as_mut())?.ok_or_else(|| other(0))?;
            let Remembered::Sent(sent) = marker.answer else { return Err(other(0)) };
            done = Some((sent.first_sequence.0, marker.digest));
            row.incarnation = moved.incarnation.max(Incarnation(sent.nonce_seed));
        } else if !is_empty(store.as_mut(), &opened)? {
            store.close()?;
            return Err(MoveError::NotEmpty(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), store, commit: opened.commit, row, done })
    }

    /// Commits a page whose checksum was right, unless it is there already.
    fn end_page(&mut self, lines: &Lines<'_>, check: &Check, page: &mut Page) -> Result<(), MoveError> {
        if page.counts.total() != check.rows {
            return Err(lines.wrong("it counts other rows than there are"));
        }
        let changes = std::mem::take(&mut page.changes);
        let line = lines.checksum.lines;
        match self.done {
            Some((done, _)) if line < done => Ok(()),
            Some((done, digest)) if line == done && digest == lines.checksum.digest() => {
                self.done = None;
                Ok(())
            }
            Some((line, _)) => Err(MoveError::OtherFile { environment: self.name.clone(), line }),
            None => self.commit(changes, lines),
        }
    }

    fn commit(&mut self, mut changes: ChangeSet, lines: &Lines<'_>) -> Result<(), MoveError> {
        changes.environment = EnvironmentRow { incarnation: Incarnation::IMPORTING, ..self.row.clone() };
        changes.dedup_put.push(DedupRow {
            key: key(),
            digest: lines.checksum.digest(),
            answer: Remembered::Sent(SentIds {
                sent_at: Timestamp::ZERO,
                first_sequence: Sequence(lines.checksum.lines),
                count: 0,
                nonce_seed: self.row.incarnation.0,
            }),
            expires_at: Timestamp::NEVER,
        });
        self.write(changes)
    }

    /// From this commit on it is an environment like others.
    fn finish(mut self) -> Result<(), MoveError> {
        if let Some((line, _)) = self.done {
            return Err(MoveError::OtherFile { environment: self.name, line });
        }
        let environment = self.row.clone();
        let ending = ChangeSet { environment, dedup_removed: vec![key()], ..ChangeSet::default() };
        match self.write(ending) {
            // Nobody could tell by going on: what is finished is not empty.
            Err(MoveError::Store(error)) if error.kind == StoreErrorKind::Unknown => {
                if self.store.resolve(self.commit.next())? == Resolution::Lost {
                    return Err(error.into());
                }
            }
            result => result?,
        }
        Ok(self.store.close()?)
    }

    fn write(&mut self, changes: ChangeSet) -> Result<(), MoveError> {
        let commit = self.commit.next();
        // What became of a page is found out by the import that goes on.
        self.store.commit(&ChangeSet { commit, ..changes })?;
        self.commit = commit;
        Ok(())
    }
}

fn key() -> DedupKey {
    DedupKey { queue: None, key: KEY.into() }
}

fn marker(store: &mut dyn Store) -> Result<Option<DedupRow>, MoveError> {
    let rows = store.reader()?.read(&[RowKey::Dedup(key())])?;
    Ok(rows.dedup.into_iter().next().and_then(|(_, row)| row))
}

/// Whether there is no row but the environment's own.
fn is_empty(store: &mut dyn Store, opened: &Opened) -> Result<bool, MoveError> {
    let Opened { queues, segments, runs, triggers, secret, .. } = opened;
    let is_bare = queues.is_empty() && segments.is_empty() && runs.is_empty() && triggers.is_empty();
    if !is_bare || *secret != SecretRow::default() {
        return Ok(false);
    }
    let mut reader = store.reader()?;
    let scans = [
        Scan::Expiry { after: None, limit: 1 },
        Scan::DedupExpiry { from: Timestamp::ZERO, limit: 1 },
        Scan::Uploads { after: None, limit: 1 },
    ];
    for scan in scans {
        let page = reader.scan(&scan)?;
        if !page.deliveries.is_empty() || !page.dedup.is_empty() || !page.uploads.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}
