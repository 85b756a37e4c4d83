//! A server process. Nothing here sleeps: what it writes to its log says that it is ready, and the end of the log's pipe
//! that the last of its processes is gone.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// What it says once it takes connections.
pub(crate) const READY: &str = "database system is ready to accept connections";
/// What a standby says once it takes those that only read.
pub(crate) const READY_TO_READ: &str = "database system is ready to accept read-only connections";

/// A running server: the process that listens, and the children that it has.
#[derive(Debug)]
pub(crate) struct Postmaster {
    process: Child,
    log: Option<JoinHandle<io::Result<()>>>,
}

impl Postmaster {
    /// Starts the server and waits until it says that it is ready; its log is appended to a file.
    pub(crate) fn start(command: &mut Command, log: &Path, phrase: &str) -> anyhow::Result<Self> {
        let file =
            File::options().create(true).append(true).open(log).context("the log cannot be written")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // An interrupt at a terminal is for the tests; the guard ends the server then.
        command.process_group(0);
        let mut process = command.spawn().with_context(|| format!("{command:?} cannot be run"))?;
        let lines = process.stderr.take().context("stderr is a pipe")?;
        let (ready, until_ready) = mpsc::channel();
        let phrase = phrase.to_owned();
        let log = std::thread::spawn(move || keep(lines, file, &phrase, &ready));
        let mut own = Self { process, log: Some(log) };
        // Without a sender left the log has ended, and so has the server.
        if until_ready.recv().is_err() {
            own.wait()?;
            bail!("the server has ended before it was ready");
        }
        Ok(own)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops it as fast as it can be done in order: connections are cut, what is under way is rolled back.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::INT).context("it cannot be stopped")?;
        self.wait()
    }

    /// SIGKILL for all of its processes, and waits for their end.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        let own = Pid::from_child(&self.process);
        // First of all it must not have further children, nor tell those that it has. It may be in the middle of a fork: a child
        // that is overlooked would wait for ever for what the others held.
        kill_process(own, Signal::STOP).context("it cannot be stopped")?;
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(own), stopped).context("it cannot be waited for")?;
        for child in children(self.process.id())? {
            // One that has just ended is as good.
            let _: Result<(), rustix::io::Errno> = kill_process(child, Signal::KILL);
        }
        kill_process(own, Signal::KILL).context("it cannot be killed")?;
        self.wait()
    }

    /// Waits for the end of all of its processes.
    pub(crate) fn wait(&mut self) -> anyhow::Result<()> {
        self.process.wait().context("it cannot be waited for")?;
        match self.log.take().map(JoinHandle::join) {
            Some(Ok(kept)) => kept.context("the log cannot be written"),
            Some(Err(_)) => bail!("the thread of the log has panicked"),
            None => Ok(()),
        }
    }
}

/// Writes down what the server says, and tells when it is ready, once.
fn keep(lines: ChildStderr, mut file: File, phrase: &str, ready: &Sender<()>) -> io::Result<()> {
    for line in BufReader::new(lines).split(b'\n') {
        let line = line?;
        file.write_all(&[&line, b"\n".as_slice()].concat())?;
        if line.ends_with(phrase.as_bytes()) {
            // Nobody waits the second time: a server starts again by itself after one of its processes crashed.
            let _: Result<(), mpsc::SendError<()>> = ready.send(());
        }
    }
    Ok(())
}

/// The processes whose parent is this one.
fn children(parent: u32) -> anyhow::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc cannot be read")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // The name in front of the fields may hold anything.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let of = stat.rsplit(')').next().and_then(|fields| fields.split_ascii_whitespace().nth(1));
        if of.and_then(|of| of.parse().ok()) == Some(parent) {
            found.extend(Pid::from_raw(id));
        }
    }
    Ok(found)
}
