//! Takes messages: some, or the one of an id. Never waits: there is something, or the answer is 204.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use millpond_api::ErrorCode;
use millpond_api::limits::VERCEL_RECEIVE_BYTES_MAX;
use millpond_api::vercel::answer::{self, Detail};
use millpond_api::vercel::handle::original_of;
use millpond_api::vercel::header::{CursorFallback, ReceiveOptions};
use millpond_core::command::{Lease, LeaseMessage, MessageRef, OpenData, Reading, Start, WaiterId};
use millpond_core::id::MessageId;
use millpond_core::outcome::Grant;
use millpond_core::row::{Data, MessageContent};
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, Rejection};
use millpond_engine::Answer;

use super::answer_body::Writer;
use super::{Call, Refusal};
use crate::app::App;
use crate::error::ApiError;
use crate::handlers::unexpected;
use crate::stream::DataStream;

pub(super) async fn receive(app: &App, call: &Call<'_>) -> Result<Response, Refusal> {
    let options = ReceiveOptions::read(|name| call.header(name))?;
    let group = call.group();
    let command = Command::Lease(Lease {
        queue: group.clone(),
        max_messages: options.max_messages,
        min_messages: 1,
        visibility_timeout: options.visibility,
        wait: std::time::Duration::ZERO,
        max_wait: None,
        // The engine names the call.
        waiter: WaiterId(0),
        reading: reading(call, &options),
    });
    let start = match options.cursor_fallback {
        CursorFallback::Earliest => Start::Earliest,
        CursorFallback::Latest => Start::Latest,
    };
    let answer = app.ask_making(&call.environment, &call.makes_group(start), command).await?;
    match answer.outcome {
        Outcome::Rejected(rejection) => Err(rejection.into()),
        _ => respond(app, call, &options, answer).await,
    }
}

fn reading(call: &Call<'_>, options: &ReceiveOptions) -> Reading {
    Reading {
        unpinned: false,
        pushes: false,
        partition: call.deployment.map(Into::into),
        in_flight_max: options.max_concurrency,
        look: options.visibility.is_none(),
    }
}

pub(super) async fn receive_by_id(app: &App, call: &Call<'_>) -> Result<Response, Refusal> {
    let options = ReceiveOptions::read_by_id(|name| call.header(name))?;
    if let Some(original) = original_of(&call.names.id) {
        return Err(duplicate(app, call, original).await?);
    }
    let message: MessageId = call.names.id.parse().map_err(|_| Refusal::not_found())?;
    let group = call.group();
    let command = Command::LeaseMessage(LeaseMessage {
        queue: group.clone(),
        message,
        visibility_timeout: options.visibility,
        reading: reading(call, &options),
    });
    let mut answer = app.ask(&call.environment, command.clone()).await?;
    if let Outcome::Rejected(Rejection::QueueNotFound { .. }) = answer.outcome {
        // A group is not made for a message that is not there.
        find(app, call, message).await?;
        let makes = call.makes_group(Start::default());
        answer = app.ask_making(&call.environment, &makes, command).await?;
    }
    match answer.outcome {
        Outcome::Rejected(rejection) => Err(not_by_id(rejection, app.engine.now())),
        _ => respond(app, call, &options, answer).await,
    }
}

/// Refuses a call about a message that is not there.
async fn find(app: &App, call: &Call<'_>, message: MessageId) -> Result<(), Refusal> {
    let command = Command::GetMessage(MessageRef { queue: call.log(), message });
    match app.ask(&call.environment, command).await?.outcome {
        Outcome::Message(_) => Ok(()),
        Outcome::Rejected(rejection) => Err(rejection.into()),
        other => Err(unexpected(&other).into()),
    }
}

/// What was sent under a known key is not there itself; its original may be.
async fn duplicate(app: &App, call: &Call<'_>, original: String) -> Result<Refusal, Refusal> {
    let message = original.parse().map_err(|_| Refusal::not_found())?;
    find(app, call, message).await?;
    Ok(Refusal::new(ErrorCode::InvalidState, 409, answer::DUPLICATE)
        .with("originalMessageId", Detail::Text(original)))
}

