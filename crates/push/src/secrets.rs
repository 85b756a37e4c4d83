//! What an environment's pushes are signed with at a time.

use millpond_core::row::SecretRow;
use millpond_core::time::Timestamp;

use crate::signature::Secret;

#[derive(Debug, Default)]
pub(crate) struct Secrets {
    current: Option<Secret>,
    /// With the time until which it signs too.
    previous: Option<(Secret, Timestamp)>,
}

impl Secrets {
    /// What cannot be read signs nothing.
    pub(crate) fn of(row: &SecretRow) -> Self {
        let read = |text: &str| {
            let secret = Secret::parse(text).ok();
            if secret.is_none() {
                tracing::error!("a stored secret is none: it signs no push");
            }
            secret
        };
        let previous = row.previous.as_ref();
        let previous = previous.and_then(|(text, until)| Some((read(text)?, *until)));
        Self { current: read(&row.current), previous }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.previous.is_none()
    }

    pub(crate) fn current(&self) -> Option<&Secret> {
        self.current.as_ref()
    }

    /// All that sign at a time.
    pub(crate) fn in_force(&self, now: Timestamp) -> Vec<Secret> {
        let previous = self.previous.iter().filter(|(_, until)| *until > now).map(|(secret, _)| secret);
        self.current.iter().chain(previous).cloned().collect()
    }
}
