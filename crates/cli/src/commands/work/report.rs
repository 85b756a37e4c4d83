//! What `work` tells while it works: a line of JSON for each message that is settled, or what went wrong and a bar.
//!
//! A thread of its own writes it: whoever reads may be slow or have stopped, and leases are extended all the same. What it has
//! not written yet is bounded: no command begins before there is room for what will be told of its message.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use millpond_client::{CancellationToken, WorkerEvent};
use serde::Serialize;
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::sync::oneshot;

use crate::commands::reader::Reader;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{print_json, tell};
use crate::progress;

/// So many things can be told ahead of whoever reads.
const AHEAD: usize = 1_000;

/// One line of `--json`.
#[derive(Serialize)]
struct Line {
    message_id: String,
    outcome: &'static str,
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What the thread is given.
enum Item {
    /// So many messages are to be done.
    Expect(u64),
    /// A message is settled.
    Settled {
        line: Line,
        said: Option<String>,
    },
    Said(String),
    /// It is all told when this is answered.
    End(Option<String>, oneshot::Sender<()>),
}

pub(super) struct Report {
    reader: Reader,
    items: mpsc::Sender<Item>,
    /// Ends the work.
    stop: CancellationToken,
    state: Mutex<State>,
    failure: Arc<Mutex<Option<Failure>>>,
}

#[derive(Default)]
struct State {
    /// Exit codes of commands whose messages are being settled.
    codes: HashMap<String, Option<i32>>,
    /// The room kept for what will be told of messages.
    rooms: HashMap<String, OwnedPermit<Item>>,
}

impl Report {
    /// At most `concurrency` messages are worked on at once.
    pub(super) fn new(
        reader: &Reader,
        json: bool,
        concurrency: usize,
        stop: CancellationToken,
    ) -> Outcome<Self> {
        let (items, received) = mpsc::channel(concurrency + AHEAD);
        let failure = Arc::default();
        let writer =
            Writer { json, bar: None, is_read: true, stop: stop.clone(), failure: Arc::clone(&failure) };
        // It ends with the process if what it writes is never read.
        let started = std::thread::Builder::new().spawn(move || writer.write(received));
        started.map_err(|error| Failure::new(Exit::Refused, "cannot start", error.to_string()))?;
        Ok(Self { reader: reader.clone(), items, stop, state: Mutex::default(), failure })
    }

    /// So many messages are to be done.
    pub(super) fn expect(&self, total: u64) {
        self.tell(Item::Expect(total));
    }

    /// Waits until there is room for what will be told of a message.
    pub(super) async fn room(&self, message_id: &str) {
        if let Ok(room) = self.items.clone().reserve_owned().await {
            self.state().rooms.insert(message_id.to_owned(), room);
        }
    }

    /// A command has ended.
    pub(super) fn ended(&self, message_id: &str, code: Option<i32>) {
        self.state().codes.insert(message_id.to_owned(), code);
    }

    /// This machine can't work on messages: nothing more is taken.
    pub(super) fn fault(&self, reason: &str) {
        let what = format!("cannot work on {}", self.reader.called());
        let advice = "mend this machine, then start the worker again; its messages are given back";
        fail(&self.failure, Failure::new(Exit::Unreachable, what, reason).advise(advice));
        self.stop.cancel();
    }

    pub(super) fn event(&self, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Acked { message_id } => self.settled(message_id, "acked", None),
            WorkerEvent::Nacked { message_id, reason } => self.settled(message_id, "nacked", Some(reason)),
            WorkerEvent::Lost { message_id } => {
                let reason = "its lease was lost: it ran out, or somebody else settled the message";
                self.settled(message_id, "lost", Some(reason));
            }
            WorkerEvent::Paused => {
                let (called, resume) = (self.reader.called(), self.reader.resume());
                self.say(&format!("{called} is paused; `{resume}` lets it deliver again"));
            }
            WorkerEvent::Trouble { error } => self.say(&error.to_string()),
            _ => {}
        }
    }

    /// Tells people something.
    pub(super) fn say(&self, text: &str) {
        self.tell(Item::Said(text.to_owned()));
    }

    /// Waits until all is written, and this last.
    pub(super) async fn finish(&self, last: Option<String>) {
        let (written, all) = oneshot::channel();
        // The thread ends only after this.
        if self.items.send(Item::End(last, written)).await.is_ok() {
            let _: Result<(), _> = all.await;
        }
    }

    /// What ended the work.
    pub(super) fn failure(&self) -> Outcome<()> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn settled(&self, message_id: &str, outcome: &'static str, reason: Option<&str>) {
        let mut state = self.state();
        let exit_code = state.codes.remove(message_id).flatten();
        let room = state.rooms.remove(message_id);
        drop(state);
        let said = reason.map(|reason| format!("{message_id}: {reason}"));
        let reason = reason.map(str::to_owned);
        let line = Line { message_id: message_id.to_owned(), outcome, exit_code, reason };
        let item = Item::Settled { line, said };
        match room {
            Some(room) => drop(room.send(item)),
            None => self.tell(item),
        }
    }

    /// What there is no room for is not told: nobody reads, and nothing must wait for that.
    fn tell(&self, item: Item) {
        let _: Result<(), _> = self.items.try_send(item);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first failure counts.
fn fail(place: &Mutex<Option<Failure>>, failure: Failure) {
    place.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
}

/// Writes what it is given, on its own thread.
struct Writer {
    json: bool,
    bar: Option<ProgressBar>,
    /// Somebody reads the lines. The work goes on without.
    is_read: bool,
    stop: CancellationToken,
    failure: Arc<Mutex<Option<Failure>>>,
}

impl Writer {
    fn write(mut self, mut items: mpsc::Receiver<Item>) {
        while let Some(item) = items.blocking_recv() {
            match item {
                Item::Expect(total) => self.bar = Some(progress::of_messages(total)),
                Item::Said(text) => self.say(&text),
                Item::Settled { line, said } => {
                    if let Some(text) = said {
                        self.say(&text);
                    }
                    self.settled(&line);
                }
                Item::End(last, written) => {
                    if let Some(bar) = &self.bar {
                        bar.finish_and_clear();
                    }
                    if let Some(text) = last {
                        self.say(&text);
                    }
                    // Nobody may wait for it any more.
                    let _: Result<(), ()> = written.send(());
                    return;
                }
            }
        }
    }

    fn settled(&mut self, line: &Line) {
        if let Some(bar) = &self.bar
            && line.outcome == "acked"
        {
            bar.inc(1);
            bar.set_length(bar.length().unwrap_or(0).max(bar.position()));
        }
        if !self.json || !self.is_read {
            return;
        }
        if let Err(failure) = print_json(line) {
            self.is_read = false;
            if !failure.is_unread() {
                fail(&self.failure, failure);
                self.stop.cancel();
            }
        }
    }

    fn say(&self, text: &str) {
        let write = || tell(&format!("millpond: {text}"));
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}