/// Why a message that is named by its id is not handed out.
fn not_by_id(rejection: Rejection, now: Timestamp) -> Refusal {
    let later = |code, until: Timestamp, text: String| {
        let milliseconds = u64::try_from(until.as_millis() - now.as_millis()).unwrap_or(0);
        Refusal::new(code, 409, text).retry_after(milliseconds.div_ceil(1_000))
    };
    match rejection {
        Rejection::AlreadySettled { .. } => Refusal::new(ErrorCode::MessageSettled, 410, ""),
        Rejection::MessageDelayed { message, until } => {
            later(ErrorCode::MessageDelayed, until, format!("message {message} is not visible yet"))
        }
        Rejection::MessageLeased { until, .. } => {
            later(ErrorCode::InvalidState, until, answer::LOCKED.to_owned())
        }
        other => other.into(),
    }
}

/// The messages that were granted, as far as they fit into one answer.
async fn respond(
    app: &App,
    call: &Call<'_>,
    options: &ReceiveOptions,
    mut answer: Answer,
) -> Result<Response, Refusal> {
    // Nothing of what is only looked at has to be taken back.
    if options.visibility.is_none()
        && let Some(receipt) = answer.receipt.take()
    {
        receipt.delivered();
    }
    let fits = fitting(&answer.contents);
    answer.keep(fits);
    let Answer { outcome, contents, receipt, .. } = answer;
    let Outcome::Leased(grants) = outcome else { return Err(unexpected(&outcome).into()) };
    if grants.len() != contents.len() {
        let cause = format!("{} grants, {} contents", grants.len(), contents.len());
        return Err(ApiError::internal(cause).into());
    }
    let mut writer = Writer::new(options.form, receipt, call.deliveries.clone());
    // Everything is opened before anything is answered.
    for (grant, content) in grants.iter().zip(contents) {
        match open(app, call, grant, &content).await? {
            Opened::Whole => writer.push(&call.names.group, grant, &content, None)?,
            Opened::Stream(stream) => writer.push(&call.names.group, grant, &content, Some(stream))?,
            Opened::Gone => {}
        }
    }
    if writer.is_empty() {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    Ok(writer.finish(&app.answers)?)
}

/// How many of these messages one answer has: one at least, and no more than [`VERCEL_RECEIVE_BYTES_MAX`] of them.
fn fitting(contents: &[Arc<MessageContent>]) -> usize {
    let mut bytes = 0u64;
    let fits = contents.iter().take_while(|content| {
        bytes = bytes.saturating_add(u64::try_from(content.size_bytes()).unwrap_or(u64::MAX));
        bytes <= VERCEL_RECEIVE_BYTES_MAX
    });
    fits.count().max(1)
}

/// Where the data of a message is.
enum Opened {
    /// In its content.
    Whole,
    /// In chunks, which stay as long as this does.
    Stream(DataStream),
    /// Nowhere: its message has expired since it was granted.
    Gone,
}

async fn open(
    app: &App,
    call: &Call<'_>,
    grant: &Grant,
    content: &MessageContent,
) -> Result<Opened, Refusal> {
    let Data::Chunked { bytes } = content.data else { return Ok(Opened::Whole) };
    // The topic's message is nobody's: leases are the groups'.
    let open = OpenData { queue: call.topic(), message: grant.message, generation: None };
    let Answer { outcome, pin, .. } = app.ask(&call.environment, Command::OpenData(open)).await?;
    match (outcome, pin) {
        (Outcome::Data(view), Some(pin)) => {
            Ok(Opened::Stream(DataStream::new(pin, view.chunk_bytes, 0, bytes)))
        }
        (Outcome::Data(_), None) => Err(ApiError::internal("data in chunks without a pin").into()),
        (Outcome::Rejected(Rejection::MessageNotFound { .. } | Rejection::QueueNotFound { .. }), _) => {
            Ok(Opened::Gone)
        }
        (Outcome::Rejected(rejection), _) => Err(rejection.into()),
        (other, _) => Err(unexpected(&other).into()),
    }
}
