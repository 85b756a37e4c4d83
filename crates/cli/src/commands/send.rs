//! `millpond send`: one event, or a file of them in batches.
//!
//! A long send can be taken up again. Each event's id and each batch's idempotency key follow from one key and the number
//! of the line, so the same file under the same key is sent once, however often the command runs within a day.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use millpond_client::{Client, Data, Destination, Error, Event, SendOptions, new_idempotency_key};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Common;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{count_of, print, print_json};
use crate::{progress, value};

/// Events in one call, as the server has it.
const BATCH_EVENTS: usize = 100;
/// Bytes of events in one call: a little less than the server takes, for what stands around them.
const BATCH_BYTES: usize = (1 << 20) - 1_024;
/// Lines that are read ahead.
const LINES_AHEAD: usize = 1_000;
/// How long a batch from stdin waits for its next line.
const IDLE_MAX: Duration = Duration::from_millis(100);
/// An event of more bytes than this as JSON has its data sent as the body of a call of its own.
const EVENT_BYTES: usize = 256 << 10;

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Id or name of the queue; left out with --topic
    #[arg(required_unless_present = "topic", allow_hyphen_values = true)]
    queue: Option<String>,

    /// The data: JSON, or else text; - reads lines from stdin as --file does
    #[arg(required_unless_present_any = ["file", "data_file", "topic"], conflicts_with_all = ["file", "data_file"], allow_hyphen_values = true)]
    data: Option<String>,

    /// Id or name of a topic, in place of QUEUE
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,

    /// Id of a partition of the topic; made if it is not there
    #[arg(long, value_name = "PARTITION", requires = "topic")]
    partition: Option<String>,

    /// Send a file of JSON lines: each is an event's data, or a whole event if it has specversion; - is stdin
    #[arg(long, value_name = "FILE")]
    file: Option<String>,

    /// Send one message whose data is the content of a file, as it is, up to 100 MiB; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "events"])]
    data_file: Option<String>,

    /// What the content of --data-file is
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream", requires = "data_file")]
    content_type: String,

    /// Every line is a whole event
    #[arg(long)]
    events: bool,

    /// Type of the events
    #[arg(long = "type", default_value = "message", value_name = "TYPE")]
    kind: String,

    /// Source of the events
    #[arg(long, default_value = "/millpond/send", value_name = "SOURCE")]
    source: String,

    /// Subject of the events
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,

    /// How long the messages stay hidden (30s, 5m); the queue's delay unless given
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    delay: Option<Duration>,

    /// Higher is handed out first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i32>,

    /// The messages live at most so long; the queue's retention unless given
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    ttl: Option<Duration>,

    /// Send once, however often this is run within a day with the same key and the same data
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,

    #[command(flatten)]
    common: Common,
}

impl Send {
    pub(crate) async fn run(&self) -> Outcome {
        let data = self.given_data()?;
        let client = self.common.client()?;
        let key = self.idempotency_key.clone().unwrap_or_else(new_idempotency_key);
        if let Some(file) = &self.data_file {
            return self.send_content(&client, key, file).await;
        }
        match (self.file.as_deref(), data) {
            (Some(file), _) => self.send_lines(client, &key, Lines::open(file)?).await,
            (None, Some("-")) => self.send_lines(client, &key, Lines::open("-")?).await,
            (None, data) => self.send_one(&client, key, data.unwrap_or_default()).await,
        }
    }

    /// The data on the command line. With a topic there is no queue before it.
    fn given_data(&self) -> Outcome<Option<&str>> {
        let elsewhere = self.file.is_some() || self.data_file.is_some();
        let (first, second) = (self.queue.as_deref(), self.data.as_deref());
        match &self.topic {
            None => Ok(second),
            Some(_) if first.is_some() == elsewhere || second.is_some() => {
                let why = "with --topic it takes the data alone, or --file or --data-file";
                Err(Failure::usage("cannot send", why))
            }
            Some(_) => Ok(first),
        }
    }

    fn to(&self) -> Destination {
        match &self.topic {
            None => Destination::Queue(self.queue.clone().unwrap_or_default()),
            Some(topic) => Destination::Topic { topic: topic.clone(), partition: self.partition.clone() },
        }
    }

    /// How a sentence calls where it goes.
    fn called(&self) -> String {
        match (&self.topic, &self.partition) {
            (None, _) => self.queue.clone().unwrap_or_default(),
            (Some(topic), None) => format!("topic {topic}"),
            (Some(topic), Some(partition)) => format!("partition {partition} of topic {topic}"),
        }
    }

    async fn send_one(&self, client: &Client, key: String, data: &str) -> Outcome {
        let event = if self.events {
            let read = serde_json::from_str(data);
            let refuse =
                |error: serde_json::Error| Failure::usage("cannot send this event", error.to_string());
            self.complete(read.map_err(refuse)?, &key)
        } else {
            let event = self.complete(Event::default(), &key);
            match RawValue::from_string(data.to_owned()) {
                Ok(json) => Event { data: Some(Data::Json(json)), ..event },
                Err(_) => event.text(data),
            }
        };
        let ids = send_batch(client, &self.to(), &[event], &self.options(key)).await;
        let ids = ids.map_err(|error| Failure::call(&format!("send to {}", self.called()), &error))?;
        self.tell(&ids)?;
        Ok(Exit::Done)
    }

