//! `:lease`: takes messages, and waits for them if it is told to.
//!
//! A client that hangs up ends this future, and with it the engine's; a server that drains answers an empty list. What
//! was granted in the meantime is taken back (`delivery`).

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use millpond_api::event::batch;
use millpond_api::lease::LeaseRequest;
use millpond_api::limits::{CALL_BYTES_MAX, LEASE_ANSWER_BYTES_MAX};
use millpond_api::name::Kind;
use millpond_core::command::{Lease, Reading, WaiterId};
use millpond_core::{Command, Outcome};
use millpond_engine::Answer;

use super::{JSON, unexpected};
use crate::app::App;
use crate::convert::message::render_grants;
use crate::convert::queue;
use crate::delivery::{Deliveries, ReceiptBody};
use crate::error::ApiError;
use crate::extract::{self, Place, Query};
use crate::making::make;
use crate::request::Phases;

pub(super) async fn lease(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    Query::of(&parts.uri, &[])?;
    let body = extract::json_body(app, &parts.headers, body, CALL_BYTES_MAX).await?;
    let request = LeaseRequest::parse(place.kind, &body)?;
    let (queue, reading, makes) = match request.group {
        None => (place.queue()?, Reading::default(), Vec::new()),
        Some(group) => {
            let name = place.part(Kind::Group, &group.group)?;
            let partition = group.partition.map(Into::into);
            let reading =
                Reading { partition, in_flight_max: group.max_in_flight, look: false, ..Reading::default() };
            (name.clone(), reading, vec![make(name, queue::start_to_core(group.start))])
        }
    };
    let command = Command::Lease(Lease {
        queue,
        max_messages: request.max_messages,
        min_messages: request.min_messages,
        visibility_timeout: request.visibility_timeout,
        wait: request.wait,
        max_wait: request.max_wait,
        // The engine names the call.
        waiter: WaiterId(0),
        reading,
    });
    Phases::may_wait(request.wait);
    let submitted = app.submit_making(&place.environment, &makes, command);
    let answer = if request.wait.is_zero() {
        Some(submitted.await?)
    } else {
        let mut shutdown = app.shutdown.clone();
        tokio::select! {
            biased;
            answer = submitted => Some(answer?),
            () = shutdown.draining() => None,
        }
    };
    let answer = answer.map(|mut answer| {
        answer.keep_bytes(LEASE_ANSWER_BYTES_MAX);
        answer
    });
    render(place, answer, wants_batch(&parts.headers), parts.extensions.get::<Deliveries>())
}

fn render(
    place: &Place<'_>,
    answer: Option<Answer>,
    as_batch: bool,
    deliveries: Option<&Deliveries>,
) -> Result<Response, ApiError> {
    let (text, receipt) = match answer {
        None => (render_grants(place, &[], &[], as_batch)?, None),
        Some(Answer { outcome: Outcome::Leased(grants), contents, receipt, .. }) => {
            (render_grants(place, &grants, &contents, as_batch)?, receipt)
        }
        Some(Answer { outcome, .. }) => return Err(unexpected(&outcome)),
    };
    let bytes = Bytes::from(text);
    let body = match receipt {
        Some(receipt) => Body::new(ReceiptBody::new(bytes, receipt, deliveries.cloned())),
        None => Body::from(bytes),
    };
    let mut response = Response::new(body);
    let media_type = if as_batch { batch::MEDIA_TYPE } else { JSON };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(response)
}

/// Whether the client asks for a batch of CloudEvents by name; our own form is what it gets otherwise.
fn wants_batch(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(batch::MEDIA_TYPE));
        let refused = |weight: &str| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0);
        named && !parts.any(|parameter| parameter.strip_prefix("q=").is_some_and(refused))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_given_to_who_names_it() {
        let wants = |accept: &'static str| {
            wants_batch(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(wants("application/cloudevents-batch+json"));
        assert!(wants("text/html, Application/CloudEvents-Batch+JSON ;q=0.5"));
        assert!(!wants("application/cloudevents-batch+json;q=0"));
        assert!(!wants("*/*") && !wants("application/json") && !wants(""));
        assert!(!wants_batch(&HeaderMap::new()));
    }
}
