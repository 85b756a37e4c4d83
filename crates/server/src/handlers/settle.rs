//! `:ack`, `:nack` and `:extend`: leases that are no longer held are listed, the others are settled. `:settle`: all of
//! them and sends in one commit.

use axum::body::Body;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::name::Kind;
use millpond_api::settle::{
    AckRequest, ExtendRequest, LeaseId, NackRequest, SettleRequest, render_settled, render_stale,
};
use millpond_core::command::{Require, Settle, SettleAction};
use millpond_core::outcome::Sent;
use millpond_core::{Command, Outcome};

use super::{json, unexpected};
use crate::app::App;
use crate::convert::settle::{
    could_be_held, partitions_of, path_in_settle, settlements, stale_of, to_settle,
};
use crate::error::ApiError;
use crate::extract::{self, Place, Query};
use crate::idempotency::{keyed_body, mark};

pub(super) async fn ack(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let request = AckRequest::parse(place.kind, &read(app, parts, body).await?)?;
    settle(app, place, &reader(place, request.group.as_deref())?, request.leases, SettleAction::Ack).await
}

pub(super) async fn nack(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let request = NackRequest::parse(place.kind, &read(app, parts, body).await?)?;
    settle(
        app,
        place,
        &reader(place, request.group.as_deref())?,
        request.leases,
        SettleAction::Nack(request.delay),
    )
    .await
}

pub(super) async fn extend(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let request = ExtendRequest::parse(place.kind, &read(app, parts, body).await?)?;
    settle(
        app,
        place,
        &reader(place, request.group.as_deref())?,
        request.leases,
        SettleAction::Extend(request.visibility_timeout),
    )
    .await
}

async fn read(app: &App, parts: &Parts, body: Body) -> Result<Bytes, ApiError> {
    Query::of(&parts.uri, &[])?;
    extract::json_body(app, &parts.headers, body, CALL_BYTES_MAX).await
}

/// Who holds the leases: the queue that the path names, or the group of the topic.
fn reader(place: &Place<'_>, group: Option<&str>) -> Result<Box<str>, ApiError> {
    group.map_or_else(|| place.queue(), |group| place.part(Kind::Group, group))
}

/// Refuses what is about a queue that does not exist.
async fn check_queue(app: &App, place: &Place<'_>, queue: &str) -> Result<(), ApiError> {
    app.submit(&place.environment, Command::GetQueue { queue: queue.into() }).await.map(drop)
}

async fn settle(
    app: &App,
    place: &Place<'_>,
    queue: &str,
    leases: Vec<LeaseId>,
    action: SettleAction,
) -> Result<Response, ApiError> {
    let settlements = settlements(queue, &leases, action);
    if settlements.is_empty() {
        // Nothing that could be held is named; whether there is such a queue still matters.
        check_queue(app, place, queue).await?;
        return Ok(json(render_stale(&leases)));
    }
    let command = Settle { settlements, sends: Vec::new(), require: Require::Fresh };
    match app.submit(&place.environment, Command::Settle(command)).await?.outcome {
        Outcome::Settled { stale, .. } => Ok(json(render_stale(&stale_of(leases, &stale)))),
        other => Err(unexpected(&other)),
    }
}

/// Acks, nacks, extensions and sends in one commit.
pub(super) async fn together(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    Query::of(&parts.uri, &[])?;
    let (body, key) = keyed_body(app, parts, body).await?;
    let request = SettleRequest::parse(place.kind, &body)?;
    let queue = reader(place, request.group.as_deref())?;
    let leases: Vec<LeaseId> = request.leases().cloned().collect();
    let all_or_nothing = request.require_all || !request.sends.is_empty();
    let unknown: Vec<_> = leases.iter().filter(|lease| !could_be_held(lease)).collect();
    // The core cannot be asked about what is no message id. Whether there is such a queue still matters.
    if all_or_nothing && !unknown.is_empty() {
        check_queue(app, place, &queue).await?;
        let ids: Vec<_> = unknown.iter().map(|lease| &lease.message_id).collect();
        return Err(ApiError::lease_stale(&ids));
    }
    if unknown.len() == leases.len() && request.sends.is_empty() {
        check_queue(app, place, &queue).await?;
        return Ok(json(render_settled(&leases, &[])));
    }
    let command = to_settle(&queue, &place.queue()?, request, &place.environment.name)?;
    let makes = partitions_of(&command);
    let command = Command::Settle(command);
    let answer = app.submit_once_making(&place.environment, &makes, key, command).await;
    match answer.map_err(|error| error.under(path_in_settle))? {
        (Outcome::Settled { stale, sent }, repeated) => {
            let ids = |sent: &Sent| sent.ids.iter().map(ToString::to_string).collect::<Vec<_>>();
            let sends: Vec<_> = sent.iter().map(ids).collect();
            Ok(mark(json(render_settled(&stale_of(leases, &stale), &sends)), repeated))
        }
        (other, _) => Err(unexpected(&other)),
    }
}