    /// One message of the bytes of a file.
    async fn send_content(&self, client: &Client, key: String, file: &str) -> Outcome {
        let mut data = Vec::new();
        let read = match file {
            "-" => io::stdin().lock().read_to_end(&mut data),
            path => File::open(path).and_then(|mut file| file.read_to_end(&mut data)),
        };
        read.map_err(|error| Failure::usage(format!("cannot read {file}"), error.to_string()))?;
        let event = self.complete(Event::default(), &key);
        let event = Event { data_content_type: Some(self.content_type.clone()), ..event };
        let sent = client.send_large(self.to(), &event, data.into(), &self.options(key)).await;
        let id = sent.map_err(|error| Failure::call(&format!("send to {}", self.called()), &error))?;
        self.tell(&[id])?;
        Ok(Exit::Done)
    }

    async fn send_lines(&self, client: Client, key: &str, mut lines: Lines) -> Outcome {
        let mut sender = Sender { send: self, client, key, batch: Batch::default(), sent: 0, is_read: true };
        let interrupted = async {
            // Without the signal there is nothing to wait for.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let done = tokio::select! {
            done = sender.send_all(&mut lines) => done,
            () = interrupted => Err(Failure::interrupted(format!("sending to {} stopped", self.called()))),
        };
        lines.progress.finish_and_clear();
        let sent = sender.sent;
        if let Err(failure) = done {
            let again = if lines.is_stdin && self.idempotency_key.is_none() {
                "send the rest".to_owned()
            } else {
                format!("run it again with --idempotency-key {key}: what was sent is not sent twice")
            };
            return Err(failure.advise(format!("{} sent so far; {again}", count_of(sent, "message"))));
        }
        if !self.common.format.json {
            print(&format!("sent {} to {}", count_of(sent, "message"), self.called()))?;
        }
        Ok(Exit::Done)
    }

    /// The event with what it lacks.
    fn complete(&self, mut event: Event, id: &str) -> Event {
        for (field, given) in
            [(&mut event.id, id), (&mut event.source, &self.source), (&mut event.kind, &self.kind)]
        {
            if field.is_empty() {
                given.clone_into(field);
            }
        }
        if event.subject.is_none() {
            event.subject.clone_from(&self.subject);
        }
        event
    }

    fn options(&self, key: String) -> SendOptions {
        SendOptions { delay: self.delay, priority: self.priority, ttl: self.ttl, idempotency_key: Some(key) }
    }

    fn tell(&self, ids: &[String]) -> Outcome<()> {
        for id in ids {
            if self.common.format.json {
                print_json(&json!({ "message_id": id }))?;
            } else {
                print(id)?;
            }
        }
        Ok(())
    }
}

/// Sends a file, batch after batch, in its order.
struct Sender<'a> {
    send: &'a Send,
    client: Client,
    key: &'a str,
    batch: Batch,
    sent: u64,
    /// Somebody reads the ids. What is to be sent is sent all the same.
    is_read: bool,
}

/// What the next call will send.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    bytes: usize,
    first_line: u64,
    last_line: u64,
}

impl Sender<'_> {
    async fn send_all(&mut self, lines: &mut Lines) -> Outcome<()> {
        while let Some((number, text)) = self.next(lines).await? {
            let event = self.read(number, &text).map_err(|error| {
                let what = format!("cannot send line {number} of {}", lines.name);
                Failure::usage(what, error.to_string())
            })?;
            let size = serde_json::to_string(&event).map_or(0, |json| json.len());
            let full = self.batch.events.len() == BATCH_EVENTS || self.batch.bytes + size > BATCH_BYTES;
            if full || size > EVENT_BYTES {
                self.flush(lines).await?;
            }
            if self.batch.events.is_empty() {
                self.batch.first_line = number;
            }
            self.batch.last_line = number;
            // The comma too.
            self.batch.bytes += size + 1;
            self.batch.events.push(event);
            if size > EVENT_BYTES {
                self.flush(lines).await?;
            }
        }
        self.flush(lines).await
    }

    /// The next line. If a producer is slow, what it has written so far is sent, and not kept until there is more.
    async fn next(&mut self, lines: &mut Lines) -> Outcome<Option<(u64, String)>> {
        // Under a key of the user's the batches have to be the same the next time.
        let is_patient = !lines.is_stdin || self.send.idempotency_key.is_some();
        if is_patient || self.batch.events.is_empty() {
            return lines.next().await;
        }
        if let Ok(line) = tokio::time::timeout(IDLE_MAX, lines.next()).await {
            return line;
        }
        self.flush(lines).await?;
        lines.next().await
    }

    fn read(&self, number: u64, text: &str) -> serde_json::Result<Event> {
        let id = format!("{}-{number}", self.key);
        if self.send.events || is_event(text) {
            return Ok(self.send.complete(serde_json::from_str(text)?, &id));
        }
        // Spaces around a value are not part of it.
        let data = serde_json::from_str::<&RawValue>(text)?.to_owned();
        Ok(Event { data: Some(Data::Json(data)), ..self.send.complete(Event::default(), &id) })
    }

    async fn flush(&mut self, lines: &Lines) -> Outcome<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.events.is_empty() {
            return Ok(());
        }
        let options = self.send.options(format!("{}-{}", self.key, batch.first_line));
        let ids =
            send_batch(&self.client, &self.send.to(), &batch.events, &options).await.map_err(|error| {
                let (first, last, name) = (batch.first_line, batch.last_line, &lines.name);
                Failure::call(
                    &format!("send lines {first} to {last} of {name} to {}", self.send.called()),
                    &error,
                )
            })?;
        self.sent += ids.len() as u64;
        lines.progress.set_message(format!("{} sent", self.sent));
        if !self.send.common.format.json || !self.is_read {
            return Ok(());
        }
        match self.send.tell(&ids) {
            Err(failure) if failure.is_unread() => self.is_read = false,
            told => told?,
        }
        Ok(())
    }
}

