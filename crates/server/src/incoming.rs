//! A message whose data comes as the body of its call: what fits into one chunk is sent like anything else, more is stored
//! while it arrives.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http_body::Body as _;
use millpond_api::{Event, EventData};
use millpond_core::command::{AppendUpload, BeginUpload, CreateQueue, FinishUpload, NewMessage, Send};
use millpond_core::id::UploadId;
use millpond_core::limits::{CHUNK_BYTES, WAIT_MAX};
use millpond_core::outcome::Sent;
use millpond_core::row::{Data, DataKind, MessageContent};
use millpond_core::{Command, Outcome};
use millpond_engine::Answer;

use crate::app::App;
use crate::convert::message::content_of;
use crate::error::ApiError;
use crate::extract::{self, Environment};
use crate::handlers::unexpected;
use crate::idempotency::{CallDigest, Key};
use crate::pieces::Pieces;
use crate::request::Phases;

/// Options of a message.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) delay: Option<Duration>,
    pub(crate) priority: i32,
    pub(crate) time_to_live: Option<Duration>,
}

impl Options {
    /// A message with these options.
    pub(crate) fn message(self, content: MessageContent) -> NewMessage {
        NewMessage {
            content: Arc::new(content),
            delay: self.delay,
            priority: self.priority,
            time_to_live: self.time_to_live,
        }
    }
}

/// All of a message but its data.
pub(crate) struct Draft<'a> {
    pub(crate) environment: &'a Environment,
    /// Where it goes.
    pub(crate) queue: Box<str>,
    /// What is made if it is not there.
    pub(crate) makes: Vec<CreateQueue>,
    /// Without data.
    pub(crate) event: Event,
    pub(crate) options: Options,
    pub(crate) key: Key,
    /// What the key stands for, but for the body; `None`: for any call.
    pub(crate) digest: Option<CallDigest>,
}

impl Draft<'_> {
    async fn submit(&self, app: &App, command: Command) -> Result<Answer, ApiError> {
        app.submit_making(self.environment, &self.makes, command).await
    }

    async fn sent(&self, app: &App, command: Command) -> Result<Sent, ApiError> {
        match self.submit(app, command).await?.outcome {
            Outcome::Sent(sent) => Ok(sent),
            other => Err(unexpected(&other)),
        }
    }

    async fn send_whole(mut self, app: &App, data: Vec<u8>) -> Result<Sent, ApiError> {
        self.event.data = EventData::from_body(self.event.text("datacontenttype"), data);
        let event = std::mem::replace(&mut self.event, Event { attributes: Vec::new(), data: None });
        let messages = vec![self.options.message(content_of(event))];
        let idempotency = self.take_key();
        self.sent(app, Command::Send(Send { queue: self.queue.clone(), messages, idempotency })).await
    }

    fn take_key(&mut self) -> Option<millpond_core::command::Idempotency> {
        std::mem::take(&mut self.key).with_digest(self.digest.take())
    }
}

/// Sends a message with this body as its data.
pub(crate) async fn send(app: &App, mut draft: Draft<'_>, body: Body) -> Result<Sent, ApiError> {
    extract::check_told_length(&body, app.data_bytes_max)?;
    let told = body.size_hint().exact();
    let chunk = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
    if told.is_some_and(|told| told <= chunk) {
        let body = app.bodies.read(body, CHUNK_BYTES).await?;
        if let Some(digest) = &mut draft.digest {
            digest.add_body(&body);
        }
        return draft.send_whole(app, Vec::from(body)).await;
    }
    let pieces = Pieces::new(body, app.data_bytes_max, draft.digest.take());
    let message = draft.options.message(large_content(&draft.event, told.unwrap_or(0)));
    let upload = Upload { app, message, draft, pieces };
    match told {
        Some(_) => upload.run(Vec::new()).await,
        None => upload.run_untold().await,
    }
}

