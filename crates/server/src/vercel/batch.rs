//! Sends many messages, each in a part of the body. What a part does wrong is its own failure, in an answer that is a success.
//!
//! Messages are stored in commits of up to [`COMMIT_BYTES`], which most batches have one of; a payload that is too large to be sent
//! whole is stored by itself, like a send of its own. A commit that is refused as such, because the environment is full, say, fails all
//! that is not stored by then; if nothing is, it fails the call.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use millpond_api::limits::VERCEL_BATCH_BYTES_MAX;
use millpond_api::vercel::answer::{BatchResult, JSON, render_results};
use millpond_api::vercel::header::SendOptions;
use millpond_api::vercel::multipart::{self, Part};
use millpond_api::vercel::{TRACE_HEADERS, event};
use millpond_api::{EventData, Fault};
use millpond_core::command::{Require, Send, Settle};
use millpond_core::limits::CHUNK_BYTES;
use millpond_core::outcome::Sent;
use millpond_core::{Command, Outcome};

use super::send::{answered_id, options_of};
use super::{Call, Refusal};
use crate::app::App;
use crate::convert::message::content_of;
use crate::handlers::unexpected;
use crate::idempotency::Key;
use crate::incoming::{self, Draft};

/// Bytes of the messages of one commit, if it has more than one: others do not wait for longer.
const COMMIT_BYTES: usize = 1 << 20;

const _: () = assert!(CHUNK_BYTES <= COMMIT_BYTES);

/// How the message of a part is sent.
enum Order<'a> {
    /// By itself: its payload comes in chunks.
    Alone(Box<Draft<'a>>, Bytes),
    /// With others.
    Together(Send),
}

pub(super) async fn send(app: &App, call: &Call<'_>, body: Body) -> Result<Response, Refusal> {
    let content_type = call.header("content-type").unwrap_or_default();
    let boundary = match std::str::from_utf8(content_type) {
        Ok(text) => multipart::boundary_of(text)?,
        Err(_) => {
            let shown = String::from_utf8_lossy(content_type);
            return Err(Fault::new("multipart/mixed with a boundary").at("Content-Type", &shown).into());
        }
    };
    let body = app.bodies.read_growing(body, VERCEL_BATCH_BYTES_MAX).await?;
    let parts = multipart::parse(&body, &boundary)?;
    let orders = parts.iter().map(|part| order_of(call, &body, part));
    let mut batch = Batch { results: Vec::new(), stored: false };
    let mut commit = Commit::default();
    for (at, order) in orders.enumerate() {
        batch.results.push(None);
        match order {
            Ok(Order::Together(send)) if commit.takes(&send) => commit.push(at, send),
            Ok(Order::Together(send)) => {
                batch.store(app, call, std::mem::take(&mut commit)).await?;
                commit.push(at, send);
            }
            Ok(Order::Alone(draft, payload)) => {
                batch.store(app, call, std::mem::take(&mut commit)).await?;
                let sent = incoming::send(app, *draft, Body::from(payload)).await;
                batch.note(&[at], sent.map(|sent| vec![sent]).map_err(Into::into))?;
            }
            Err(refusal) => batch.results[at] = Some(failed(&refusal)),
        }
    }
    batch.store(app, call, commit).await?;
    let results: Vec<_> = batch.results.into_iter().flatten().collect();
    let mut response = Response::new(Body::from(render_results(&results)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    Ok(response)
}

/// What a part asks for.
fn order_of<'a>(call: &'a Call<'_>, body: &Bytes, part: &Part<'_>) -> Result<Order<'a>, Refusal> {
    let options = SendOptions::read(|name| part.header(name))?;
    let of_call = |name: &str| TRACE_HEADERS.contains(&name).then(|| call.header(name)).flatten();
    let mut event = event(&call.names.topic, |name| part.header(name).or_else(|| of_call(name)))?;
    let key = Key::of_vercel(options.key);
    let own = options_of(&options);
    if part.payload.len() > CHUNK_BYTES {
        let (environment, queue, makes) = (&*call.environment, call.log(), call.makes_log());
        let draft = Draft { environment, queue, makes, event, options: own, key, digest: None };
        return Ok(Order::Alone(Box::new(draft), body.slice_ref(part.payload)));
    }
    event.data = EventData::from_body(event.text("datacontenttype"), part.payload.to_vec());
    Ok(Order::Together(Send {
        queue: call.log(),
        messages: vec![own.message(content_of(event))],
        idempotency: key.with_digest(None),
    }))
}

fn failed(refusal: &Refusal) -> BatchResult {
    BatchResult::Failed {
        status: refusal.status(),
        error: refusal.text().to_owned(),
        retryable: refusal.is_retryable(),
    }
}

/// Messages that are stored together, with their places in the batch.
#[derive(Default)]
struct Commit {
    places: Vec<usize>,
    sends: Vec<Send>,
    bytes: usize,
}

impl Commit {
    fn takes(&self, send: &Send) -> bool {
        self.sends.is_empty() || self.bytes + bytes_of(send) <= COMMIT_BYTES
    }

    fn push(&mut self, at: usize, send: Send) {
        self.bytes += bytes_of(&send);
        self.places.push(at);
        self.sends.push(send);
    }
}

fn bytes_of(send: &Send) -> usize {
    send.messages.iter().map(|message| message.content.held_bytes()).sum()
}

struct Batch {
    /// By place; `None`: not known yet.
    results: Vec<Option<BatchResult>>,
    stored: bool,
}

impl Batch {
    async fn store(&mut self, app: &App, call: &Call<'_>, commit: Commit) -> Result<(), Refusal> {
        let Commit { places, sends, .. } = commit;
        if places.is_empty() {
            return Ok(());
        }
        self.note(&places, send_together(app, call, sends).await)
    }

    /// What became of the messages in these places.
    fn note(&mut self, places: &[usize], result: Result<Vec<Sent>, Refusal>) -> Result<(), Refusal> {
        match result {
            Ok(sent) => {
                self.stored = true;
                for (&at, sent) in places.iter().zip(&sent) {
                    self.results[at] = Some(BatchResult::Sent { message_id: answered_id(sent)? });
                }
            }
            Err(refusal) if self.stored => {
                places.iter().for_each(|&at| self.results[at] = Some(failed(&refusal)));
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }
}

async fn send_together(app: &App, call: &Call<'_>, sends: Vec<Send>) -> Result<Vec<Sent>, Refusal> {
    let count = sends.len();
    let settle = Settle { settlements: Vec::new(), sends, require: Require::All };
    let command = Command::Settle(settle);
    let answer = app.ask_making(&call.environment, &call.makes_log(), command).await?;
    match answer.outcome {
        Outcome::Settled { sent, .. } if sent.len() == count => Ok(sent),
        Outcome::Rejected(rejection) => Err(rejection.into()),
        other => Err(unexpected(&other).into()),
    }
}
