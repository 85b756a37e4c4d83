//! A server process with its own port and directory; both end with it.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use millpond_load::Processes;
use rustix::process::{Pid, Signal, kill_process_group};

/// How long a server may take until it can be used.
const READY_MAX: Duration = Duration::from_secs(90);
const TRY_EVERY: Duration = Duration::from_millis(100);

/// A server in a process group of its own. Dropped, all of the group is killed.
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts it; what it says goes to a file of this name in `directory`.
    pub(crate) fn start(mut command: Command, directory: &Path, log: &str) -> anyhow::Result<Self> {
        let log = File::create(directory.join(log))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        Ok(Self { child })
    }

    pub(crate) fn processes(&self) -> Processes {
        Processes::Group(self.child.id())
    }

    /// Tries `attempt` until it succeeds.
    pub(crate) async fn wait_for<T, F>(&mut self, mut attempt: impl FnMut() -> F) -> anyhow::Result<T>
    where
        F: Future<Output = anyhow::Result<T>>,
    {
        let end = tokio::time::Instant::now() + READY_MAX;
        loop {
            let error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended, {status}: {error:#}");
            }
            if tokio::time::Instant::now() > end {
                return Err(error.context(format!("the server was not ready after {READY_MAX:?}")));
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What has ended need not be killed.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A port of 127.0.0.1 that was free a moment ago.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The first line that a command prints.
pub(crate) fn first_line(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let text =
        String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout });
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
