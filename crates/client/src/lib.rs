//! A client of Millpond's native API, and a worker.
//!
//! ```no_run
//! # async fn example() -> Result<(), millpond_client::Error> {
//! use millpond_client::{Client, Event, LeaseOptions, NewQueue, SendOptions};
//!
//! let client = Client::new("http://127.0.0.1:8400")?;
//! client.create_queue(&NewQueue::named("mail")).await?;
//! let event = Event::new("/signup", "welcome").json(&"ada@example.com");
//! client.send("mail", &[event], &SendOptions::default()).await?;
//! for message in client.lease("mail", &LeaseOptions::default()).await? {
//!     println!("{:?}", message.event.data);
//!     client.ack("mail", &[message.lease]).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every call that may be made again is tried three times ([`RetryPolicy`]). A call that changes something carries one
//! idempotency key through all its tries, so that it happens once; those on triggers and deployments carry none, and a second try does
//! what the first did, or is refused.
//!
//! | module | holds |
//! | --- | --- |
//! | [`backups`], [`client`], `queues`, `topics`, [`triggers`], `messages` | the calls |
//! | [`event`], [`message`], [`queue`], [`topic`], [`trigger`], [`request`] | what is sent and answered |
//! | [`source`] | from where and to where |
//! | [`error`] | why a call failed |
//! | [`retry`], `call`, `transport` | tries, requests, connections |
//! | [`worker`] | takes messages, has them worked on, settles them |
//!
//! Invariant: nothing here depends on the server's crates; `tests/it` holds the two together.
#![warn(missing_docs)]

pub mod backups;
mod call;
pub mod client;
pub mod error;
pub mod event;
pub mod message;
mod messages;
pub mod queue;
mod queues;
pub mod request;
pub mod retry;
pub mod source;
pub mod topic;
mod topics;
mod transport;
pub mod trigger;
pub mod triggers;
mod wire;
pub mod worker;

pub use tokio_util::sync::CancellationToken;

/// A new idempotency key, for a send that may have to be made again later: a UUID of version 7.
pub fn new_idempotency_key() -> String {
    uuid::Uuid::now_v7().to_string()
}

pub use client::{Client, ClientBuilder};
pub use error::{Effect, Error, ErrorCode, Problem};
pub use event::{AttributeValue, Data, Event};
pub use message::{Lease, LeasedMessage, Message, MessageData, MessagePage, MessageState};
pub use queue::{Queue, QueueMeta, QueuePage, QueueSpec, QueueStatus, Why};
pub use request::{
    DeadLetterQuery, DeleteQueue, GroupUpdate, LeaseOptions, NewGroup, NewQueue, NewTopic, PurgeTarget,
    QueueQuery, QueueUpdate, Redriven, Selection, SendOptions, Settle, SettleSend, Settled, TopicUpdate,
};
pub use retry::RetryPolicy;
pub use source::{Destination, GroupReader, Source, Start};
pub use topic::{
    Group, GroupPage, GroupSpec, GroupStatus, Partition, PartitionPage, Topic, TopicPage, TopicSpec,
};
pub use trigger::{
    Deployment, NewTrigger, PushCounts, PushRecord, SigningSecret, Trigger, TriggerPushes, TriggerTrouble,
};
pub use triggers::{Deployments, Triggers};
pub use worker::{Delivery, Nack, Tally, Worker, WorkerEvent};