/// What is stored of an event whose data is in chunks. Nothing shows such data but the bytes themselves, so they are of no
/// other kind.
fn large_content(event: &Event, bytes: u64) -> MessageContent {
    MessageContent {
        attributes: event.attributes_json().into_boxed_str(),
        data_kind: DataKind::Binary,
        data: Data::Chunked { bytes },
    }
}

/// A large body on its way into the store.
struct Upload<'a> {
    app: &'a App,
    draft: Draft<'a>,
    message: NewMessage,
    pieces: Pieces,
}

impl Upload<'_> {
    /// Nobody said how long it is: it may still fit into one chunk.
    async fn run_untold(mut self) -> Result<Sent, ApiError> {
        let app = self.app;
        let share = app.bodies.share(2 * CHUNK_BYTES)?;
        let first = next(app, &mut self.pieces).await?;
        let second = match &first {
            Some(first) if first.len() == CHUNK_BYTES => next(app, &mut self.pieces).await?,
            _ => None,
        };
        if second.is_none() {
            let data = first.map_or_else(Vec::new, |first| first.to_vec());
            let Self { mut draft, pieces, .. } = self;
            draft.digest = pieces.digest;
            return draft.send_whole(app, data).await;
        }
        let sent = self.run(first.into_iter().chain(second).collect()).await;
        drop(share);
        sent
    }

    /// Stores these pieces and all that follow, and makes the message.
    async fn run(mut self, read: Vec<Arc<[u8]>>) -> Result<Sent, ApiError> {
        let begin = Command::BeginUpload(BeginUpload {
            queue: self.draft.queue.clone(),
            message: self.message.clone(),
            key: self.draft.key.text().map(Into::into),
            wait: WAIT_MAX,
            // The engine names the call.
            waiter: millpond_core::command::WaiterId(0),
        });
        Phases::may_wait(WAIT_MAX);
        // Dropped on the way, the receipt has the engine remove what was stored.
        let Answer { outcome, receipt, .. } = self.draft.submit(self.app, begin).await?;
        let Outcome::UploadBegun(upload) = outcome else { return Err(unexpected(&outcome)) };
        match upload {
            Some(upload) => self.store(upload, read).await?,
            None => while next(self.app, &mut self.pieces).await?.is_some() {},
        }
        let Self { app, mut draft, mut message, pieces } = self;
        message.content = Arc::new(MessageContent {
            data: Data::Chunked { bytes: pieces.bytes },
            ..Arc::unwrap_or_clone(message.content)
        });
        draft.digest = pieces.digest;
        let idempotency = draft.take_key();
        let send = Send { queue: draft.queue.clone(), messages: vec![message], idempotency };
        let sent = draft.sent(app, Command::FinishUpload(FinishUpload { upload, send })).await?;
        if let Some(receipt) = receipt {
            receipt.delivered();
        }
        Ok(sent)
    }

    /// While one chunk is made durable the next one is read.
    async fn store(&mut self, upload: UploadId, read: Vec<Arc<[u8]>>) -> Result<(), ApiError> {
        let (app, environment) = (self.app, self.draft.environment);
        let mut number = 0;
        let mut append = |data: Arc<[u8]>| {
            let append = AppendUpload { upload, number, data };
            number += 1;
            async move {
                match app.submit(environment, Command::AppendUpload(append)).await?.outcome {
                    Outcome::Done => Ok(()),
                    other => Err(unexpected(&other)),
                }
            }
        };
        for data in read {
            append(data).await?;
        }
        let mut piece = next(app, &mut self.pieces).await?;
        while let Some(data) = piece {
            let ((), following) = tokio::try_join!(append(data), next(app, &mut self.pieces))?;
            piece = following;
        }
        Ok(())
    }
}

async fn next(app: &App, pieces: &mut Pieces) -> Result<Option<Arc<[u8]>>, ApiError> {
    let piece = pieces.next().await?;
    app.bodies.came(piece.as_ref().map_or(0, |piece| piece.len()));
    Ok(piece)
}
