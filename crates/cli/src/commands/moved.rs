//! What `export` and `import` tell: the same, so that the two can be compared.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use millpond_moving::{MoveError, Moved};
use millpond_store::RowKind;
use serde::Serialize;

use super::offline::Place;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, fields};

/// An environment that was moved.
#[derive(Serialize)]
struct Told {
    environment: String,
    file: String,
    lines: String,
    rows: BTreeMap<&'static str, String>,
    sha256: String,
}

pub(super) fn show(format: Format, file: &Path, moved: &Moved) -> Outcome {
    let rows = moved.counts.iter().map(|(kind, count)| (kind.word(), count.to_string()));
    let told = Told {
        environment: moved.environment.clone(),
        file: file.display().to_string(),
        lines: moved.lines.to_string(),
        rows: rows.collect(),
        sha256: moved.sha256.clone(),
    };
    format.show(&told, || {
        let count = |kind| moved.counts.of(kind).to_string();
        fields(&[
            ("environment", told.environment.clone()),
            ("file", told.file.clone()),
            ("queues", count(RowKind::Queue)),
            ("deliveries", count(RowKind::Delivery)),
            ("rows", moved.counts.total().to_string()),
            ("sha256", told.sha256.clone()),
        ])
    })?;
    Ok(Exit::Done)
}

/// `what` completes "cannot".
pub(super) fn failure(what: &str, place: &Place, error: &MoveError) -> Failure {
    let why = match error {
        MoveError::Store(error) => return place.failure(what, error),
        MoveError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => return Failure::unread(),
        MoveError::Read(cause) | MoveError::Write(cause) => format!("{error}: {cause}"),
        other => other.to_string(),
    };
    let failure = Failure::new(Exit::Refused, format!("cannot {what}"), why);
    match error {
        MoveError::Altered { .. } | MoveError::EndsEarly(_) | MoveError::Line { .. } => failure.advise(
            "export again, or copy the file again; run with the whole file, the import goes on where it stopped",
        ),
        MoveError::NotEmpty(_) => {
            failure.advise(
                "name another environment with --environment, or another place; if an import of this file lost its last answer, all of \
                 it may be there: compare counts first",
            )
        }
        MoveError::OtherFile { .. } => {
            failure.advise("go on with the file that it was begun with, or import into another environment")
        }
        MoveError::Unfinished(_) => {
            failure.advise("`millpond import` of the file that it was begun with goes on with it")
        }
        _ => failure.advise("try again; an import goes on where it stopped"),
    }
}
