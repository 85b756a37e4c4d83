//! What handlers take out of a request: the place it names, its query parameters, its body.
//!
//! Paths are read raw: ids have one spelling, so nothing is decoded (design-holes C14). Parameters and fields that do
//! not exist are refused, and so are bodies beyond their limit, before they are read where their length is told.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Uri};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use millpond_api::name::{EnvironmentName, Kind, ResourceName, check_topic_id, parse_id, split_verb};
use millpond_api::send::SendForm;
use millpond_api::{ErrorCode, InputError};
use percent_encoding::percent_decode_str;

use crate::app::App;
use crate::convert::name;
use crate::error::ApiError;
use crate::paths;

/// Segments of the longest path behind the version.
const SEGMENTS_MAX: usize = 11;

/// An environment, and its name as text, which is how the engine knows it.
pub(crate) struct Environment {
    pub(crate) name: EnvironmentName,
    pub(crate) text: String,
}

impl Environment {
    pub(crate) fn new(name: EnvironmentName) -> Self {
        Self { text: name.to_string(), name }
    }
}

/// What a path names: a collection, a queue, a topic or a part of one, or something of it. Ids stand as they are in the path.
pub(crate) struct Place<'a> {
    pub(crate) environment: Arc<Environment>,
    /// What it is, or what is in the collection.
    pub(crate) kind: Kind,
    /// The topic that a group or a partition belongs to.
    topic: &'a str,
    /// Its own id.
    id: &'a str,
    pub(crate) verb: Option<&'a str>,
    /// The id of a message, where the path has one.
    pub(crate) message: &'a str,
}

impl<'a> Place<'a> {
    /// Reads the path of a route in [`paths`] that names queues or topics.
    pub(crate) fn of(app: &App, path: &'a str) -> Result<Self, ApiError> {
        let (environment, below) = split(app, path)?;
        let (kind, topic, own) = match below[..] {
            ["queues", ref rest @ ..] => (Kind::Queue, "", rest),
            ["topics", topic, "groups", ref rest @ ..] => (Kind::Group, topic, rest),
            ["topics", topic, "partitions", ref rest @ ..] => (Kind::Partition, topic, rest),
            ["topics", ref rest @ ..] => (Kind::Topic, "", rest),
            _ => return Err(no_route(path)),
        };
        let (id, verb) = split_verb(own.first().copied().unwrap_or_default());
        let topic_verb = split_verb(topic).1;
        if topic_verb.is_some() || verb.is_some() && own.len() > 1 {
            return Err(no_route(path));
        }
        Ok(Self { environment, kind, topic, id, verb, message: own.get(2).copied().unwrap_or_default() })
    }

    /// The core's name of what the path names, its ids checked.
    pub(crate) fn queue(&self) -> Result<Box<str>, ApiError> {
        self.member(self.kind.noun(), self.id)
    }

    /// The same of something in the collection, whose id stands in `field`.
    pub(crate) fn member(&self, field: &str, id: &str) -> Result<Box<str>, ApiError> {
        self.kind.check_id(id).map_err(|fault| fault.at(field, id))?;
        Ok(match self.kind {
            Kind::Group | Kind::Partition => {
                check_topic_id(self.topic).map_err(|fault| fault.at("topic", self.topic))?;
                name::part(self.topic, self.kind, id)
            }
            Kind::Queue => id.into(),
            Kind::Topic => name::topic(id),
        })
    }

    /// The core's name of a group or partition of the topic that the path names. Its id was checked.
    pub(crate) fn part(&self, kind: Kind, id: &str) -> Result<Box<str>, ApiError> {
        check_topic_id(self.id).map_err(|fault| fault.at("topic", self.id))?;
        Ok(name::part(self.id, kind, id))
    }

    /// The topic whose groups or partitions the path names, as the core knows it.
    pub(crate) fn topic(&self) -> Result<Box<str>, ApiError> {
        check_topic_id(self.topic).map_err(|fault| fault.at("topic", self.topic))?;
        Ok(name::topic(self.topic))
    }

    /// The whole name of what the core calls so.
    pub(crate) fn name_of(&self, name: &str) -> Result<ResourceName, ApiError> {
        Ok(name::whole(self.environment.name.clone(), name)?)
    }
}

/// An environment, and the id of a trigger or a deployment of it where the path has one.
pub(crate) struct Member<'a> {
    pub(crate) environment: Arc<Environment>,
    /// What the id is of.
    noun: &'static str,
    id: &'a str,
}

impl<'a> Member<'a> {
    /// Reads the path of a route in [`paths`] that names triggers, deployments or the signing secret.
    pub(crate) fn of(app: &App, path: &'a str) -> Result<Self, ApiError> {
        let (environment, below) = split(app, path)?;
        let (noun, id) = match below[..] {
            ["triggers", id, ..] => ("trigger", id),
            ["deployments", id] => ("deployment", id),
            _ => ("", ""),
        };
        // They have no verbs.
        if split_verb(id).1.is_some() {
            return Err(no_route(path));
        }
        Ok(Self { environment, noun, id })
    }

    /// The id, checked.
    pub(crate) fn id(&self) -> Result<&'a str, ApiError> {
        check_topic_id(self.id).map_err(|fault| fault.at(self.noun, self.id))?;
        Ok(self.id)
    }
}

