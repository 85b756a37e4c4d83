//! `:send`: one call, four forms, told apart by content type and headers.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use millpond_api::duration;
use millpond_api::event::binary;
use millpond_api::limits::CALL_BYTES_MAX;
use millpond_api::name::Kind;
use millpond_api::send::{
    SEND_PARAMETERS, SendForm, SendRequest, TOPIC_SEND_PARAMETERS, has_event_headers, parse_delay,
    parse_priority, parse_time_to_live, render_sent,
};
use millpond_core::command::{NewMessage, Send, Start};
use millpond_core::outcome::Sent;
use millpond_core::{Command, Outcome};

use super::{json, unexpected};
use crate::app::App;
use crate::convert::message::content_of;
use crate::error::ApiError;
use crate::extract::{self, Place, Query};
use crate::idempotency::{CallDigest, Key, event_headers, mark};
use crate::incoming::{self, Draft, Options};
use crate::making::make;

pub(super) async fn send(
    app: &App,
    place: &Place<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let is_topic = place.kind == Kind::Topic;
    let query = Query::of(&parts.uri, if is_topic { TOPIC_SEND_PARAMETERS } else { SEND_PARAMETERS })?;
    let options = read_options(&query)?;
    let headers = &parts.headers;
    let has_event = has_event_headers(headers.keys().map(|name| name.as_str()));
    let form = SendForm::choose(extract::content_type(headers), has_event)?;
    let partition = query.text("partition").map(|id| partition_of(place, id)).transpose()?;
    let makes: Vec<_> = partition.clone().map(|name| make(name, Start::default())).into_iter().collect();
    let queue = partition.map_or_else(|| place.queue(), Ok)?;
    let key = Key::of(headers)?;
    if form == SendForm::Binary {
        let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
        let event = binary::parse_attributes(event_headers(headers), content_type)?;
        let digest = Some(CallDigest::of(parts));
        let environment = &place.environment;
        let draft = Draft { environment, queue, makes, event, options, key, digest };
        return Ok(answer(&incoming::send(app, draft, body).await?));
    }
    let body = app.bodies.read(body, CALL_BYTES_MAX).await?;
    let messages = with_options(options, SendRequest::parse(form, &body)?)?;
    let send = Send { queue, messages, idempotency: key.with(parts, &body) };
    match app.submit_making(&place.environment, &makes, Command::Send(send)).await?.outcome {
        Outcome::Sent(sent) => Ok(answer(&sent)),
        other => Err(unexpected(&other)),
    }
}

fn partition_of(place: &Place<'_>, id: &str) -> Result<Box<str>, ApiError> {
    Kind::Partition.check_id(id).map_err(|fault| fault.at("partition", id))?;
    place.part(Kind::Partition, id)
}

fn answer(sent: &Sent) -> Response {
    let ids: Vec<String> = sent.ids.iter().map(ToString::to_string).collect();
    mark(json(render_sent(&ids)), sent.repeated)
}

/// Options that stand in the query.
fn read_options(query: &Query<'_>) -> Result<Options, ApiError> {
    let delay = query.text("delay").map(|text| parse_delay("delay", text)).transpose()?;
    let priority = query.text("priority").map(|text| parse_priority("priority", text)).transpose()?;
    let time_to_live = query.text("ttl").map(|text| parse_time_to_live("ttl", text)).transpose()?;
    Ok(Options { delay, priority: priority.unwrap_or(0), time_to_live })
}

/// The messages, each with the options of the call.
fn with_options(options: Options, request: SendRequest) -> Result<Vec<NewMessage>, ApiError> {
    if options.delay.is_some() && request.delay.is_some() {
        let value = duration::render(options.delay.unwrap_or_default());
        return Err(ApiError::field(
            "delay",
            value,
            "delay stands in the query and in the body, expected one",
        ));
    }
    let options = Options { delay: options.delay.or(request.delay), ..options };
    Ok(request.events.into_iter().map(|event| options.message(content_of(event))).collect())
}
