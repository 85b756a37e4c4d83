//! Bodies of answers, but for messages in parts: errors, ids, the results of a batch, and messages as lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{time, writer};

/// The content type of all but messages.
pub const JSON: &str = "application/json";
/// The content type of messages as lines.
pub const LINES: &str = "application/x-ndjson";

/// A lease was changed.
pub const CHANGED: &str = r#"{"success":true}"#;

/// Nobody has the message by this handle any more: it was given back, or it was only looked at.
pub const NOT_IN_FLIGHT: &str = "Message is not currently in-flight";
/// The lease ran out.
pub const LEASE_EXPIRED: &str = "Message lease has expired";
/// Somebody of the group works on the message that was asked for by its id.
pub const LOCKED: &str = "Message is locked by another consumer";
/// Somebody else has the message by now.
pub const NOT_THE_HOLDER: &str = "Receipt handle does not match current lease holder";
/// There is no such message, or it is another's.
pub const NOT_FOUND: &str = "Message not found";
/// The id is that of a duplicate.
pub const DUPLICATE: &str = "This messageId was a duplicate - use originalMessageId instead";
/// A lease was to outlive its message.
pub const BEYOND_EXPIRY: &str = "Visibility timeout cannot extend beyond message expiration";

/// What an error says beside its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// An error's body.
pub fn render_error(text: &str, details: &[(&str, Detail)]) -> String {
    let mut out = String::from("{");
    writer::push_text_field(&mut out, "error", text);
    for (name, detail) in details {
        match detail {
            Detail::Number(number) => {
                writer::push_name(&mut out, name);
                writer::push_display(&mut out, number);
            }
            Detail::Text(text) => writer::push_text_field(&mut out, name, text),
        }
    }
    out.push('}');
    out
}

/// The body of a send.
pub fn render_sent(message_id: &str) -> String {
    let mut out = String::from("{");
    writer::push_text_field(&mut out, "messageId", message_id);
    out.push('}');
    out
}

/// What became of one message of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchResult {
    /// It is stored.
    Sent {
        /// Its id.
        message_id: String,
    },
    /// It is not.
    Failed {
        /// The status that a send of it alone would have got.
        status: u16,
        /// Why.
        error: String,
        /// It may go well later.
        retryable: bool,
    },
}

/// The body of a batch: results in the order of its parts.
pub fn render_results(results: &[BatchResult]) -> String {
    let mut out = String::from(r#"{"results":"#);
    writer::push_list(&mut out, results, |out, result| {
        out.push('{');
        match result {
            BatchResult::Sent { message_id } => {
                writer::push_text_field(out, "status", "sent");
                writer::push_text_field(out, "messageId", message_id);
            }
            BatchResult::Failed { status, error, retryable } => {
                writer::push_text_field(out, "status", "failed");
                writer::push_name(out, "statusCode");
                writer::push_display(out, status);
                writer::push_text_field(out, "error", error);
                writer::push_name(out, "retryable");
                writer::push_display(out, retryable);
            }
        }
        out.push('}');
    });
    out.push('}');
    out
}

/// A message that is handed out, but for its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// Its id.
    pub message_id: &'a str,
    /// Names the lease.
    pub receipt_handle: &'a str,
    /// Leases granted so far, this one included.
    pub delivery_count: u64,
    /// When it was sent, in Unix milliseconds.
    pub sent_at: i64,
    /// When its life ends, likewise.
    pub expires_at: i64,
    /// The content type that it was sent with.
    pub content_type: &'a str,
}

/// A line up to its payload, which follows in standard base64; [`LINE_END`] comes behind it.
pub fn push_line_head(out: &mut String, message: &Delivered<'_>) {
    out.push('{');
    writer::push_text_field(out, "messageId", message.message_id);
    writer::push_text_field(out, "receiptHandle", message.receipt_handle);
    writer::push_name(out, "deliveryCount");
    writer::push_display(out, message.delivery_count);
    writer::push_text_field(out, "timestamp", &time::render_millis(message.sent_at));
    writer::push_text_field(out, "expiresAt", &time::render_millis(message.expires_at));
    writer::push_text_field(out, "contentType", message.content_type);
    writer::push_name(out, "body");
    out.push('"');
}

