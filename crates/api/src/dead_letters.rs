//! Dead letters: listed, made ready again where they are (`:replay`), or moved (`:redrive`).
//!
//! Times are those of death, the start inclusive, the end exclusive.

use crate::input_error::{Fault, InputError};
use crate::limits::{DEAD_LETTERS_PAGE_MAX, MESSAGE_ID_BYTES_MAX, MESSAGE_IDS_PER_CALL_MAX};
use crate::message::{Message, push_messages};
use crate::name::{QueueName, QueueReference};
use crate::reader::{Node, Object};
use crate::{page, time, writer};

/// Names of the parameters of a list.
pub const DEAD_LETTERS_PARAMETERS: &[&str] = &["end_time", "page_size", "page_token", "start_time"];
/// Fields of a replay.
pub(crate) const REPLAY_NAMES: &[&str] = &["start_time", "end_time", "message_ids"];
/// Fields of a redrive.
pub(crate) const REDRIVE_NAMES: &[&str] = &["destination", "start_time", "end_time", "message_ids"];

/// A span of times of death, in Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpan {
    /// The first moment that belongs to it. None: there is no such bound.
    pub start: Option<i64>,
    /// The first moment that no longer does.
    pub end: Option<i64>,
}

impl TimeSpan {
    /// The span with these ends, the later one behind the earlier.
    fn new(start: Option<i64>, end: Option<i64>) -> Result<TimeSpan, Fault> {
        if let (Some(start), Some(end)) = (start, end)
            && start >= end
        {
            return Err(Fault::new(format!("a time after start_time, which is {}", time::render(start))));
        }
        Ok(TimeSpan { start, end })
    }
}

/// What a list of dead letters asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDeadLettersRequest {
    /// At most this many messages.
    pub page_size: u32,
    /// When they died.
    pub died: TimeSpan,
    /// The position that the page before ended with: whatever was given to [`ListDeadLettersRequest::token_after`].
    pub after: Option<String>,
    scope: [String; 3],
}

impl ListDeadLettersRequest {
    /// Reads the parameters of a list of the dead letters of `queue`.
    pub fn parse<'q>(
        queue: &QueueName,
        parameter: impl Fn(&str) -> Option<&'q str>,
    ) -> Result<ListDeadLettersRequest, InputError> {
        let moment = |name: &str| {
            let text = parameter(name);
            text.map(|text| time::parse(text).map_err(|fault| fault.at(name, text))).transpose()
        };
        let refuse = |fault: Fault| fault.at("end_time", parameter("end_time").unwrap_or_default());
        let died = TimeSpan::new(moment("start_time")?, moment("end_time")?).map_err(refuse)?;
        let bound = |millis: Option<i64>| millis.map(|millis| millis.to_string()).unwrap_or_default();
        let mut request = ListDeadLettersRequest {
            page_size: page::read_size(parameter("page_size"), DEAD_LETTERS_PAGE_MAX)?,
            died,
            after: None,
            scope: [format!("{queue}/dead-letters"), bound(died.start), bound(died.end)],
        };
        let after = parameter("page_token").map(|token| page::read_token(&request.scope(), token));
        request.after = after.transpose()?;
        Ok(request)
    }

    /// The token for the page behind this position.
    pub fn token_after(&self, position: &str) -> String {
        page::token(&self.scope(), position)
    }

    fn scope(&self) -> [&str; 3] {
        self.scope.each_ref().map(String::as_str)
    }
}

/// Which dead letters a replay or a redrive is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All that died then.
    Died(TimeSpan),
    /// These, 1 to 100. Any string of up to 128 bytes: one that names no dead letter of the queue is passed over.
    Messages(Vec<String>),
}

impl Default for Selection {
    fn default() -> Self {
        Self::Died(TimeSpan::default())
    }
}

/// What `:replay` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Which dead letters.
    pub selection: Selection,
}

/// What `:redrive` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedriveRequest {
    /// Where to. None is where each came from.
    pub destination: Option<QueueReference>,
    /// Which dead letters.
    pub selection: Selection,
}

impl ReplayRequest {
    /// Reads a body. No body at all replays all.
    pub fn parse(body: &[u8]) -> Result<ReplayRequest, InputError> {
        let root = Node::optional_root(body)?;
        let mut object = root.object(REPLAY_NAMES)?;
        Ok(ReplayRequest { selection: read_selection(&mut object)? })
    }
}

impl RedriveRequest {
    /// Reads a body. No body at all sends all back to where they came from.
    pub fn parse(body: &[u8]) -> Result<RedriveRequest, InputError> {
        let root = Node::optional_root(body)?;
        let mut object = root.object(REDRIVE_NAMES)?;
        let destination =
            object.optional("destination", |node| QueueReference::parse(&node.path(), &node.string()?))?;
        Ok(RedriveRequest { destination, selection: read_selection(&mut object)? })
    }
}

fn read_selection(object: &mut Object<'_, '_>) -> Result<Selection, InputError> {
    let start = object.optional("start_time", |node| node.time())?;
    let died = object.optional("end_time", |node| {
        TimeSpan::new(start, Some(node.time()?)).map_err(|fault| node.refuse(fault))
    })?;
    let died = died.unwrap_or(TimeSpan { start, end: None });
    let messages = object.optional("message_ids", |node| {
        if died != TimeSpan::default() {
            return Err(node.refuse(Fault::new("to be absent where start_time or end_time is given")));
        }
        let ids = node.list(1..=MESSAGE_IDS_PER_CALL_MAX)?;
        ids.map(|node| node.string_of(1..=MESSAGE_ID_BYTES_MAX)).collect()
    })?;
    Ok(messages.map_or(Selection::Died(died), Selection::Messages))
}

/// A page of dead letters. An empty token says that there are no more.
pub fn render_dead_letters(messages: &[Message], next_page_token: &str) -> String {
    let mut out = String::from("{");
    push_messages(&mut out, messages);
    writer::push_text_field(&mut out, "next_page_token", next_page_token);
    out.push('}');
    out
}

/// The answer of `:replay`.
pub fn render_replayed(count: u64) -> String {
    let mut out = String::from("{");
    writer::push_text_field(&mut out, "replayed_count", &count.to_string());
    out.push('}');
    out
}

/// The answer of `:redrive`.
pub fn render_redriven(redriven: u64, skipped: u64) -> String {
    let mut out = String::from("{");
    writer::push_text_field(&mut out, "redriven_count", &redriven.to_string());
    writer::push_text_field(&mut out, "skipped_count", &skipped.to_string());
    out.push('}');
    out
}
