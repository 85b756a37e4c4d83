//! Changing a queue: what the call names is laid over what there is, and takes its place if nobody was quicker.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use axum::response::Response;
use millpond_api::queue::QueueUpdate;
use millpond_api::{ErrorCode, Fault};
use millpond_core::command::{Idempotency, UpdateQueue};
use millpond_core::outcome::QueueView;
use millpond_core::{Command, Outcome};

use super::queues::{show, wrong_verb};
use super::unexpected;
use crate::app::App;
use crate::convert::queue;
use crate::error::ApiError;
use crate::extract::{Place, Query};
use crate::idempotency::{keyed_body, mark};

/// How often a change is laid over what there is anew, because others were quicker. Each time one of them got through.
const TRIES_MAX: usize = 100;

/// An etag that no queue has.
const NO_ETAG: &str = "";

/// What is asked for.
struct Change {
    queue: Box<str>,
    update: QueueUpdate,
    /// The etag that the client has in mind.
    etag: Option<Box<str>>,
    allow_missing: bool,
    validate_only: bool,
    key: Option<Idempotency>,
}

pub(crate) async fn update(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let place = Place::of(&app, parts.uri.path())?;
    if place.verb.is_some() {
        return Err(wrong_verb(&place, &parts.method));
    }
    let query = Query::of(&parts.uri, &["allow_missing", "etag", "update_mask", "validate_only"])?;
    let queue = place.queue()?;
    let (allow_missing, validate_only) = (query.flag("allow_missing")?, query.flag("validate_only")?);
    let if_match = IfMatch::of(&parts.headers)?;
    let (body, key) = keyed_body(&app, &parts, body).await?;
    let update = QueueUpdate::parse(place.kind, &body, query.text("update_mask"))?;
    let own = place.name_of(&queue)?;
    if let Some(name) = update.body.name.as_ref().filter(|name| **name != own) {
        return Err(ApiError::field("name", name.to_string(), format!("name is {name}, expected {own}")));
    }
    let etags = [query.text("etag"), if_match.etag(), update.body.etag.as_deref()];
    let change = Change {
        queue,
        etag: one_etag(etags)?.map(Into::into),
        allow_missing: allow_missing && if_match != IfMatch::Any,
        validate_only,
        key,
        update,
    };
    let (outcome, repeated) = change.carry_out(&app, &place).await?;
    Ok(mark(show(outcome, &place)?, repeated))
}

impl Change {
    /// Lays it over what there is until it goes through. With an etag of the client's it is tried once.
    async fn carry_out(&self, app: &App, place: &Place<'_>) -> Result<(Outcome, bool), ApiError> {
        let mut tries = 1;
        loop {
            let command = self.command(self.current(app, place).await?.as_ref(), place)?;
            let answer = app.submit_once(&place.environment, self.key.clone(), command).await;
            match answer.map_err(|error| error.under(queue::path_of)) {
                Err(error) if self.is_race(&error) && tries < TRIES_MAX => tries += 1,
                answer => return answer,
            }
        }
    }

