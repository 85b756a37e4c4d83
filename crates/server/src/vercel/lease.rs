//! What becomes of a lease: acknowledged, made longer or shorter, given back.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use millpond_api::limits::VERCEL_VISIBILITY_BODY_BYTES_MAX;
use millpond_api::vercel::answer::{self, Detail};
use millpond_api::vercel::handle::{ReceiptHandle, group_tag};
use millpond_api::vercel::{header, visibility};
use millpond_api::{ErrorCode, time};
use millpond_core::command::{Holder, LeaseRef, MessageRef, Require, Settle, SettleAction, Settlement};
use millpond_core::id::{LeaseGeneration, MessageId, Sequence};
use millpond_core::outcome::WhyStale;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, Rejection};

use super::{Call, Refusal};
use crate::app::App;
use crate::handlers::unexpected;

pub(super) async fn acknowledge(app: &App, call: &Call<'_>) -> Result<Response, Refusal> {
    settle(app, call, &handle_of(call)?, SettleAction::Ack).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Renewal, retry after a while and release in one.
pub(super) async fn change(app: &App, call: &Call<'_>, body: Body) -> Result<Response, Refusal> {
    let handle = handle_of(call)?;
    let body = app.bodies.read(body, VERCEL_VISIBILITY_BODY_BYTES_MAX).await?;
    let timeout = visibility::parse(&body)?;
    let action = match timeout {
        Duration::ZERO => SettleAction::Nack(Some(timeout)),
        _ => SettleAction::Extend(Some(timeout)),
    };
    settle(app, call, &handle, action).await?;
    let mut response = Response::new(Body::from(answer::CHANGED));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer::JSON));
    Ok(response)
}

fn handle_of(call: &Call<'_>) -> Result<ReceiptHandle, Refusal> {
    ReceiptHandle::parse(&call.names.id).ok_or_else(Refusal::not_found)
}

async fn settle(
    app: &App,
    call: &Call<'_>,
    handle: &ReceiptHandle,
    action: SettleAction,
) -> Result<(), Refusal> {
    let message: MessageId = handle.message_id.parse().map_err(|_| Refusal::not_found())?;
    if handle.group_tag != group_tag(&call.names.group) {
        return Err(of_another_group(app, call, message).await?);
    }
    let delivery = Sequence(handle.delivery);
    let settlement = Settlement {
        queue: call.group(),
        lease: LeaseRef { delivery, message, generation: LeaseGeneration(handle.generation) },
        action,
        holder: Holder {
            asked_at: header::client_time(|name| call.header(name)).map(Timestamp::from_millis),
            partition: call.deployment.map(Into::into),
        },
    };
    let settle = Settle { settlements: vec![settlement], sends: Vec::new(), require: Require::Fresh };
    match app.ask(&call.environment, Command::Settle(settle)).await?.outcome {
        Outcome::Settled { stale, .. } => {
            stale.first().map_or(Ok(()), |stale| no_longer_held(stale.why, action))
        }
        Outcome::Rejected(Rejection::BeyondExpiry { expires_at, requested }) => {
            Err(beyond_expiry(expires_at, requested))
        }
        Outcome::Rejected(rejection) => Err(rejection.into()),
        other => Err(unexpected(&other).into()),
    }
}

/// That a message was acknowledged already is what a holder wants who acknowledges it.
fn no_longer_held(why: WhyStale, action: SettleAction) -> Result<(), Refusal> {
    let text = match why {
        WhyStale::Acked if action == SettleAction::Ack => return Ok(()),
        WhyStale::Acked => answer::NOT_IN_FLIGHT,
        WhyStale::Unknown => return Err(Refusal::not_found()),
        WhyStale::Over => answer::LEASE_EXPIRED,
        WhyStale::Returned => answer::NOT_IN_FLIGHT,
        WhyStale::Settling | WhyStale::Taken => answer::NOT_THE_HOLDER,
    };
    Err(Refusal::new(ErrorCode::LeaseStale, 409, text))
}

/// A lease of another group says nothing about this one, for which the message is not in flight by it.
async fn of_another_group(app: &App, call: &Call<'_>, message: MessageId) -> Result<Refusal, Refusal> {
    let command = Command::GetMessage(MessageRef { queue: call.log(), message });
    match app.ask(&call.environment, command).await?.outcome {
        Outcome::Message(_) => Ok(Refusal::new(ErrorCode::LeaseStale, 409, answer::NOT_IN_FLIGHT)),
        Outcome::Rejected(rejection) => Err(rejection.into()),
        other => Err(unexpected(&other).into()),
    }
}

fn beyond_expiry(expires_at: Timestamp, requested: Timestamp) -> Refusal {
    let shown = |at: Timestamp| Detail::Text(time::render_millis(at.as_millis()));
    Refusal::new(ErrorCode::BeyondExpiry, 400, answer::BEYOND_EXPIRY)
        .with("messageExpiresAt", shown(expires_at))
        .with("requestedExpiresAt", shown(requested))
}
