//! Calls about messages.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderName, RANGE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::{BULK_ANSWER_MAX, Call, encode};
use crate::client::Client;
use crate::error::Error;
use crate::event::{AttributeValue, Event};
use crate::message::{Lease, LeasedMessage, Message, MessageData, MessagePage, MessageState};
use crate::request::{DeadLetterQuery, LeaseOptions, SendOptions, Settle, Settled};
use crate::wire;

const LEASE_GENERATION: HeaderName = HeaderName::from_static("millpond-lease-generation");

#[derive(Serialize)]
struct SendBody<'a> {
    events: &'a [Event],
}

#[derive(Deserialize)]
struct Sent {
    message_ids: Vec<String>,
}

#[derive(Deserialize)]
struct Leased {
    messages: Vec<LeasedMessage>,
}

#[derive(Deserialize)]
struct Peeked {
    messages: Vec<Message>,
}

#[derive(Serialize)]
struct LeaseBody {
    max_messages: u32,
    min_messages: u32,
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<Duration>,
    #[serde(with = "wire::duration")]
    wait: Option<Duration>,
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    max_wait: Option<Duration>,
}

#[derive(Serialize)]
struct SettleBody<'a> {
    leases: &'a [Lease],
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    delay: Option<Duration>,
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<Duration>,
}

#[derive(Deserialize)]
struct Stale {
    stale_leases: Vec<Lease>,
}

/// Each call fails as [`Error`] says; a code that only one call has stands with it.
impl Client {
    /// Sends 1 to 100 events, all or none; returns their message ids in the same order.
    ///
    /// # Errors
    /// `queue_not_found`, `payload_too_large`, `storage_full`, `idempotency_key_reused`.
    pub async fn send(
        &self,
        queue: &str,
        events: &[Event],
        options: &SendOptions,
    ) -> Result<Vec<String>, Error> {
        let call = self.send_call(queue, options)?.json(&SendBody { events });
        self.fetch::<Sent>(call).await.map(|answer| answer.message_ids)
    }

    /// Sends one event with data of up to 100 MB; returns its message id. What the event itself holds as data is not
    /// sent.
    ///
    /// # Errors
    /// As for [`Client::send`], and `upload_limit`.
    pub async fn send_large(
        &self,
        queue: &str,
        event: &Event,
        data: Bytes,
        options: &SendOptions,
    ) -> Result<String, Error> {
        let mut call = self.send_call(queue, options)?.bytes(data).within(BULK_ANSWER_MAX);
        for (name, value) in header_attributes(event) {
            let header = format!("ce-{name}");
            let refuse = |_| Error::InvalidArgument {
                field: "extensions",
                value: name.to_owned(),
                expected: "names of lower-case letters and digits",
            };
            let header = HeaderName::from_bytes(header.as_bytes()).map_err(refuse)?;
            call = call.header(header, "event", &encode_attribute(&value))?;
        }
        let content_type = event.data_content_type.as_deref().unwrap_or("application/json");
        call = call.header(CONTENT_TYPE, "data_content_type", content_type)?;
        let sent = self.fetch::<Sent>(call).await?;
        Ok(sent.message_ids.into_iter().next().unwrap_or_default())
    }

    fn send_call(&self, queue: &str, options: &SendOptions) -> Result<Call, Error> {
        let call = self
            .verb(queue, "send")
            .query_option("delay", options.delay.map(wire::render_duration).as_deref())
            .query_option("priority", options.priority.map(|priority| priority.to_string()).as_deref())
            .query_option("ttl", options.ttl.map(wire::render_duration).as_deref());
        match &options.idempotency_key {
            Some(key) => call.key(key),
            None => Ok(call),
        }
    }

