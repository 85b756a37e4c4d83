//! A server process: started on the store that tests run on, ready once it says so, killed or asked to stop, and started again.
//!
//! Nothing here sleeps: the ready line, the end of a pipe and the exit of the process are the signals.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use crate::binary;
use crate::client::Client;
use crate::http::{Connection, Request};
use crate::store::Store;

const READY: &str = "listening on http://";

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    /// What the program is run by, such as strace.
    wrapper: Vec<OsString>,
    store: Store,
    listen: String,
    arguments: Vec<OsString>,
}

impl Launch {
    /// The product on any free port, and on the store that tests run on: this data directory, or what stands for it.
    pub fn of(data_dir: &Path) -> Self {
        Self::on(Store::of(data_dir))
    }

    /// The product on a data directory and any free port, for tests that are about its files.
    ///
    /// # Panics
    /// The tests run on another store, where this one has to be left out.
    #[track_caller]
    pub fn on_files(data_dir: &Path) -> Self {
        Self::on(Store::files(data_dir))
    }

    /// The product on a schema of a database and any free port, for tests that are about PostgreSQL: whatever store the others
    /// run on.
    pub fn on_database(url: &str, schema: &str) -> Self {
        Self::on(Store::Schema { url: url.to_owned(), name: schema.to_owned() })
    }

    fn on(store: Store) -> Self {
        Self {
            program: binary::millpond(),
            wrapper: Vec::new(),
            store,
            listen: "127.0.0.1:0".to_owned(),
            arguments: Vec::new(),
        }
    }

    /// Another program with the same command line.
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Another address.
    pub fn listen(mut self, listen: &str) -> Self {
        listen.clone_into(&mut self.listen);
        self
    }

    /// A further argument.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Run by another command, which has to become the server or be its parent's child only (`strace -D`, `exec`).
    pub fn run_by<S: AsRef<OsStr>>(mut self, wrapper: &[S]) -> Self {
        self.wrapper = wrapper.iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    fn command(&self) -> Command {
        let mut words = self.wrapper.iter();
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.arg("serve").arg("--listen").arg(&self.listen).args(self.store.arguments());
        // What the caller's shell sets must not change what is tested.
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.as_encoded_bytes().starts_with(b"MILLPOND_")) {
            command.env_remove(name);
        }
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// It ends instead.
    pub fn start(&self) -> Server {
        let mut child = self.command().spawn().expect("the server can be run");
        let mut stderr = child.stderr.take().expect("stderr is a pipe");
        let log = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _: std::io::Result<usize> = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("stdout can be read");
        let Some(address) = line.trim_end().strip_prefix(READY).and_then(|address| address.parse().ok())
        else {
            let status = child.wait().expect("it can be waited for");
            let log = log.join().expect("stderr can be read");
            panic!("the server said {line:?} and not that it is ready, {status}: {log}");
        };
        Server { child, address, stdout, log: Some(log) }
    }

    /// Runs it to its end, which is expected to come by itself.
    pub fn run(&self) -> Output {
        self.command().output().expect("the server can be run")
    }
}

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    stdout: BufReader<ChildStdout>,
    log: Option<JoinHandle<String>>,
}

/// How a server ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code, or the signal.
    pub status: ExitStatus,
    /// What it wrote to stderr.
    pub log: String,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it ever had, in bytes (VmHWM).
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel says");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }

    /// A client of its own connection.
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Waits until the server has read all that a connection sent: then a long poll waits, or is about to.
    ///
    /// The kernel tells how much lies unread; each look at it lets the server run.
    pub fn wait_until_read(&self, connection: &Connection) {
        let client = connection.local_address().expect("it is connected");
        let pair = format!(" {} {} ", hex(self.address), hex(client));
        loop {
            let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc/net/tcp can be read");
            let line = table.lines().find(|line| line.contains(&pair)).expect("the connection is there");
            let queues = line.split_ascii_whitespace().nth(4).expect("the queues");
            if queues.ends_with(":00000000") {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("it can be killed");
        let ended = self.wait();
        assert_eq!(ended.status.signal(), Some(9), "it ended before it was killed: {}", ended.log);
        ended
    }

    /// SIGTERM, and waits for the end, which has to be exit code 0.
    pub fn stop(mut self) -> Ended {
        self.signal_stop();
        let ended = self.wait();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
        ended
    }

    /// SIGTERM.
    pub fn signal_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// A signal.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).expect("it can be signalled");
    }

    /// Waits for the end of the process and of all that holds its pipes.
    pub fn wait(&mut self) -> Ended {
        let status = self.child.wait().expect("it can be waited for");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("stdout can be read");
        assert_eq!(rest, "", "stdout holds the ready line and nothing else");
        let log = self.log.take().expect("it is waited for once").join().expect("stderr can be read");
        Ended { status, log }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let fails = std::thread::panicking() && self.log.is_some();
        let report = fails.then(|| self.report());
        // It may have ended, and then there is nothing to kill.
        let _: std::io::Result<()> = self.child.kill();
        let _: std::io::Result<ExitStatus> = self.child.wait();
        if let (Some(report), Some(Ok(log))) = (report, self.log.take().map(JoinHandle::join)) {
            eprintln!("the server when the test failed: {report}; its log: {log}");
        }
    }
}

impl Server {
    /// How it is, for a test that fails.
    fn report(&mut self) -> String {
        match self.child.try_wait() {
            Ok(Some(status)) => format!("it had ended, {status}"),
            Ok(None) => {
                let request = Request { method: "GET", target: "/healthz", headers: &[], body: &[] };
                let health = Connection::open(self.address).and_then(|mut own| own.exchange(&request));
                format!("it ran on {}, health {:?}", self.address, health.map(|response| response.status))
            }
            Err(error) => format!("not known: {error}"),
        }
    }
}

/// An address as the kernel's tables show it.
fn hex(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("an IPv4 address") };
    format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port())
}
