//! The log, on stderr. That it cannot be written must not stop what it tells of.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::serve_arguments::LogFormat;

/// Starts the log.
pub(crate) fn start(filter: EnvFilter, format: LogFormat) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lossy(io::stderr()))
        // Its errors would be told on stderr as well, by a panic if that fails.
        .log_internal_errors(false);
    match format {
        // Fields where a reader looks for them; the request that a line belongs to is in `span`.
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).init(),
        LogFormat::Text => log.init(),
    }
}

/// Drops what cannot be written.
struct Lossy<W>(W);

impl<W: Write> Write for Lossy<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A pipe that nobody reads, a full disk: there is no other place to say so.
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_fails_is_not_noticed() {
        struct Broken;

        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }

        let mut lossy = Lossy(Broken);
        assert_eq!(lossy.write(b"line").ok(), Some(4));
        assert!(lossy.flush().is_ok());
    }
}
