//! What goes to stdout: JSON for programs, tables and sentences for people.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use clap::Args;
use millpond_client::{Data, Event};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};

/// How much of a message's data a table shows.
const DATA_SHOWN_CHARS: usize = 60;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Format {
    /// Print JSON: one object, or one a line where there may be several (docs/schemas/)
    #[arg(long)]
    pub(crate) json: bool,
}

impl Format {
    /// One object, in either form.
    pub(crate) fn show<T: Serialize>(self, value: &T, for_people: impl FnOnce() -> String) -> Outcome<()> {
        if self.json { print_json(value) } else { print(&for_people()) }
    }
}

/// Tells people something, on stderr. If nobody can hear it, that is no reason to fail.
pub(crate) fn tell(text: &str) {
    let _: io::Result<()> = writeln!(io::stderr(), "{}", safe(text));
}

/// Prints a text, a line break after it.
pub(crate) fn print(text: &str) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::unread(),
        _ => Failure::new(Exit::Refused, "cannot write to stdout", error.to_string()),
    })
}

/// Prints bytes as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::unread(),
        _ => Failure::new(Exit::Refused, "cannot write to stdout", error.to_string()),
    })
}

/// Prints one line of JSON.
pub(crate) fn print_json<T: Serialize>(value: &T) -> Outcome<()> {
    print(&json_line(value))
}

/// One line of JSON. Data in it is as its sender wrote it, line breaks between its values and all.
fn json_line<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("answers are structs and maps with string keys");
    let (mut line, mut in_string, mut escaped) = (String::with_capacity(json.len()), false, false);
    for character in json.chars() {
        if !in_string && character.is_ascii_whitespace() {
            continue;
        }
        if character.is_control() {
            // JSON itself escapes only those below the space.
            let _ = write!(line, "\\u{:04x}", u32::from(character));
            continue;
        }
        line.push(character);
        in_string ^= character == '"' && !escaped;
        escaped = in_string && !escaped && character == '\\';
    }
    line
}

/// Columns, as wide as they must be; the first line is the header.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|&name| name.to_owned()).collect()] }
    }

    /// A row. What others wrote does nothing to the terminal.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| safe(&cell)).collect());
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.trim_end().to_owned()
    }
}

/// Names and values, one a line; what others wrote does nothing to the terminal.
pub(crate) fn fields(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = pairs.iter().filter(|(_, value)| !value.is_empty());
    lines.map(|(name, value)| format!("{name:width$}  {}", safe(value))).collect::<Vec<_>>().join("\n")
}

/// `1 message`, `2 messages`.
pub(crate) fn count_of(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A time, and how far away it is.
pub(crate) fn when(time: SystemTime) -> String {
    let absolute = humantime::format_rfc3339_seconds(time);
    let now = SystemTime::now();
    match time.duration_since(now) {
        Ok(ahead) => format!("{absolute} (in {})", roughly(ahead)),
        Err(_) => format!("{absolute} ({} ago)", roughly(now.duration_since(time).unwrap_or_default())),
    }
}

/// The two largest units of a duration.
fn roughly(duration: Duration) -> String {
    let whole = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    whole.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// The data of an event on one line, or its beginning.
pub(crate) fn data_line(event: &Event) -> String {
    let text = match &event.data {
        None => return String::new(),
        Some(Data::Url(url)) => return format!("(at {url})"),
        Some(Data::Bytes(bytes)) => return format!("({})", count_of(bytes.len() as u64, "byte")),
        Some(Data::Json(json)) => json.get(),
        Some(Data::Text(text)) => text,
    };
    let mut shown: String = text.chars().take(DATA_SHOWN_CHARS).map(printable).collect();
    if text.chars().count() > DATA_SHOWN_CHARS {
        shown.push('…');
    }
    shown
}

/// A terminal obeys control characters, and anybody may have sent them.
fn printable(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}

/// A text from others, safe for a terminal.
pub(crate) fn safe(text: &str) -> String {
    text.chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["QUEUE", "READY"]);
        table.row(["mail".to_owned(), "7".to_owned()]);
        table.row(["ünvoices".to_owned(), String::new()]);
        assert_eq!(table.render(), "QUEUE     READY\nmail      7\nünvoices");
    }

    #[test]
    fn data_is_shown_on_one_line_and_does_nothing_to_the_terminal() {
        let event = Event::new("/s", "t").text("a\nb\u{1b}[2J");
        assert_eq!(data_line(&event), "a b [2J");
        let long = Event::new("/s", "t").text("x".repeat(61));
        assert_eq!(data_line(&long), format!("{}…", "x".repeat(60)));
        assert_eq!(data_line(&Event::new("/s", "t").bytes("image/png", [0])), "(1 byte)");
        assert_eq!(data_line(&Event::new("/s", "t")), "");
    }

    #[test]
    fn json_is_one_line_and_the_same_value() {
        let data = "{\r\n\t\"a \\\"\\\\\" : [ 1.00 , 1e400,\n 12345678901234567890123 ],\n\"\u{9b}2J\u{7f}\": \" \" }";
        let raw: Box<serde_json::value::RawValue> = serde_json::from_str(data).expect("JSON");
        let line = json_line(&serde_json::json!({ "data": "x" })).replace("\"x\"", &json_line(&raw));
        assert_eq!(line, r#"{"data":{"a \"\\":[1.00,1e400,12345678901234567890123],"\u009b2J\u007f":" "}}"#);
    }

    #[test]
    fn what_others_wrote_does_nothing_to_the_terminal() {
        assert_eq!(fields(&[("labels", "a=\u{1b}[2J\nb".to_owned())]), "labels  a= [2J b");
        let mut table = Table::new(&["QUEUE"]);
        table.row(["\u{9b}2J".to_owned()]);
        assert_eq!(table.render(), "QUEUE\n 2J");
    }

    #[test]
    fn durations_are_told_in_their_two_largest_units() {
        assert_eq!(roughly(Duration::from_millis(90_061_500)), "1day 1h");
        assert_eq!(roughly(Duration::from_millis(400)), "0s");
    }
}