/// A payload on its way into a line: standard base64 of what comes piece by piece.
#[derive(Clone, Debug, Default)]
pub struct PayloadEncoder {
    /// What is not a whole group of three bytes yet.
    rest: Vec<u8>,
}

impl PayloadEncoder {
    /// The text of so many bytes has this many.
    pub fn encoded_bytes(bytes: u64) -> u64 {
        bytes.div_ceil(3).saturating_mul(4)
    }

    /// The text of the next bytes, but for the last ones or two, which wait for what follows.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity((self.rest.len() + bytes.len()).div_ceil(3) * 4);
        let missing = (3 - self.rest.len() % 3) % 3;
        let (first, others) = bytes.split_at(missing.min(bytes.len()));
        self.rest.extend_from_slice(first);
        if self.rest.len() < 3 && !self.rest.is_empty() {
            return text;
        }
        STANDARD.encode_string(&self.rest, &mut text);
        let (whole, rest) = others.split_at(others.len() - others.len() % 3);
        STANDARD.encode_string(whole, &mut text);
        rest.clone_into(&mut self.rest);
        text
    }

    /// The text of what is left.
    pub fn finish(&mut self) -> String {
        STANDARD.encode(std::mem::take(&mut self.rest))
    }
}

/// What follows the payload of a line.
pub const LINE_END: &str = "\"}\n";

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_payload_in_pieces_is_encoded_as_in_one(pieces in vec(vec(any::<u8>(), 0..8), 0..8)) {
            let mut encoder = PayloadEncoder::default();
            let mut text: String = pieces.iter().map(|piece| encoder.push(piece)).collect();
            text.push_str(&encoder.finish());
            let whole = pieces.concat();
            prop_assert_eq!(text.len() as u64, PayloadEncoder::encoded_bytes(whole.len() as u64));
            prop_assert_eq!(text, STANDARD.encode(whole));
        }
    }

    #[test]
    fn errors_have_a_text_and_what_else_there_is_to_say() {
        assert_eq!(render_error("a \"b\"", &[]), r#"{"error":"a \"b\""}"#);
        let details =
            [("originalMessageId", Detail::Text("msg_1".to_owned())), ("currentInflight", Detail::Number(5))];
        let expected = r#"{"error":"x","originalMessageId":"msg_1","currentInflight":5}"#;
        assert_eq!(render_error("x", &details), expected);
    }

    #[test]
    fn results_stand_in_the_order_of_the_parts() {
        let results = [
            BatchResult::Sent { message_id: "msg_1".to_owned() },
            BatchResult::Failed { status: 400, error: "why".to_owned(), retryable: false },
        ];
        let expected = concat!(
            r#"{"results":[{"status":"sent","messageId":"msg_1"},"#,
            r#"{"status":"failed","statusCode":400,"error":"why","retryable":false}]}"#
        );
        assert_eq!(render_results(&results), expected);
        assert_eq!(render_results(&[]), r#"{"results":[]}"#);
        assert_eq!(render_sent("msg_1"), r#"{"messageId":"msg_1"}"#);
    }

    #[test]
    fn a_line_is_an_object_with_its_payload_last() {
        let message = Delivered {
            message_id: "msg_1",
            receipt_handle: "h",
            delivery_count: 2,
            sent_at: 0,
            expires_at: 86_400_123,
            content_type: "text/plain;charset=\"utf-8\"",
        };
        let mut line = String::new();
        push_line_head(&mut line, &message);
        line.push_str("aGk=");
        line.push_str(LINE_END);
        let expected = concat!(
            r#"{"messageId":"msg_1","receiptHandle":"h","deliveryCount":2,"timestamp":"1970-01-01T00:00:00.000Z","#,
            r#""expiresAt":"1970-01-02T00:00:00.123Z","contentType":"text/plain;charset=\"utf-8\"","body":"aGk="}"#,
            "\n"
        );
        assert_eq!(line, expected);
    }
}