    /// Takes messages, after waiting for them if it is told to. Dropping the call gives up the wait.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn lease(&self, queue: &str, options: &LeaseOptions) -> Result<Vec<LeasedMessage>, Error> {
        let body = LeaseBody {
            max_messages: options.max_messages,
            min_messages: options.min_messages,
            visibility_timeout: options.visibility_timeout,
            wait: Some(options.wait),
            max_wait: options.max_wait,
        };
        let call = Call::harmless(&format!("{}:lease", self.queue_path(queue)))
            .json(&body)
            .within(Self::patience(options.wait + options.max_wait.unwrap_or_default()));
        self.fetch::<Leased>(call).await.map(|answer| answer.messages)
    }

    /// Ends 1 to 100 leases, the work being done; returns those that were not held any more.
    ///
    /// A lease is also listed if an earlier try of this very call ended it and its answer was lost.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn ack(&self, queue: &str, leases: &[Lease]) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { leases, delay: None, visibility_timeout: None };
        self.settle_leases(queue, "ack", &body).await
    }

    /// Ends 1 to 100 leases, the work having failed; returns those that were not held any more. The messages come back
    /// after `delay`, or by the queue's backoff.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn nack(
        &self,
        queue: &str,
        leases: &[Lease],
        delay: Option<Duration>,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { leases, delay, visibility_timeout: None };
        self.settle_leases(queue, "nack", &body).await
    }

    /// Has 1 to 100 leases last so long from now, or the queue's timeout; returns those that were not held any more.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn extend(
        &self,
        queue: &str,
        leases: &[Lease],
        visibility_timeout: Option<Duration>,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { leases, delay: None, visibility_timeout };
        self.settle_leases(queue, "extend", &body).await
    }

    async fn settle_leases(
        &self,
        queue: &str,
        verb: &str,
        body: &SettleBody<'_>,
    ) -> Result<Vec<Lease>, Error> {
        let call = self.settle_call(queue, verb, body);
        self.fetch::<Stale>(call).await.map(|answer| answer.stale_leases)
    }

    fn settle_call(&self, queue: &str, verb: &str, body: &SettleBody<'_>) -> Call {
        Call::harmless(&format!("{}:{verb}", self.queue_path(queue))).json(body)
    }

    /// One try of [`Client::ack`].
    pub(crate) async fn ack_once(
        &self,
        queue: &str,
        leases: &[Lease],
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { leases, delay: None, visibility_timeout: None };
        self.settle_once(queue, "ack", &body, within).await
    }

    /// One try of [`Client::nack`].
    pub(crate) async fn nack_once(
        &self,
        queue: &str,
        leases: &[Lease],
        delay: Option<Duration>,
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { leases, delay, visibility_timeout: None };
        self.settle_once(queue, "nack", &body, within).await
    }

    /// One try of [`Client::extend`].
    pub(crate) async fn extend_once(
        &self,
        queue: &str,
        leases: &[Lease],
        visibility_timeout: Duration,
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { leases, delay: None, visibility_timeout: Some(visibility_timeout) };
        self.settle_once(queue, "extend", &body, within).await
    }

    async fn settle_once(
        &self,
        queue: &str,
        verb: &str,
        body: &SettleBody<'_>,
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let call = self.settle_call(queue, verb, body).within(within);
        self.fetch_once::<Stale>(call).await.map(|answer| answer.stale_leases)
    }

    /// Settles and sends in one commit: all of it or, with sends, none.
    ///
    /// # Errors
    /// `queue_not_found`; `lease_stale` if a lease is and there are sends or all are required.
    pub async fn settle(&self, queue: &str, what: &Settle) -> Result<Settled, Error> {
        self.fetch(self.verb(queue, "settle").json(what)).await
    }

    /// Looks at 1 to 100 messages in a state, in the order in which they would be handed out. Nothing is leased.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn peek(
        &self,
        queue: &str,
        state: MessageState,
        max_messages: u32,
    ) -> Result<Vec<Message>, Error> {
        let body = json!({ "max_messages": max_messages, "state": state });
        let call = Call::harmless(&format!("{}:peek", self.queue_path(queue))).json(&body);
        self.fetch::<Peeked>(call).await.map(|answer| answer.messages)
    }

    /// A page of a queue's dead letters, in the order in which they died.
    ///
    /// # Errors
    /// `queue_not_found`, `page_token_invalid`.
    pub async fn list_dead_letters(
        &self,
        queue: &str,
        query: &DeadLetterQuery,
    ) -> Result<MessagePage, Error> {
        let token = (!query.page_token.is_empty()).then_some(query.page_token.as_str());
        let call = Call::get(&format!("{}/dead-letters", self.queue_path(queue)))
            .query_option("page_size", query.page_size.map(|size| size.to_string()).as_deref())
            .query_option("page_token", token)
            .query_option("start_time", query.start_time.map(wire::time::render).as_deref())
            .query_option("end_time", query.end_time.map(wire::time::render).as_deref());
        self.fetch(call).await
    }

    /// A message.
    ///
    /// # Errors
    /// `queue_not_found`, `message_not_found`.
    pub async fn get_message(&self, queue: &str, message_id: &str) -> Result<Message, Error> {
        self.fetch(Call::get(&self.message_path(queue, message_id))).await
    }

    /// Deletes a message.
    ///
    /// # Errors
    /// `queue_not_found`, `message_not_found`, `invalid_state` if it is leased.
    pub async fn delete_message(&self, queue: &str, message_id: &str) -> Result<(), Error> {
        let call = Call::change(Method::DELETE, &self.message_path(queue, message_id));
        self.fetch::<Value>(call).await.map(drop)
    }

    /// The data of a message, or a range of its bytes. For a leased message its holder names the generation.
    ///
    /// # Errors
    /// `queue_not_found`, `message_not_found`, `lease_stale`, `range_not_satisfiable`.
    pub async fn message_data(
        &self,
        queue: &str,
        message_id: &str,
        lease_generation: Option<u64>,
        range: Option<RangeInclusive<u64>>,
    ) -> Result<MessageData, Error> {
        let path = format!("{}/data", self.message_path(queue, message_id));
        let mut call = Call::get(&path).within(BULK_ANSWER_MAX);
        if let Some(generation) = lease_generation {
            call = call.header(LEASE_GENERATION, "lease_generation", &generation.to_string())?;
        }
        if let Some(range) = range {
            call = call.header(RANGE, "range", &format!("bytes={}-{}", range.start(), range.end()))?;
        }
        let reply = self.reply(call).await?;
        let content_type = reply.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Ok(MessageData { content_type: content_type.map(str::to_owned), bytes: reply.body })
    }

    fn message_path(&self, queue: &str, message_id: &str) -> String {
        format!("{}/messages/{}", self.queue_path(queue), encode(message_id))
    }
}

/// The attributes that stand in headers, by their CloudEvents names.
fn header_attributes(event: &Event) -> Vec<(&str, String)> {
    let mut attributes = vec![
        ("specversion", "1.0".to_owned()),
        ("id", event.id.clone()),
        ("source", event.source.clone()),
        ("type", event.kind.clone()),
    ];
    let optional = [("subject", &event.subject), ("time", &event.time), ("dataschema", &event.data_schema)];
    attributes.extend(optional.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?.clone()))));
    attributes.extend(
        event.extensions.iter().map(|(name, value): (_, &AttributeValue)| (name.as_str(), value.to_string())),
    );
    attributes
}

/// CloudEvents' HTTP binding: what is not printable ASCII, and space, quote and percent, is percent-encoded.
fn encode_attribute(value: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');
    utf8_percent_encode(value, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_encoded_for_headers() {
        assert_eq!(encode_attribute("/s €\"%\u{7f}"), "/s%20%E2%82%AC%22%25%7F");
    }
}
