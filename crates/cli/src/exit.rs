//! How a command ends: the exit code, and on stderr what could not be done, why, and what to do about it.

use std::io::Write as _;
use std::process::ExitCode;

use millpond_client::{Error, ErrorCode};

use crate::output::safe;

/// The exit codes, as `docs/cli.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Refused by the server, or not found, or not confirmed.
    Refused = 1,
    /// Asked for in a wrong way.
    WrongUsage = 2,
    /// The server cannot be reached, or could not do it now.
    Unreachable = 3,
    /// With `work --drain`, the command failed at least once.
    CommandFailed = 4,
    /// Interrupted before it was done.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command could not be carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    why: String,
    details: Vec<String>,
    advice: Option<String>,
}

/// What commands return.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { exit, what: what.into(), why: why.into(), details: Vec::new(), advice: None }
    }

    /// It was asked for in a wrong way.
    pub(crate) fn usage(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Exit::WrongUsage, what, why)
    }

    /// A call failed. `what` completes "cannot".
    pub(crate) fn call(what: &str, error: &Error) -> Self {
        let exit = match error {
            Error::InvalidArgument { .. } => Exit::WrongUsage,
            error if error.is_retryable() => Exit::Unreachable,
            Error::Refused(_) => Exit::Refused,
            _ => Exit::Unreachable,
        };
        Self { advice: advice(error), ..Self::new(exit, format!("cannot {what}"), error.to_string()) }
    }

    /// Nobody reads what is written; that is for them to decide.
    pub(crate) fn unread() -> Self {
        Self::new(Exit::Done, "", "")
    }

    /// Whether it is only that nobody reads what is written.
    pub(crate) fn is_unread(&self) -> bool {
        self.exit == Exit::Done
    }

    /// SIGINT came.
    pub(crate) fn interrupted(what: impl Into<String>) -> Self {
        Self::new(Exit::Interrupted, what, "interrupted")
    }

    /// Lines that say more: what was found, the end of a traceback.
    pub(crate) fn detail(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Says it, and returns the exit code.
    pub(crate) fn report(&self) -> Exit {
        if self.exit != Exit::Done {
            // If stderr cannot be written either, the exit code is all that is left to say it.
            let _ = std::io::stderr().lock().write_all(self.text().as_bytes());
        }
        self.exit
    }

    /// What is told, line by line.
    pub(crate) fn text(&self) -> String {
        let first = format!("millpond: {}: {}\n", safe(&self.what), safe(&self.why));
        let details = self.details.iter().map(|line| format!("    {}\n", safe(line)));
        let advice = self.advice.iter().map(|advice| format!("  what to do: {}\n", safe(advice)));
        std::iter::once(first).chain(details).chain(advice).collect()
    }
}

/// What helps against an error of a call.
fn advice(error: &Error) -> Option<String> {
    match error {
        Error::InvalidArgument { .. } => None,
        Error::Refused(problem) => Some(match refusal_advice(&problem.code) {
            "" => format!("see {}", problem.type_uri),
            advice => advice.to_owned(),
        }),
        Error::Unanswered { .. } => Some(
            "look whether it has happened before you do it again; the server's log may say more".to_owned(),
        ),
        Error::Unexpected { .. } => {
            Some("check that --server or MILLPOND_URL is the address of a Millpond server".to_owned())
        }
        Error::Unreachable { .. } => Some(
            "start a server with `millpond serve`, or name another with --server URL or MILLPOND_URL"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Advice for the codes that people meet; empty for the rest.
fn refusal_advice(code: &ErrorCode) -> &'static str {
    match code {
        ErrorCode::ByteLimit | ErrorCode::MessageLimit | ErrorCode::QueueLimit => {
            "make room in the environment, or start the server with higher limits (--max-…)"
        }
        ErrorCode::BeyondExpiry => "let the lease last no longer than its message lives",
        ErrorCode::DeploymentNotFound => "`millpond deployment list` shows the deployments there are",
        ErrorCode::EnvironmentNotFound => "check --environment or MILLPOND_ENVIRONMENT",
        ErrorCode::EtagMismatch => "look at it with `millpond queue show` or the like, then decide again",
        ErrorCode::GroupAlreadyExists => "use it, or delete it first to begin anew",
        ErrorCode::GroupNotFound => {
            "`millpond group list --topic TOPIC` shows the groups there are; a lease makes one"
        }
        ErrorCode::HostNotAllowed => "use the server's own address, or start it with --allow-host",
        ErrorCode::IdempotencyKeyReused => {
            "use another --idempotency-key, or send exactly what was sent under it"
        }
        ErrorCode::InvalidField | ErrorCode::MissingField | ErrorCode::UnknownField => {
            "correct it; docs/queues.md, docs/topics.md and docs/triggers.md list every field with its range"
        }
        ErrorCode::MessageNotFound => "it was acked, deleted or has expired, or is in another queue",
        ErrorCode::OutcomeUnknown => "look whether it has happened before you do it again",
        ErrorCode::PayloadTooLarge => "send less at once, or store it elsewhere and send its address",
        ErrorCode::QueueAlreadyExists => "change it with `millpond queue update`",
        ErrorCode::QueueNotFound => {
            "`millpond queue list` shows the queues there are, `millpond queue create QUEUE` makes one"
        }
        ErrorCode::ServerOverloaded | ErrorCode::ShuttingDown | ErrorCode::StorageUnavailable => {
            "try again in a moment"
        }
        ErrorCode::TopicAlreadyExists => "change it with `millpond topic update`",
        ErrorCode::TopicNotFound => {
            "`millpond topic list` shows the topics there are, `millpond topic create TOPIC` makes one"
        }
        ErrorCode::TargetNotAllowed => {
            "use a target on the server's own machine, or have its operator allow the network"
        }
        ErrorCode::TriggerAlreadyExists => "delete it first, or choose another id",
        ErrorCode::TriggerLimit => "remove deployments that are no longer used, or use a `*` for many topics",
        ErrorCode::TriggerNotFound => {
            "`millpond trigger list` shows the triggers there are, `millpond trigger create` makes one"
        }
        ErrorCode::TriggerOverlaps => "use another group, or topics that do not overlap",
        ErrorCode::StorageFull => "free some disk space; acks and leases go on meanwhile",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_follows_from_what_the_caller_can_do() {
        let url = || "http://h".to_owned();
        let unreachable = Error::Unreachable { url: url(), reason: String::new() };
        assert_eq!(Failure::call("x", &unreachable).exit, Exit::Unreachable);
        let argument = Error::InvalidArgument { field: "url", value: String::new(), expected: "another" };
        assert_eq!(Failure::call("x", &argument).exit, Exit::WrongUsage);
        let page = Error::Unexpected { url: url(), status: 404, reason: String::new(), retry_after: None };
        assert_eq!(Failure::call("x", &page).exit, Exit::Unreachable);
    }
}
