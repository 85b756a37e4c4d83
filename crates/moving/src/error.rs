//! Why something could not be moved.

use millpond_store::StoreError;

/// Why an export or an import did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// A checksum is not that of what stands before it.
    #[error("lines {from} to {to} are not as they were written: their checksum is another")]
    Altered {
        /// The first line that may be another.
        from: u64,
        /// The line of the checksum.
        to: u64,
    },
    /// The file ends where it must not.
    #[error("the file ends behind line {0}, before the end of the export: the rest of it is missing")]
    EndsEarly(u64),
    /// A line cannot be what was written.
    #[error("line {line}: {what}")]
    Line {
        /// Which one, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The target holds something.
    #[error("environment {0} is not empty")]
    NotEmpty(String),
    /// The target waits for the rest of another file.
    #[error("line {line}: an import into {environment} was broken off, and it was of another file")]
    OtherFile {
        /// The target.
        environment: String,
        /// The line behind which that import stopped.
        line: u64,
    },
    /// The environment has other rows than it counts.
    #[error("environment {environment} has {rows} rows where it counts {counted}: it is damaged")]
    Miscounted {
        /// Which one.
        environment: String,
        /// Rows that were read.
        rows: u64,
        /// Rows that were counted before.
        counted: u64,
    },
    /// Reading the file failed.
    #[error("reading the file")]
    Read(#[source] std::io::Error),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The source waits for the rest of an import.
    #[error("an import into {0} was broken off: finish it first")]
    Unfinished(String),
    /// Writing the file failed.
    #[error("writing the file")]
    Write(#[source] std::io::Error),
}
