//! Runs the binary: a server that is up, or a run that ends by itself.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A server that does not answer for so long has failed.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// `millpond` without settings of the surroundings.
pub(crate) fn millpond() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    let ours = |name: &str| name.starts_with("MILLPOND_") || name == "RUST_LOG";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// A run that ends by itself.
pub(crate) fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("the binary runs")
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("utf-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What it printed; it must have done what it was asked for.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// Its stderr; it must have failed so, and said what to do.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("millpond: "), "{}", self.stderr);
        self.stderr
    }
}

/// A server that is up; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(directory: &Path) -> Self {
        Self::start_by(millpond().args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory))
    }

    pub(crate) fn start_by(command: &mut Command) -> Self {
        Self::start_with_stderr(command, Stdio::piped())
    }

    pub(crate) fn start_with_stderr(command: &mut Command, stderr: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let Some(address) = line.trim_end().strip_prefix("listening on http://") else {
            panic!("{line:?}: {}", rest(child.stderr.take()));
        };
        Self { address: address.to_owned(), child }
    }

    /// `millpond` with this server in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = millpond();
        command.args(arguments).env("MILLPOND_URL", format!("http://{}", self.address));
        command
    }

    /// A command on this server, without a terminal.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(run(&mut self.command(arguments)))
    }

    /// A command on this server that is given some input.
    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = child.stdin.take().expect("it is piped");
        let input = input.to_owned();
        // What it writes has to be read meanwhile.
        let writer = std::thread::spawn(move || {
            // It may refuse what comes first and not read the rest.
            let _: std::io::Result<()> = stdin.write_all(input.as_bytes());
        });
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("no panic");
        Ran::of(output)
    }

    /// A command on this server that must succeed, in JSON: its lines, checked against the schema of the command.
    #[track_caller]
    pub(crate) fn json(&self, command: &str, arguments: &[&str]) -> Vec<Value> {
        // One command has a name of two words.
        let mut all: Vec<&str> = match command.strip_prefix("signing-secret-") {
            Some(verb) => vec!["signing-secret", verb],
            None => command.split('-').collect(),
        };
        all.extend_from_slice(arguments);
        all.push("--json");
        crate::schema::check(command, &self.run(&all).done())
    }

    /// As [`Server::json`], for a command that prints one object.
    #[track_caller]
    pub(crate) fn json_one(&self, command: &str, arguments: &[&str]) -> Value {
        let mut lines = self.json(command, arguments);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        lines.remove(0)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(ANSWER_MAX)).expect("it is set");
        stream
    }

    /// Writes a POST of JSON.
    pub(crate) fn begin_post(&self, path: &str, body: &Value) -> TcpStream {
        let body = body.to_string();
        let mut stream = self.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("written");
        stream
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        answer(self.begin_get(path))
    }

    /// What `/metrics` shows for this metric with its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (status, page) = answer_text(self.begin_get("/metrics"));
        assert_eq!(status, 200, "{page}");
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().expect("a number")
    }

    fn begin_get(&self, path: &str) -> TcpStream {
        let mut stream = self.connect();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).expect("written");
        stream
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.begin_post(path, body))
    }

    pub(crate) fn signal(&self, signal: i32) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // Safety: the process is ours, has not been waited for, and so has its id still.
        #[allow(unsafe_code)]
        let sent = unsafe { libc::kill(id, signal) };
        assert_eq!(sent, 0, "it can be signalled");
    }

    /// How it ended, and what it wrote to stderr, if that was piped.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        (status, rest(self.child.stderr.take()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; there is nothing to do about it then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rest(stderr: Option<ChildStderr>) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = stderr {
        stderr.read_to_string(&mut text).expect("utf-8");
    }
    text
}

/// Reads an answer to its end: status and JSON.
pub(crate) fn answer(stream: TcpStream) -> (u16, Value) {
    let (status, body) = answer_text(stream);
    (status, serde_json::from_str(&body).expect("json"))
}

fn answer_text(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, body.to_owned())
}
