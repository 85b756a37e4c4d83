//! How a push looks: its headers and its body, but for what vouches for it ([`crate::signature`]).
//!
//! One form so far, that of Vercel Queues' triggers of type `queue/v2beta`: a CloudEvent in binary mode. Inline it carries the data
//! and the lease; by reference it only names the message, which its handler then takes by its id. That `ce-vqsreceipthandle` is
//! there is what tells the two apart, so a push by reference has nothing of a lease.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use millpond_api::vercel::handle::{ReceiptHandle, group_tag};
use millpond_api::vercel::{self, EVENT_TYPE};
use millpond_api::{DataKind, Event, time};
use millpond_core::outcome::Grant;
use millpond_core::row::{self, Data, MessageContent};
use millpond_core::time::Timestamp;

/// Bytes of data that go with a push; larger data is announced by reference.
pub const INLINE_BYTES_MAX: u64 = 256 << 10;

const CE_ID: HeaderName = HeaderName::from_static("ce-id");
const CE_SOURCE: HeaderName = HeaderName::from_static("ce-source");
const CE_SPECVERSION: HeaderName = HeaderName::from_static("ce-specversion");
const CE_TIME: HeaderName = HeaderName::from_static("ce-time");
const CE_TYPE: HeaderName = HeaderName::from_static("ce-type");
const CONSUMER_GROUP: HeaderName = HeaderName::from_static("ce-vqsconsumergroup");
const CREATED_AT: HeaderName = HeaderName::from_static("ce-vqscreatedat");
const DELIVERY_COUNT: HeaderName = HeaderName::from_static("ce-vqsdeliverycount");
const EXPIRES_AT: HeaderName = HeaderName::from_static("ce-vqsexpiresat");
const MESSAGE_ID: HeaderName = HeaderName::from_static("ce-vqsmessageid");
const QUEUE_NAME: HeaderName = HeaderName::from_static("ce-vqsqueuename");
const REGION: HeaderName = HeaderName::from_static("ce-vqsregion");
const RECEIPT_HANDLE: HeaderName = HeaderName::from_static("ce-vqsreceipthandle");
const VISIBILITY_DEADLINE: HeaderName = HeaderName::from_static("ce-vqsvisibilitydeadline");
const OIDC_TOKEN: HeaderName = HeaderName::from_static("x-vercel-oidc-token");
/// Before the name of a trace header.
const TRACE_PREFIX: &str = "x-vercel-queue-";

/// How pushes look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Vercel's `queue/v2beta`.
    VercelV2Beta,
}

/// What is pushed.
#[derive(Clone, Copy)]
pub struct Push<'a> {
    /// The topic's id.
    pub topic: &'a str,
    /// The group's id.
    pub group: &'a str,
    /// The lease or the reservation.
    pub grant: &'a Grant,
    /// What was sent.
    pub content: &'a Arc<MessageContent>,
    /// Whether the data goes with it.
    pub mode: Mode,
    /// The region that the handler's calls are to go to.
    pub region: Option<&'a str>,
    /// What the handler's calls are let in with.
    pub token: Option<&'a str>,
    /// The time of the push.
    pub now: Timestamp,
}

/// Whether data goes with a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does, and the lease with it.
    Inline,
    /// The handler takes the message by its id.
    Reference,
}

impl Mode {
    /// How a message goes: by reference if its data is large, or empty, which handlers take for missing.
    #[must_use]
    pub fn of(content: &MessageContent) -> Self {
        match &content.data {
            Data::Whole(data) if !data.is_empty() && content.data.size_bytes() <= INLINE_BYTES_MAX => {
                Self::Inline
            }
            Data::Whole(_) | Data::Chunked { .. } => Self::Reference,
        }
    }
}

/// A push that is ready to be signed and sent.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Why a push cannot be written. None of it passes by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// Something cannot stand in a header.
    #[error("{header} is {value:?}, expected printable ascii")]
    IllegalValue {
        /// The header.
        header: HeaderName,
        /// What was to stand in it, shortened; empty for a token.
        value: String,
    },
    /// The data is not at hand.
    #[error("the data of the message is in chunks, expected at most {INLINE_BYTES_MAX} bytes")]
    NotInline,
    /// What is stored of the message is damaged.
    #[error("stored attributes cannot be read: {0}")]
    Unreadable(String),
}

