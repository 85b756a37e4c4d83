//! Dead letters: listed, made ready again where they are, or moved.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::dead_letters::{
    DEAD_LETTERS_PARAMETERS, ListDeadLettersRequest, RedriveRequest, ReplayRequest, Selection, render_dead_letters,
    render_redriven, render_replayed,
};
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::page;
use millpond_core::command::{Browse, Cursor, WaiterId};
use millpond_core::id::Sequence;
use millpond_core::row::{DeliveryState, DueKey};
use millpond_core::time::Timestamp;
use millpond_engine::{BulkDone, Which};

use super::json;
use super::messages::browse_messages;
use crate::app::App;
use crate::convert::queue::queue_of;
use crate::error::ApiError;
use crate::extract::{self, Place, Query};

pub(crate) async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let query = Query::of(request.uri(), DEAD_LETTERS_PARAMETERS)?;
    let place = Place::of(&app, request.uri().path())?;
    let queue = place.queue()?;
    let list = ListDeadLettersRequest::parse(&place.name_of(&queue)?, |name| query.text(name))?;
    let after = list.after.as_deref().map(|position| read_position(position).ok_or_else(|| page::refuse(position)));
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
