//! Dead letters: listed, made ready again where they are, or moved.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::dead_letters::{
    DEAD_LETTERS_PARAMETERS, ListDeadLettersRequest, RedriveRequest, ReplayRequest, Selection, TimeSpan,
    render_dead_letters, render_redriven, render_replayed,
};
use millpond_api::name::QueueName;
use millpond_api::page;
use millpond_core::command::{Browse, Cursor, WaiterId};
use millpond_core::id::Sequence;
use millpond_core::row::{DeliveryState, DueKey};
use millpond_core::time::Timestamp;
use millpond_engine::Which;

use super::json;
use super::messages::browse_messages;
use crate::app::App;
use crate::convert::queue::queue_of;
use crate::error::ApiError;
use crate::extract::{Place, Query};
use crate::idempotency::{keyed_body, mark};
use crate::request::Phases;

pub(crate) async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let query = Query::of(request.uri(), DEAD_LETTERS_PARAMETERS)?;
    let place = Place::of(&app, request.uri().path())?;
    let queue = place.queue()?;
    let list = ListDeadLettersRequest::parse(&queue_name(&place, &queue)?, |name| query.text(name))?;
    let after =
        list.after.as_deref().map(|position| read_position(position).ok_or_else(|| page::refuse(position)));
    let browse = Browse {
        queue,
        state: DeliveryState::Dead,
        after: after.transpose()?,
        from: list.died.start.map(Timestamp::from_millis),
        until: list.died.end.map(Timestamp::from_millis),
        limit: usize::try_from(list.page_size).unwrap_or(usize::MAX),
        contents: true,
        // The engine names the call.
        waiter: WaiterId(0),
    };
    let (messages, next) = browse_messages(&app, &place, browse).await?;
    let position = next.and_then(position_of);
    let token = position.map(|position| list.token_after(&position)).unwrap_or_default();
    Ok(json(render_dead_letters(&messages, &token)))
}

fn queue_name(place: &Place<'_>, queue: &str) -> Result<QueueName, ApiError> {
    Ok(QueueName::new(place.environment.name.clone(), queue)?)
}

/// Makes dead letters ready again where they are.
pub(super) async fn replay(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    Query::of(&parts.uri, &[])?;
    let (body, key) = keyed_body(app, parts, body).await?;
    let selected = select(ReplayRequest::parse(&body)?.selection);
    let environment = &place.environment.text;
    let queue = place.queue()?;
    let work = app.engine.replay(environment, &queue, selected.which, key);
    let done = Phases::engine(work).await??;
    Ok(mark(json(render_replayed(done.tally.done)), done.repeated))
}

/// Moves dead letters to another queue.
pub(super) async fn redrive(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    Query::of(&parts.uri, &[])?;
    let (body, key) = keyed_body(app, parts, body).await?;
    let request = RedriveRequest::parse(&body)?;
    let home = &place.environment.name;
    let to = request.destination.map(|queue| queue_of("destination", &queue, home)).transpose()?;
    let selected = select(request.selection);
    let environment = &place.environment.text;
    let queue = place.queue()?;
    let work = app.engine.redrive(environment, &queue, to.as_deref(), selected.which, key);
    let done = Phases::engine(work).await??;
    let skipped = done.tally.skipped + selected.unknown;
    Ok(mark(json(render_redriven(done.tally.done, skipped)), done.repeated))
}

/// What a selection comes to, and how many of its ids are no message ids, so that nothing of that name can be there.
struct Selected {
    which: Which,
    unknown: u64,
}

fn select(selection: Selection) -> Selected {
    match selection {
        Selection::Died(TimeSpan { start, end }) => {
            let bound = |millis: Option<i64>| millis.map(Timestamp::from_millis);
            Selected { which: Which::Died { from: bound(start), until: bound(end) }, unknown: 0 }
        }
        Selection::Messages(ids) => {
            let known: Vec<_> = ids.iter().filter_map(|id| id.parse().ok()).collect();
            let unknown = ids.len().saturating_sub(known.len());
            Selected { which: Which::Messages(known), unknown: u64::try_from(unknown).unwrap_or(0) }
        }
    }
}

/// A place among dead letters as a page token holds it.
fn position_of(cursor: Cursor) -> Option<String> {
    match cursor {
        Cursor::Due(key) => Some(format!("{} {}", key.due_at.as_millis(), key.sequence)),
        Cursor::Ready(_) => None,
    }
}

fn read_position(text: &str) -> Option<Cursor> {
    let (due_at, sequence) = text.split_once(' ')?;
    let due_at = Timestamp::from_millis(due_at.parse().ok()?);
    Some(Cursor::Due(DueKey { due_at, sequence: Sequence(sequence.parse().ok()?) }))
}