    /// The queue as it is, if it is there.
    async fn current(&self, app: &App, place: &Place<'_>) -> Result<Option<QueueView>, ApiError> {
        let command = Command::GetQueue { queue: self.queue.clone() };
        match app.submit(&place.environment, command).await.map(|answer| answer.outcome) {
            Ok(Outcome::Queue(view)) => Ok(Some(*view)),
            Ok(other) => Err(unexpected(&other)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn command(&self, current: Option<&QueueView>, place: &Place<'_>) -> Result<Command, ApiError> {
        let home = &place.environment.name;
        if current.is_none() && self.allow_missing && self.etag.is_none() {
            let create =
                queue::to_create(place.kind, self.queue.clone(), &self.update, home, self.validate_only);
            return Ok(Command::CreateQueue(create?));
        }
        // A queue that was not there when it was looked for must not be changed as if it had been seen.
        let seen = current.map_or_else(|| NO_ETAG.into(), |view| view.etag().into());
        let (spec, annotations) = queue::merge(place.kind, current, &self.update, home)?;
        Ok(Command::UpdateQueue(UpdateQueue {
            name: self.queue.clone(),
            spec,
            annotations,
            etag: Some(self.etag.clone().unwrap_or(seen)),
            allow_missing: self.allow_missing,
            validate_only: self.validate_only,
        }))
    }

    /// Whether somebody else was quicker, and that does not matter to the client.
    fn is_race(&self, error: &ApiError) -> bool {
        let quicker = [
            ErrorCode::EtagMismatch,
            ErrorCode::GroupAlreadyExists,
            ErrorCode::QueueAlreadyExists,
            ErrorCode::TopicAlreadyExists,
        ];
        self.etag.is_none() && quicker.contains(&error.code())
    }
}

/// The header `If-Match`.
#[derive(Clone, PartialEq, Eq, Debug)]
enum IfMatch {
    Absent,
    /// Whatever is there.
    Any,
    Etag(String),
}

impl IfMatch {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut values = headers.get_all(IF_MATCH).iter();
        let Some(value) = values.next() else { return Ok(Self::Absent) };
        let text = String::from_utf8_lossy(value.as_bytes());
        let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match (&*text, quoted, values.next()) {
            ("*", _, None) => Ok(Self::Any),
            (_, Some(etag), None) if !etag.contains('"') => Ok(Self::Etag(etag.to_owned())),
            _ => Err(Fault::new("one etag in quotes, or *").at(IF_MATCH, &text).into()),
        }
    }

    fn etag(&self) -> Option<&str> {
        match self {
            Self::Etag(etag) => Some(etag),
            Self::Absent | Self::Any => None,
        }
    }
}

/// Characters of the longest etag that is looked at: no queue has one as long.
pub(super) const ETAG_CHARS_MAX: usize = 63;

/// The etag of a call, which may stand in several places. One that no queue can have is refused whether or not there is
/// a queue.
pub(super) fn one_etag<const N: usize>(given: [Option<&str>; N]) -> Result<Option<&str>, ApiError> {
    if let Some(long) = given.iter().flatten().find(|etag| etag.chars().count() > ETAG_CHARS_MAX) {
        let detail = format!("etag has {} characters, limit {ETAG_CHARS_MAX}", long.chars().count());
        return Err(ApiError::field("etag", *long, detail));
    }
    let mut given = given.into_iter().flatten();
    let first = given.next();
    match (first, given.find(|other| Some(*other) != first)) {
        (Some(first), Some(other)) => {
            let detail = format!("etag is {other}, expected {first}, which is given as well");
            Err(ApiError::field("etag", other, detail))
        }
        _ => Ok(first),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn if_match_holds_one_etag_or_a_star() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IF_MATCH, HeaderValue::from_static(value));
            }
            IfMatch::of(&headers).ok()
        };
        assert_eq!(of(&[]), Some(IfMatch::Absent));
        assert_eq!(of(&["*"]), Some(IfMatch::Any));
        assert_eq!(of(&["\"a-1\""]), Some(IfMatch::Etag("a-1".to_owned())));
        for bad in
            [&["a-1"][..], &["\"a\", \"b\""], &["W/\"a\""], &["\""], &[""], &["\"a\"", "\"a\""], &["*", "*"]]
        {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn etags_of_one_call_agree() {
        assert_eq!(one_etag([None, None, None]).ok(), Some(None));
        assert_eq!(one_etag([None, Some("a"), None]).ok(), Some(Some("a")));
        assert_eq!(one_etag([Some("a"), Some("a"), Some("a")]).ok(), Some(Some("a")));
        assert!(one_etag([Some("a"), None, Some("b")]).is_err());
        let longest = "a".repeat(ETAG_CHARS_MAX);
        assert_eq!(one_etag([Some(longest.as_str())]).ok(), Some(Some(longest.as_str())));
        assert!(one_etag([Some((longest + "a").as_str())]).is_err());
    }
}
