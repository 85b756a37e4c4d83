//! What is made by being used: a group by its first lease, a partition by the first message that is sent to it.

use millpond_core::command::{CreateQueue, Idempotency, Once, Start};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome, Rejection};
use millpond_engine::Answer;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::Environment;
use crate::request::Phases;

/// A group or partition of this name, with the policies that such a thing has unless told.
pub(crate) fn make(name: Box<str>, start: Start) -> CreateQueue {
    CreateQueue { name, start, spec: QueueSpec::topic(), annotations: "{}".into(), validate_only: false }
}

impl App {
    /// As [`App::submit`]; what the core misses is made, if it is among `makes`, and the command given again.
    pub(crate) async fn submit_making(
        &self,
        environment: &Environment,
        makes: &[CreateQueue],
        command: Command,
    ) -> Result<Answer, ApiError> {
        for _ in makes {
            let answer = Phases::engine(self.engine.submit(&environment.text, command.clone())).await?;
            match &answer.outcome {
                Outcome::Rejected(Rejection::QueueNotFound { name }) => {
                    let Some(make) = makes.iter().find(|make| make.name == *name) else { break };
                    self.make(environment, make).await?;
                }
                Outcome::Rejected(rejection) => return Err(rejection.clone().into()),
                _ => return Ok(answer),
            }
        }
        self.submit(environment, command).await
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

    async fn make(&self, environment: &Environment, make: &CreateQueue) -> Result<(), ApiError> {
        let command = Command::CreateQueue(make.clone());
        match Phases::engine(self.engine.submit(&environment.text, command)).await?.outcome {
            // Somebody else was quicker.
            Outcome::Rejected(Rejection::QueueAlreadyExists { .. }) => Ok(()),
            Outcome::Rejected(rejection) => Err(rejection.into()),
            _ => Ok(()),
        }
    }
}
