//! The secret that an environment's pushes are signed with.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;

use crate::input_error::InputError;
use crate::limits::{SECRET_GRACE_DEFAULT, SECRET_GRACE_MAX};
use crate::queue::as_time;
use crate::reader::Node;
use crate::time;

/// Fields of a rotation.
pub(crate) const ROTATE_NAMES: &[&str] = &["grace"];
pub(crate) const GRACE: RangeInclusive<Duration> = Duration::ZERO..=SECRET_GRACE_MAX;

/// What `:rotate` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotateRequest {
    /// How long the secret so far goes on signing beside the new one: up to 30 days.
    pub grace: Duration,
}

impl RotateRequest {
    /// Reads a body; no body at all gives the default.
    pub fn parse(body: &[u8]) -> Result<RotateRequest, InputError> {
        let root = Node::optional_root(body)?;
        let grace = root.object(ROTATE_NAMES)?.optional("grace", |node| node.duration(GRACE))?;
        Ok(RotateRequest { grace: grace.unwrap_or(SECRET_GRACE_DEFAULT) })
    }
}

/// The secret as it is answered.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct SigningSecret {
    /// `whsec_` and 32 bytes in base64, as Standard Webhooks write it.
    pub secret: String,
    /// Since when it signs, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub since: i64,
    /// Until when the one before signs as well, in Unix milliseconds. None: there is none.
    #[serde(serialize_with = "as_optional_time")]
    pub previous_until: Option<i64>,
}

impl SigningSecret {
    /// The answer as JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("strings serialize")
    }
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SigningSecret").field("since", &self.since).finish_non_exhaustive()
    }
}

fn as_optional_time<S: serde::Serializer>(millis: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    millis.map(time::render).serialize(serializer)
}
