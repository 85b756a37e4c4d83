//! Nothing is lost when `millpond work` is killed: at moments chosen by what its commands have written into a journal, again
//! and again, until a last worker drains the queue.
//!
//! `MILLPOND_KILLS` sets how often (20), `MILLPOND_SEED` chooses the moments.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use millpond_blackbox::binary;
use millpond_blackbox::client::{Counts, event};
use millpond_blackbox::random::{Random, seed};
use millpond_blackbox::server::{Launch, Server};
use serde_json::json;

const QUEUE: &str = "work";
const KILLS: u64 = 20;
const MESSAGES_PER_KILL: u64 = 15;
const CONCURRENCY: &str = "4";

#[test]
fn every_message_is_worked_on_however_often_the_worker_is_killed() {
    let kills = std::env::var("MILLPOND_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let seed = seed();
    eprintln!("MILLPOND_SEED={seed} MILLPOND_KILLS={kills}");
    let mut random = Random::new(seed);
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(&directory.path().join("data")).start();
    let mut client = server.client();
    let spec = json!({"visibility_timeout": "1s", "max_deliveries": 100});
    client.create_queue(QUEUE, spec).expect("the queue is made");
    let mut sent = HashSet::new();
    for call in 0..kills {
        let events: Vec<_> =
            (0..MESSAGES_PER_KILL).map(|number| event(&format!("{call}-{number}"), "x")).collect();
        sent.extend(client.send(QUEUE, &events, None).expect("it is sent"));
    }

    let mut journal = Journal::new(directory.path());
    for _ in 0..kills {
        let mut worker = journal.work(&server, &[]);
        // From the first command's first line on, and far into the run.
        journal.wait_for(1 + random.below(2 * MESSAGES_PER_KILL - 1));
        worker.kill().expect("it can be killed");
        let status = worker.wait().expect("it can be waited for");
        assert!(!status.success(), "it ended before it was killed");
    }
    let mut last = journal.work(&server, &["--drain"]);
    journal.wait_for_all(&sent);
    let status = last.wait().expect("it can be waited for");
    assert_eq!(status.code(), Some(0), "MILLPOND_SEED={seed} MILLPOND_KILLS={kills}");
    assert_eq!(
        client.counts(QUEUE).expect("counts"),
        Counts::default(),
        "nothing is left, and nothing is dead"
    );

    let begun: u64 = journal.begun.values().sum();
    eprintln!("{} messages, begun {begun} times", sent.len());
    assert!(begun > sent.len() as u64, "no kill met a command at work");
    server.stop();
}

/// What commands write: `begun ID` and `done ID`, into a pipe that outlives every worker.
struct Journal {
    pipe: std::path::PathBuf,
    lines: BufReader<File>,
    begun: HashMap<String, u64>,
    done: HashSet<String>,
}

impl Journal {
    fn new(directory: &Path) -> Self {
        let pipe = directory.join("journal");
        let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo can be run");
        assert!(made.success());
        // Open for both, it has never an end, and commands that outlive their worker find it open.
        let file = File::options().read(true).write(true).open(&pipe).expect("it can be opened");
        Self { pipe, lines: BufReader::new(file), begun: HashMap::new(), done: HashSet::new() }
    }

    /// A worker whose commands write here.
    fn work(&self, server: &Server, more: &[&str]) -> Child {
        let pipe = self.pipe.display();
        let exec = format!(
            "echo begun $MILLPOND_MESSAGE_ID >> {pipe}; cat > /dev/null; echo done $MILLPOND_MESSAGE_ID >> {pipe}"
        );
        Command::new(binary::millpond())
            .args(["work", QUEUE, "--concurrency", CONCURRENCY, "--exec", &exec])
            .args(more)
            .env("MILLPOND_URL", format!("http://{}", server.address()))
            .stdin(Stdio::null())
            .spawn()
            .expect("the worker can be run")
    }

    /// Reads so many lines.
    fn wait_for(&mut self, count: u64) {
        for _ in 0..count {
            self.read_line();
        }
    }

    /// Reads until every message is done.
    fn wait_for_all(&mut self, messages: &HashSet<String>) {
        while !messages.is_subset(&self.done) {
            self.read_line();
        }
    }

    fn read_line(&mut self) {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the journal can be read");
        match line.trim_end().split_once(' ') {
            Some(("begun", id)) => *self.begun.entry(id.to_owned()).or_default() += 1,
            Some(("done", id)) => drop(self.done.insert(id.to_owned())),
            _ => panic!("not a line of the journal: {line:?}"),
        }
    }
}
