//! The system calls of a server under strace.
//!
//! strace holds a thread at the entry and at the exit of each call until it has written the line, so the order of lines
//! is an order that can have happened: what one call caused is below it. `-D` makes the server, not strace, our child.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Calls that receive requests, flush, and send answers.
const CALLS: &str = "trace=read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,fsync,fdatasync";

/// Enough of each buffer to see a whole request.
const BUFFER_BYTES: &str = "4096";

/// The words before the server's command; the trace goes to `output`.
///
/// # Panics
/// There is no strace: then nothing is shown, which must not look like a success.
pub fn wrapper(output: &Path) -> Vec<OsString> {
    let found = Command::new("strace").arg("-V").output();
    assert!(found.is_ok_and(|found| found.status.success()), "strace is missing: apt-get install strace");
    let words =
        ["strace", "-D", "-f", "-qq", "-y", "-e", CALLS, "-e", "signal=none", "-s", BUFFER_BYTES, "-o"];
    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
    words.push(output.into());
    words
}

/// One end of a call: its entry, its exit, or both at once where nothing came between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The thread.
    pub thread: u32,
    /// The name of the call.
    pub call: String,
    /// The arguments as strace shows them, whole from the exit on.
    pub arguments: String,
    /// This is its entry.
    pub enters: bool,
    /// This is its exit, with this result.
    pub result: Option<i64>,
}

impl Step {
    /// A flush of a write-ahead log.
    pub fn flushes_log(&self) -> bool {
        matches!(self.call.as_str(), "fsync" | "fdatasync") && self.arguments.contains("-wal>")
    }

    /// The end of a call that received bytes.
    pub fn received(&self) -> bool {
        self.result.is_some_and(|bytes| bytes > 0)
            && matches!(self.call.as_str(), "read" | "readv" | "recvfrom" | "recvmsg")
    }

    /// The begin of a call that sends bytes.
    pub fn sends(&self) -> bool {
        self.enters && matches!(self.call.as_str(), "write" | "writev" | "sendto" | "sendmsg")
    }
}

/// Reads a trace.
pub fn parse(text: &str) -> Vec<Step> {
    let mut unfinished: Vec<(u32, String)> = Vec::new();
    let mut steps = Vec::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Ok(thread) = thread.parse() else { continue };
        let rest = rest.trim_start();
        if let Some(begin) = rest.strip_suffix("<unfinished ...>") {
            steps.extend(step(thread, begin, true, None));
            unfinished.push((thread, begin.trim_end().to_owned()));
        } else if let Some((_, end)) =
            rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"))
        {
            let Some(index) = unfinished.iter().position(|(other, _)| *other == thread) else { continue };
            let (_, begin) = unfinished.swap_remove(index);
            steps.extend(step(thread, &format!("{begin}{end}"), false, result(end)));
        } else {
            steps.extend(step(thread, rest, true, result(rest)));
        }
    }
    steps
}

fn step(thread: u32, text: &str, enters: bool, result: Option<i64>) -> Option<Step> {
    let (call, arguments) = text.split_once('(')?;
    Some(Step { thread, call: call.to_owned(), arguments: arguments.to_owned(), enters, result })
}

fn result(text: &str) -> Option<i64> {
    let (_, result) = text.rsplit_once(" = ")?;
    result.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_interrupted_calls_are_read() {
        let text = concat!(
            "7  recvfrom(9<socket:[1]>, \"POST\", 8192, 0, NULL, NULL) = 4\n",
            "8  fdatasync(5</d/a.sqlite-wal> <unfinished ...>\n",
            "7  recvfrom(9<socket:[1]>, 0x1, 8192, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)\n",
            "8  <... fdatasync resumed>)        = 0\n",
            "7  sendto(9<socket:[1]>, \"HTTP/1.1 200 OK\", 15, MSG_NOSIGNAL, NULL, 0) = 15\n",
        );
        let steps = parse(text);
        assert_eq!(steps.len(), 5);
        assert!(steps[0].received() && !steps[2].received());
        assert!(steps[1].flushes_log() && steps[1].enters && steps[1].result.is_none());
        assert!(steps[3].flushes_log() && !steps[3].enters && steps[3].result == Some(0));
        assert!(steps[4].sends());
    }
}
