//! What cleans up: a process that waits for the end of this one, be it a crash or SIGKILL, then ends the server and removes
//! its directory. It notices by a pipe that only this process can write to.
//!
//! A signal at the parent's death (PDEATHSIG) would not do: it comes when the thread ends that started the child, and tests
//! are threads; and changing the user takes it away.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The server is known by its data directory, which is one of its arguments. Its own children call themselves something
/// else, and end with it. A process that has ended has no arguments, even if nobody has waited for it. What is printed
/// counts, and not the exit code: that is an error's if any process ends while it is looked at.
const SCRIPT: &str = r#"
cat > /dev/null
while found=$(printf %s "$GUARDED_DATA" | grep -Fzlxs -f - /proc/[0-9]*/cmdline); [ -n "$found" ]; do
    for process in $found; do
        process=${process#/proc/}
        kill -QUIT "${process%/cmdline}"
    done
    sleep 0.05
done
rm -rf "$GUARDED_DIRECTORY"
"#;

/// Dropped, it lets the guard do its work and waits for that.
#[derive(Debug)]
pub(crate) struct Guard {
    process: Child,
}

impl Guard {
    /// Guards what runs on one of `data`, which are below `directory`.
    pub(crate) fn start(directory: &Path, data: &[PathBuf]) -> io::Result<Self> {
        let mut command = Command::new("sh");
        let data = data.iter().map(|path| path.as_os_str()).collect::<Vec<_>>().join(OsStr::new("\n"));
        command.args(["-c", SCRIPT]).env("GUARDED_DATA", data).env("GUARDED_DIRECTORY", directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Who interrupts the tests at a terminal, or kills all their processes, does not mean the guard.
        command.process_group(0);
        Ok(Self { process: command.spawn()? })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        if let Err(error) = self.process.wait() {
            eprintln!("the guard of a PostgreSQL cannot be waited for: {error}");
        }
    }
}
