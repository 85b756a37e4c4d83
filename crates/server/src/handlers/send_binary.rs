//! `:send` in binary mode: what fits into one chunk is sent like anything else, more is stored while it arrives.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use http_body::Body as _;
use millpond_api::event::binary;
use millpond_api::{Event, EventData};
use millpond_core::command::{AppendUpload, BeginUpload, FinishUpload, NewMessage, Send};
use millpond_core::id::UploadId;
use millpond_core::limits::{CHUNK_BYTES, WAIT_MAX};
use millpond_core::row::{Data, DataKind, MessageContent};
use millpond_core::{Command, Outcome};
use millpond_engine::Answer;

use super::send::{Call, sent};
use super::unexpected;
use crate::app::App;
use crate::convert::message::content_of;
use crate::error::ApiError;
use crate::extract;
use crate::idempotency::{CallDigest, event_headers};
use crate::pieces::Pieces;
use crate::request::Phases;

pub(super) async fn send(app: &App, call: Call<'_>, body: Body) -> Result<Response, ApiError> {
    let headers = &call.parts.headers;
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    let event = binary::parse_attributes(event_headers(headers), content_type)?;
    extract::check_told_length(&body, app.data_bytes_max)?;
    let told = body.size_hint().exact();
    let chunk = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
    if told.is_some_and(|told| told <= chunk) {
        let body = app.bodies.read(body, CHUNK_BYTES).await?;
        let mut digest = CallDigest::of(call.parts);
        digest.add_body(&body);
        return send_whole(app, call, event, Vec::from(body), digest).await;
    }
    let pieces = Pieces::new(body, app.data_bytes_max, CallDigest::of(call.parts));
    let upload =
        Upload { app, message: call.options.message(large_content(&event, told.unwrap_or(0))), call, pieces };
    match told {
        Some(_) => upload.run(Vec::new()).await,
        None => upload.run_untold(event).await,
    }
}

async fn send_whole(
    app: &App,
    call: Call<'_>,
    mut event: Event,
    body: Vec<u8>,
    digest: CallDigest,
) -> Result<Response, ApiError> {
    event.data = EventData::from_body(event.text("datacontenttype"), body);
    let messages = vec![call.options.message(content_of(event))];
    let send = Send { queue: call.queue, messages, idempotency: call.key.with_digest(digest) };
    sent(app, call.place, &call.makes, Command::Send(send)).await
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
    call: Call<'a>,
    message: NewMessage,
    pieces: Pieces,
}

impl Upload<'_> {
    /// Nobody said how long it is: it may still fit into one chunk.
    async fn run_untold(mut self, event: Event) -> Result<Response, ApiError> {
        let app = self.app;
        let share = app.bodies.share(2 * CHUNK_BYTES)?;
        let first = next(app, &mut self.pieces).await?;
        let second = match &first {
            Some(first) if first.len() == CHUNK_BYTES => next(app, &mut self.pieces).await?,
            _ => None,
        };
        if second.is_none() {
            let body = first.map_or_else(Vec::new, |first| first.to_vec());
            let Self { call, pieces, .. } = self;
            return send_whole(app, call, event, body, pieces.digest).await;
        }
        let response = self.run(first.into_iter().chain(second).collect()).await;
        drop(share);
        response
    }

    /// Stores these pieces and all that follow, and makes the message.
    async fn run(mut self, read: Vec<Arc<[u8]>>) -> Result<Response, ApiError> {
        let begin = Command::BeginUpload(BeginUpload {
            queue: self.call.queue.clone(),
            message: self.message.clone(),
            key: self.call.key.text().map(Into::into),
            wait: WAIT_MAX,
            // The engine names the call.
            waiter: millpond_core::command::WaiterId(0),
        });
        Phases::may_wait(WAIT_MAX);
        let Call { place, makes, .. } = &self.call;
        let begun = self.app.submit_making(&place.environment, makes, begin);
        // Dropped on the way, the receipt has the engine remove what was stored.
        let Answer { outcome, receipt, .. } = begun.await?;
        let Outcome::UploadBegun(upload) = outcome else { return Err(unexpected(&outcome)) };
        match upload {
            Some(upload) => self.store(upload, read).await?,
            None => while next(self.app, &mut self.pieces).await?.is_some() {},
        }
        let mut message = self.message;
        message.content = Arc::new(MessageContent {
            data: Data::Chunked { bytes: self.pieces.bytes },
            ..Arc::unwrap_or_clone(message.content)
        });
        let Call { place, queue, key, .. } = self.call;
        let idempotency = key.with_digest(self.pieces.digest);
        let send = Send { queue, messages: vec![message], idempotency };
        let response =
            sent(self.app, place, &[], Command::FinishUpload(FinishUpload { upload, send })).await?;
        if let Some(receipt) = receipt {
            receipt.delivered();
        }
        Ok(response)
    }

    /// While one chunk is made durable the next one is read.
    async fn store(&mut self, upload: UploadId, read: Vec<Arc<[u8]>>) -> Result<(), ApiError> {
        let (app, environment) = (self.app, &self.call.place.environment);
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