/// Sends events in one call. One that is too long as JSON goes alone, its data as the body.
async fn send_batch(
    client: &Client,
    to: &Destination,
    events: &[Event],
    options: &SendOptions,
) -> Result<Vec<String>, Error> {
    if let [event] = events
        && let Some(data) = event.data.as_ref().and_then(Data::bytes)
        && data.len() > EVENT_BYTES / 2
    {
        let data = data.into_owned().into();
        return client.send_large(to, event, data, options).await.map(|id| vec![id]);
    }
    client.send(to, events, options).await
}

/// Whether a line is an event by itself: an object with `specversion`.
fn is_event(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Marked {
        #[serde(rename = "specversion")]
        _specversion: String,
    }
    text.trim_start().starts_with('{') && serde_json::from_str::<Marked>(text).is_ok()
}

/// Lines of a file or of stdin, with their numbers; blank ones are passed over. They are read on a thread of its own, so
/// that Ctrl-C is heard while the input is slow.
struct Lines {
    name: String,
    lines: mpsc::Receiver<io::Result<Line>>,
    progress: ProgressBar,
    is_stdin: bool,
}

struct Line {
    number: u64,
    text: String,
    /// Bytes of input up to its end.
    end: u64,
}

impl Lines {
    fn open(path: &str) -> Outcome<Self> {
        if path == "-" {
            let (lines, name) = (read_lines(io::stdin()), "stdin".to_owned());
            return Ok(Self { name, lines, progress: progress::spinner(), is_stdin: true });
        }
        let fail = |error: io::Error| Failure::usage(format!("cannot read {path}"), error.to_string());
        let file = File::open(path).map_err(fail)?;
        let progress = progress::of_bytes(file.metadata().map_err(fail)?.len());
        Ok(Self { name: path.to_owned(), lines: read_lines(file), progress, is_stdin: false })
    }

    async fn next(&mut self) -> Outcome<Option<(u64, String)>> {
        match self.lines.recv().await {
            None => Ok(None),
            Some(Ok(line)) => {
                if !self.is_stdin {
                    self.progress.set_position(line.end);
                }
                Ok(Some((line.number, line.text)))
            }
            Some(Err(error)) => {
                let why = match error.kind() {
                    io::ErrorKind::InvalidData => {
                        "it is not UTF-8; --data-file sends a file as it is".to_owned()
                    }
                    _ => error.to_string(),
                };
                Err(Failure::usage(format!("cannot read {}", self.name), why))
            }
        }
    }
}

fn read_lines(input: impl io::Read + std::marker::Send + 'static) -> mpsc::Receiver<io::Result<Line>> {
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    // It ends with its input, or when nobody wants more; until then it may wait for ever, and the process ends without it.
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        let (mut number, mut end) = (0, 0);
        loop {
            let mut text = String::new();
            let line = match input.read_line(&mut text) {
                Ok(0) => return,
                Ok(read) => {
                    number += 1;
                    end += read as u64;
                    Ok(Line { number, text, end })
                }
                Err(error) => Err(error),
            };
            let is_last = line.is_err();
            let is_blank = line.as_ref().is_ok_and(|line| line.text.trim().is_empty());
            if !is_blank && (sender.blocking_send(line).is_err() || is_last) {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_event_only_if_it_says_so() {
        assert!(is_event(r#" {"id": "1", "specversion": "1.0", "data": {}}"#));
        for text in
            [r#"{"data": {"specversion": "1.0"}}"#, r#"["specversion"]"#, "1", r#"{"specversion": 1}"#]
        {
            assert!(!is_event(text), "{text}");
        }
    }
}
