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
use crate::source::{Destination, Source, Start};
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
struct LeaseBody<'a> {
    max_messages: u32,
    min_messages: u32,
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<Duration>,
    #[serde(with = "wire::duration")]
    wait: Option<Duration>,
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    max_wait: Option<Duration>,
    #[serde(flatten)]
    group: Option<GroupBody<'a>>,
}

/// What a lease call on a topic says beside.
#[derive(Serialize)]
struct GroupBody<'a> {
    group: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<&'a str>,
    start: Start,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_in_flight: Option<u32>,
}

impl<'a> GroupBody<'a> {
    fn of(source: &'a Source) -> Option<Self> {
        let Source::Group(reader) = source else { return None };
        Some(Self {
            group: &reader.group,
            partition: reader.partition.as_deref(),
            start: reader.start,
            max_in_flight: reader.max_in_flight,
        })
    }
}

impl Source {
    fn group(&self) -> Option<&str> {
        match self {
            Source::Group(reader) => Some(&reader.group),
            Source::Queue(_) => None,
        }
    }
}

#[derive(Serialize)]
struct SettleBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    leases: &'a [Lease],
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    delay: Option<Duration>,
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<Duration>,
}

#[derive(Serialize)]
struct SettleAll<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(flatten)]
    what: &'a Settle,
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
    /// `queue_not_found`, `topic_not_found`, `payload_too_large`, `storage_full`, `idempotency_key_reused`.
    pub async fn send(
        &self,
        to: impl Into<Destination>,
        events: &[Event],
        options: &SendOptions,
    ) -> Result<Vec<String>, Error> {
        let call = self.send_call(&to.into(), options)?.json(&SendBody { events });
        self.fetch::<Sent>(call).await.map(|answer| answer.message_ids)
    }

    /// Sends one event with data of up to 100 MB; returns its message id. What the event itself holds as data is not
    /// sent.
    ///
    /// # Errors
    /// As for [`Client::send`], and `upload_limit`.
    pub async fn send_large(
        &self,
        to: impl Into<Destination>,
        event: &Event,
        data: Bytes,
        options: &SendOptions,
    ) -> Result<String, Error> {
        let mut call = self.send_call(&to.into(), options)?.bytes(data).within(BULK_ANSWER_MAX);
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

    fn send_call(&self, to: &Destination, options: &SendOptions) -> Result<Call, Error> {
        let partition = match to {
            Destination::Queue(_) => None,
            Destination::Topic { partition, .. } => partition.as_deref(),
        };
        let call = Call::change(Method::POST, &format!("{}:send", self.path_to(to)))
            .query_option("partition", partition)
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
    /// `queue_not_found`, `topic_not_found`; `concurrency_limit` of a group with as many messages in flight as its reader wants.
    pub async fn lease(
        &self,
        from: impl Into<Source>,
        options: &LeaseOptions,
    ) -> Result<Vec<LeasedMessage>, Error> {
        let from = from.into();
        let body = LeaseBody {
            max_messages: options.max_messages,
            min_messages: options.min_messages,
            visibility_timeout: options.visibility_timeout,
            wait: Some(options.wait),
            max_wait: options.max_wait,
            group: GroupBody::of(&from),
        };
        let call = Call::harmless(&format!("{}:lease", self.path_from(&from)))
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
    pub async fn ack(&self, from: impl Into<Source>, leases: &[Lease]) -> Result<Vec<Lease>, Error> {
        let from = from.into();
        let body = SettleBody { group: from.group(), leases, delay: None, visibility_timeout: None };
        self.settle_leases(&from, "ack", &body).await
    }

    /// Ends 1 to 100 leases, the work having failed; returns those that were not held any more. The messages come back
    /// after `delay`, or by the queue's backoff.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn nack(
        &self,
        from: impl Into<Source>,
        leases: &[Lease],
        delay: Option<Duration>,
    ) -> Result<Vec<Lease>, Error> {
        let from = from.into();
        let body = SettleBody { group: from.group(), leases, delay, visibility_timeout: None };
        self.settle_leases(&from, "nack", &body).await
    }

    /// Has 1 to 100 leases last so long from now, or the queue's timeout; returns those that were not held any more.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn extend(
        &self,
        from: impl Into<Source>,
        leases: &[Lease],
        visibility_timeout: Option<Duration>,
    ) -> Result<Vec<Lease>, Error> {
        let from = from.into();
        let body = SettleBody { group: from.group(), leases, delay: None, visibility_timeout };
        self.settle_leases(&from, "extend", &body).await
    }

    async fn settle_leases(
        &self,
        from: &Source,
        verb: &str,
        body: &SettleBody<'_>,
    ) -> Result<Vec<Lease>, Error> {
        let call = self.settle_call(from, verb, body);
        self.fetch::<Stale>(call).await.map(|answer| answer.stale_leases)
    }

    fn settle_call(&self, from: &Source, verb: &str, body: &SettleBody<'_>) -> Call {
        Call::harmless(&format!("{}:{verb}", self.path_from(from))).json(body)
    }

    /// One try of [`Client::ack`].
    pub(crate) async fn ack_once(
        &self,
        from: &Source,
        leases: &[Lease],
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { group: from.group(), leases, delay: None, visibility_timeout: None };
        self.settle_once(from, "ack", &body, within).await
    }

    /// One try of [`Client::nack`].
    pub(crate) async fn nack_once(
        &self,
        from: &Source,
        leases: &[Lease],
        delay: Option<Duration>,
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody { group: from.group(), leases, delay, visibility_timeout: None };
        self.settle_once(from, "nack", &body, within).await
    }

    /// One try of [`Client::extend`].
    pub(crate) async fn extend_once(
        &self,
        from: &Source,
        leases: &[Lease],
        visibility_timeout: Duration,
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let body = SettleBody {
            group: from.group(),
            leases,
            delay: None,
            visibility_timeout: Some(visibility_timeout),
        };
        self.settle_once(from, "extend", &body, within).await
    }

    async fn settle_once(
        &self,
        from: &Source,
        verb: &str,
        body: &SettleBody<'_>,
        within: Duration,
    ) -> Result<Vec<Lease>, Error> {
        let call = self.settle_call(from, verb, body).within(within);
        self.fetch_once::<Stale>(call).await.map(|answer| answer.stale_leases)
    }

    /// Settles and sends in one commit: all of it or, with sends, none.
    ///
    /// # Errors
    /// `queue_not_found`; `lease_stale` if a lease is and there are sends or all are required.
    pub async fn settle(&self, from: impl Into<Source>, what: &Settle) -> Result<Settled, Error> {
        let from = from.into();
        let call = Call::change(Method::POST, &format!("{}:settle", self.path_from(&from)));
        self.fetch(call.json(&SettleAll { group: from.group(), what })).await
    }

    /// Looks at 1 to 100 messages in a state, in the order in which they would be handed out. Nothing is leased. Of a topic,
    /// those of the partition, or those that were sent to none; they are ready or delayed.
    ///
    /// # Errors
    /// `queue_not_found`, `topic_not_found`, `partition_not_found`.
    pub async fn peek(
        &self,
        into: impl Into<Destination>,
        state: MessageState,
        max_messages: u32,
    ) -> Result<Vec<Message>, Error> {
        let into = into.into();
        let mut body = json!({ "max_messages": max_messages, "state": state });
        if let Destination::Topic { partition: Some(partition), .. } = &into {
            body["partition"] = json!(partition);
        }
        let call = Call::harmless(&format!("{}:peek", self.path_to(&into))).json(&body);
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

    /// A message. Of a topic it may be in any partition.
    ///
    /// # Errors
    /// `queue_not_found`, `topic_not_found`, `message_not_found`.
    pub async fn get_message(&self, of: impl Into<Destination>, message_id: &str) -> Result<Message, Error> {
        self.fetch(Call::get(&self.message_path(&of.into(), message_id))).await
    }

    /// Deletes a message.
    ///
    /// # Errors
    /// `queue_not_found`, `message_not_found`, `invalid_state` if it is leased.
    pub async fn delete_message(&self, queue: &str, message_id: &str) -> Result<(), Error> {
        let call = Call::change(Method::DELETE, &self.message_path(&queue.into(), message_id));
        self.fetch::<Value>(call).await.map(drop)
    }

    /// The data of a message, or a range of its bytes. For a leased message its holder names the generation.
    ///
    /// # Errors
    /// `queue_not_found`, `topic_not_found`, `message_not_found`, `lease_stale`, `range_not_satisfiable`.
    pub async fn message_data(
        &self,
        of: impl Into<Destination>,
        message_id: &str,
        lease_generation: Option<u64>,
        range: Option<RangeInclusive<u64>>,
    ) -> Result<MessageData, Error> {
        let path = format!("{}/data", self.message_path(&of.into(), message_id));
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

    fn message_path(&self, of: &Destination, message_id: &str) -> String {
        format!("{}/messages/{}", self.path_to(of), encode(message_id))
    }

    fn path_to(&self, to: &Destination) -> String {
        match to {
            Destination::Queue(queue) => self.queue_path(queue),
            Destination::Topic { topic, .. } => self.topic_path(topic),
        }
    }

    fn path_from(&self, from: &Source) -> String {
        match from {
            Source::Group(reader) => self.topic_path(&reader.topic),
            Source::Queue(queue) => self.queue_path(queue),
        }
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
