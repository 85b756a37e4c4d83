//! Millpond as a system under load: its JSON calls over HTTP.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use hyper::{Method, StatusCode, Uri};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::http::Connection;
use crate::system::{Caller, Leased, Payload, Stamp, System};

/// Nothing that was leased comes back while it is measured.
const LEASE: &str = r#""visibility_timeout":"600s","wait":"20s""#;
const NO_STALE_LEASES: &[u8] = br#"{"stale_leases":[]}"#;

/// A queue of a Millpond server.
#[derive(Clone, Debug)]
pub struct Millpond {
    authority: String,
    queues: Uri,
    queue: Uri,
    queue_id: String,
    send: Uri,
    lease: Uri,
    ack: Uri,
    payload: Payload,
}

impl Millpond {
    /// The queue of this id at `http://HOST:PORT`, which need not be there yet.
    ///
    /// # Errors
    /// The URL is not of this form.
    pub fn new(server: &str, queue_id: &str, data_bytes: u64) -> anyhow::Result<Self> {
        let authority = server.strip_prefix("http://").unwrap_or_default().trim_end_matches('/');
        let is_plain = !authority.is_empty() && !authority.contains('/');
        ensure!(is_plain, "server is {server:?}, expected http://HOST:PORT");
        let authority =
            if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
        let uri = |path: String| path.parse::<Uri>().context("not a path");
        Ok(Self {
            authority,
            queues: uri(format!("/v1/queues?queue_id={queue_id}"))?,
            queue: uri(format!("/v1/queues/{queue_id}?force=true&allow_missing=true"))?,
            queue_id: queue_id.to_owned(),
            send: uri(format!("/v1/queues/{queue_id}:send"))?,
            lease: uri(format!("/v1/queues/{queue_id}:lease"))?,
            ack: uri(format!("/v1/queues/{queue_id}:ack"))?,
            payload: Payload::new(usize::try_from(data_bytes)?),
        })
    }

    /// The path of what belongs to the queue.
    #[must_use]
    pub fn path(&self, behind: &str) -> String {
        format!("/v1/queues/{}{behind}", self.queue_id)
    }

    /// `HOST:PORT`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Makes the queue.
    ///
    /// # Errors
    /// It exists, or the server refuses.
    pub async fn create(&self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.authority).await?;
        let created = connection.call(Method::POST, &self.queues, b"{}".to_vec()).await;
        created.map(drop).with_context(|| format!("cannot make the queue {}", self.queue_id))
    }

    /// Removes the queue with all that is in it.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn remove(&self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.authority).await?;
        connection.call(Method::DELETE, &self.queue, Vec::new()).await.map(drop)
    }
}

impl System for Millpond {
    type Caller = Client;

    async fn caller(&self) -> anyhow::Result<Client> {
        let connection = Connection::open(&self.authority).await?;
        Ok(Client { connection, queue: self.clone(), sent: 0 })
    }
}

/// A caller with a connection of its own.
pub struct Client {
    connection: Connection,
    queue: Millpond,
    sent: u64,
}

impl Client {
    /// Makes any call of the native API, and gives what it is answered, whatever that is.
    ///
    /// # Errors
    /// The path is none; or the connection was lost.
    pub async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let uri: Uri = path.parse().context("not a path")?;
        self.connection.request(method, &uri, ("content-type", "application/json"), body).await
    }
}

#[derive(Deserialize)]
struct LeaseAnswer<'a> {
    #[serde(borrow)]
    messages: Vec<LeasedMessage<'a>>,
}

#[derive(Deserialize)]
struct LeasedMessage<'a> {
    #[serde(borrow)]
    event: LeasedEvent<'a>,
    #[serde(borrow)]
    lease: &'a RawValue,
}

#[derive(Deserialize)]
struct LeasedEvent<'a> {
    data: &'a str,
}

impl Caller for Client {
    /// The lease as JSON.
    type Lease = Box<str>;

    async fn send(&mut self, count: usize, stamp: Stamp) -> anyhow::Result<()> {
        let mut body = br#"{"events":["#.to_vec();
        for index in 0..count {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(br#"{"id":""#);
            body.extend_from_slice(self.sent.to_string().as_bytes());
            body.extend_from_slice(br#"","source":"/bench","type":"com.example.bench","data":""#);
            self.queue.payload.push(&mut body, stamp);
            body.extend_from_slice(br#""}"#);
            self.sent += 1;
        }
        body.extend_from_slice(b"]}");
        self.connection.call(Method::POST, &self.queue.send, body).await.map(drop)
    }

    async fn lease(&mut self, most: usize) -> anyhow::Result<Vec<Leased<Box<str>>>> {
        let body = format!(r#"{{"max_messages":{most},{LEASE}}}"#).into_bytes();
        let answer = self.connection.call(Method::POST, &self.queue.lease, body).await?;
        let answer: LeaseAnswer<'_> = serde_json::from_slice(&answer).context("reading a lease answer")?;
        let leased = |message: LeasedMessage<'_>| {
            let stamp = Stamp::of_payload(message.event.data.as_bytes());
            let stamp = stamp.context("a message that this load did not send")?;
            Ok(Leased { lease: message.lease.get().into(), stamp })
        };
        answer.messages.into_iter().map(leased).collect()
    }

    async fn ack(&mut self, leases: Vec<Leased<Box<str>>>) -> anyhow::Result<()> {
        let mut body = br#"{"leases":["#.to_vec();
        for (index, leased) in leases.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(leased.lease.as_bytes());
        }
        body.extend_from_slice(b"]}");
        let answer = self.connection.call(Method::POST, &self.queue.ack, body).await?;
        let text = String::from_utf8_lossy(&answer);
        ensure!(*answer == *NO_STALE_LEASES, "an ack was answered {text}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_a_plain_url() {
        let authority = |url: &str| Millpond::new(url, "bench", 256).map(|own| own.authority).ok();
        assert_eq!(authority("http://127.0.0.1:8400").as_deref(), Some("127.0.0.1:8400"));
        assert_eq!(authority("http://localhost/").as_deref(), Some("localhost:80"));
        for wrong in ["127.0.0.1:8400", "https://localhost", "http://", "http://localhost/v1"] {
            assert_eq!(authority(wrong), None, "{wrong}");
        }
    }
}