/// The environment that a path is in, and the segments behind that.
fn split<'a>(app: &App, path: &'a str) -> Result<(Arc<Environment>, Vec<&'a str>), ApiError> {
    let rest = path.strip_prefix(paths::VERSION_PREFIX).unwrap_or_default();
    let segments: Vec<&str> = rest.splitn(SEGMENTS_MAX, '/').collect();
    match segments[..] {
        ["orgs", org, "projects", project, "envs", env, ref below @ ..] => {
            Ok((environment(org, project, env)?, below.to_vec()))
        }
        _ => Ok((Arc::clone(&app.default_environment), segments)),
    }
}

/// A path that no route has.
pub(crate) fn no_route(path: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("no route {path}"))
}

fn environment(org: &str, project: &str, env: &str) -> Result<Arc<Environment>, ApiError> {
    Ok(Arc::new(Environment::new(EnvironmentName::new(org, project, env)?)))
}

/// The organization and project of the path of [`paths::ENVIRONMENTS`].
pub(crate) fn project_of(path: &str) -> Result<(&str, &str), ApiError> {
    let segments: Vec<&str> =
        path.strip_prefix(paths::VERSION_PREFIX).unwrap_or_default().split('/').collect();
    match segments[..] {
        ["orgs", org, "projects", project, "envs"] => {
            parse_id("org", org)?;
            parse_id("project", project)?;
            Ok((org, project))
        }
        _ => Err(no_route(path)),
    }
}

/// Query parameters, each known and given once.
pub(crate) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads the parameters, of which only `known` ones exist.
    pub(crate) fn of(uri: &'a Uri, known: &[&str]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if !known.contains(&name.as_ref()) {
                return Err(unknown_parameter(&name, known));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                let detail = format!("{name} is given twice, expected once");
                return Err(ApiError::field(name, value, detail));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// The value of a parameter. An empty one counts as not given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut pairs = self.pairs.iter();
        pairs.find(|(own, value)| own == name && !value.is_empty()).map(|(_, value)| value.as_ref())
    }

    /// A parameter that is `true` or `false`, the latter if it is not given.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                Err(ApiError::field(name, other, format!("{name} is {other}, expected true or false")))
            }
        }
    }
}

fn decode(text: &str) -> Result<Cow<'_, str>, ApiError> {
    if !text.contains('+') {
        let decoded = percent_decode_str(text).decode_utf8();
        return decoded.map_err(|_| not_utf8(text));
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| not_utf8(text))?;
    Ok(Cow::Owned(decoded.into_owned()))
}

fn not_utf8(text: &str) -> ApiError {
    ApiError::field("query", text, format!("query parameter {text} is not percent-encoded utf-8"))
}

fn unknown_parameter(name: &str, known: &[&str]) -> ApiError {
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let detail = format!("{name} is not a query parameter of this call, known are {known}");
    InputError {
        code: ErrorCode::UnknownField,
        field: Some(name.to_owned()),
        value: None,
        detail,
        limit: None,
    }
    .into()
}

/// The content type, if it is text.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
}

/// The body of a verb other than `send`: JSON, or none at all.
pub(crate) async fn json_body(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, ApiError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    SendForm::choose(content_type(headers), false).and_then(|form| match form {
        SendForm::Native => Ok(()),
        SendForm::Batch | SendForm::Binary | SendForm::Structured => Err(not_json(headers)),
    })?;
    app.bodies.read(body, limit).await
}

fn not_json(headers: &HeaderMap) -> InputError {
    let given = content_type(headers).unwrap_or_default();
    InputError {
        code: ErrorCode::UnsupportedMediaType,
        field: Some("content-type".to_owned()),
        value: Some(given.to_owned()),
        detail: format!("content-type is {given}, expected application/json"),
        limit: None,
    }
}

/// The most bytes that a body can come to: its length if that is told, else the limit. Refuses a told length beyond it.
pub(crate) fn check_told_length(body: &Body, limit: usize) -> Result<usize, ApiError> {
    let hint = body.size_hint();
    let told = hint.lower();
    if told > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(ApiError::too_large("body", format_args!("{told} bytes"), limit));
    }
    let most = hint.exact().and_then(|exact| usize::try_from(exact).ok());
    Ok(most.unwrap_or(limit))
}

/// Reads a body, at most `limit` bytes of it; `grow` is told how many there are before they are kept. Handlers do it by way
/// of `bodies`.
pub(crate) async fn read_body(
    mut body: Body,
    limit: usize,
    mut grow: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Bytes, ApiError> {
    let told = body.size_hint().lower();
    let mut whole = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| {
            ApiError::new(ErrorCode::MalformedJson, format!("body could not be read to its end: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let bytes = whole.len() + joined.len() + data.len();
        if bytes > limit {
            return Err(ApiError::too_large("body", format_args!("more than {limit} bytes"), limit));
        }
        grow(bytes)?;
        // Most bodies are one frame, which is passed on as it is.
        if whole.is_empty() && joined.is_empty() {
            whole = data;
            continue;
        }
        joined.reserve(usize::try_from(told).unwrap_or(0).max(whole.len() + data.len()));
        joined.extend_from_slice(&std::mem::take(&mut whole));
        joined.extend_from_slice(&data);
    }
    Ok(if joined.is_empty() { whole } else { joined.freeze() })
}

/// Refuses a body with anything in it but `{}`.
pub(crate) fn check_no_fields(body: &[u8]) -> Result<(), ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(());
    }
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body).map_err(|error| {
            ApiError::new(ErrorCode::MalformedJson, format!("body is not a json object: {error}"))
        })?;
    match object.keys().next() {
        None => Ok(()),
        Some(name) => {
            let detail = format!("{name} is not a field, this call has none");
            let field = Some(name.clone());
            Err(InputError { code: ErrorCode::UnknownField, field, value: None, detail, limit: None }.into())
        }
    }
}