impl Form {
    /// Writes a push.
    pub fn render(self, push: &Push<'_>) -> Result<Rendered, FormError> {
        match self {
            Self::VercelV2Beta => render_vercel(push),
        }
    }
}

fn render_vercel(push: &Push<'_>) -> Result<Rendered, FormError> {
    let event = Event::from_stored(&push.content.attributes, None)
        .map_err(|error| FormError::Unreadable(error.to_string()))?;
    let mut headers = HeaderMap::with_capacity(24);
    let message_id = push.grant.message.to_string();
    let source = format!("/topic/{}/consumer/{}", push.topic, push.group);
    for (name, value) in [
        (CE_TYPE, EVENT_TYPE),
        (CE_SPECVERSION, "1.0"),
        (CE_ID, &message_id),
        (CE_SOURCE, &source),
        (CE_TIME, &at(push.now)),
        (QUEUE_NAME, push.topic),
        (CONSUMER_GROUP, push.group),
        (MESSAGE_ID, &message_id),
    ] {
        put(&mut headers, name, value)?;
    }
    if let Some(region) = push.region {
        put(&mut headers, REGION, region)?;
    }
    for (name, value) in vercel::trace_headers(&event) {
        let name =
            HeaderName::try_from(format!("{TRACE_PREFIX}{name}")).expect("trace headers have legal names");
        put(&mut headers, name, value)?;
    }
    if let Some(token) = push.token {
        put_token(&mut headers, token)?;
    }
    let body = match push.mode {
        Mode::Inline => put_inline(&mut headers, push, &event)?,
        // No content type either: some frameworks refuse a body of JSON that is empty.
        Mode::Reference => Bytes::new(),
    };
    Ok(Rendered { headers, body })
}

/// The lease, and the data that goes under it.
fn put_inline(headers: &mut HeaderMap, push: &Push<'_>, event: &Event) -> Result<Bytes, FormError> {
    let grant = push.grant;
    let handle = ReceiptHandle {
        message_id: grant.message.to_string(),
        group_tag: group_tag(push.group),
        delivery: grant.delivery.0,
        generation: grant.generation.0,
    };
    for (name, value) in [
        (RECEIPT_HANDLE, handle.render()),
        (DELIVERY_COUNT, grant.delivery_count.to_string()),
        (CREATED_AT, at(grant.sent_at)),
        (EXPIRES_AT, at(grant.expires_at)),
        (VISIBILITY_DEADLINE, at(grant.lease_until)),
    ] {
        put(headers, name, &value)?;
    }
    let kind = match push.content.data_kind {
        row::DataKind::None => None,
        row::DataKind::Json => Some(DataKind::Json),
        row::DataKind::Text => Some(DataKind::Text),
        row::DataKind::Binary => Some(DataKind::Binary),
    };
    put(headers, CONTENT_TYPE, vercel::content_type(event, kind))?;
    match push.content.data {
        Data::Whole(_) => Ok(Bytes::from_owner(Held(Arc::clone(push.content)))),
        Data::Chunked { .. } => Err(FormError::NotInline),
    }
}

/// Nothing shows the token, not even an error.
fn put_token(headers: &mut HeaderMap, token: &str) -> Result<(), FormError> {
    let illegal = |_| FormError::IllegalValue { header: OIDC_TOKEN, value: String::new() };
    let mut value = HeaderValue::from_str(token).map_err(illegal)?;
    value.set_sensitive(true);
    headers.insert(OIDC_TOKEN, value);
    Ok(())
}

/// Data as the body of a request, without a copy.
struct Held(Arc<MessageContent>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.data.held()
    }
}

/// Three decimals always: not every parser takes another number of them.
fn at(time: Timestamp) -> String {
    time::render_millis(time.as_millis())
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), FormError> {
    const SHOWN_CHARS: usize = 100;
    let legal = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    match HeaderValue::from_str(value) {
        Ok(value) if legal => {
            headers.insert(name, value);
            Ok(())
        }
        _ => Err(FormError::IllegalValue { header: name, value: value.chars().take(SHOWN_CHARS).collect() }),
    }
}

#[cfg(test)]
mod tests;
