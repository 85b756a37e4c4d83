//! What is made by being used: groups and partitions, and on Vercel's wire topics.

use millpond_core::command::{CreateQueue, Idempotency, Once, Start};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome, Rejection};
use millpond_engine::Answer;

use crate::app::App;
use crate::convert::queue::NO_ANNOTATIONS;
use crate::error::ApiError;
use crate::extract::Environment;

/// How often a command is given: somebody may delete what was just made.
const TRIES: usize = 10;

/// A topic, group or partition of this name, with the policies that such a thing has unless told.
pub(crate) fn make(name: Box<str>, start: Start) -> CreateQueue {
    CreateQueue {
        name,
        start,
        spec: QueueSpec::topic(),
        annotations: NO_ANNOTATIONS.into(),
        validate_only: false,
    }
}

impl App {
    /// As [`App::ask`]; if what the core misses is among `makes`, all of these are made, in their order, and the command is given
    /// again.
    pub(crate) async fn ask_making(
        &self,
        environment: &Environment,
        makes: &[CreateQueue],
        command: Command,
    ) -> Result<Answer, ApiError> {
        for _ in 1..TRIES {
            if makes.is_empty() {
                break;
            }
            let mut answer = self.ask(environment, command.clone()).await?;
            let Outcome::Rejected(Rejection::QueueNotFound { name }) = &answer.outcome else {
                return Ok(answer);
            };
            if !makes.iter().any(|make| make.name == *name) {
                return Ok(answer);
            }
            for make in makes {
                let made = self.ask(environment, Command::CreateQueue(make.clone())).await?.outcome;
                match made {
                    // Somebody else was quicker, or it was there all the time.
                    Outcome::Rejected(Rejection::QueueAlreadyExists { .. }) => {}
                    Outcome::Rejected(_) => {
                        answer.outcome = made;
                        return Ok(answer);
                    }
                    _ => {}
                }
            }
        }
        self.ask(environment, command).await
    }

    /// The same, but a refusal is an error.
    pub(crate) async fn submit_making(
        &self,
        environment: &Environment,
        makes: &[CreateQueue],
        command: Command,
    ) -> Result<Answer, ApiError> {
        let answer = self.ask_making(environment, makes, command).await?;
        match answer.outcome {
            Outcome::Rejected(rejection) => Err(rejection.into()),
            _ => Ok(answer),
        }
    }

    /// As [`App::submit_once`], likewise.
    pub(crate) async fn submit_once_making(
        &self,
        environment: &Environment,
        makes: &[CreateQueue],
        key: Option<Idempotency>,
        command: Command,
    ) -> Result<(Outcome, bool), ApiError> {
        let command = match key {
            Some(idempotency) => Command::Once(Once { idempotency, command: Box::new(command) }),
            None => command,
        };
        match self.submit_making(environment, makes, command).await?.outcome {
            Outcome::Repeated(first) => Ok((*first, true)),
            outcome => Ok((outcome, false)),
        }
    }
}
