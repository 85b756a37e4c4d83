//! Topics, their partitions and their groups are made by being used: a call that finds one missing makes it and asks again.

use millpond_core::command::{CreateQueue, Start};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome, Rejection};
use millpond_engine::Answer;

use crate::app::App;
use crate::convert::queue::NO_ANNOTATIONS;
use crate::error::ApiError;
use crate::extract::Environment;

/// How often a command is tried: somebody may delete what was just made.
const TRIES: usize = 3;

/// Has the engine do something with the topic, partition or group of this name; it is made if it is not there, a group with
/// this start.
pub(crate) async fn submit(
    app: &App,
    environment: &Environment,
    name: &str,
    start: Start,
    command: Command,
) -> Result<Answer, ApiError> {
    for _ in 1..TRIES {
        let answer = app.ask(environment, command.clone()).await?;
        if !matches!(answer.outcome, Outcome::Rejected(Rejection::QueueNotFound { .. })) {
            return Ok(answer);
        }
        make(app, environment, name, start).await?;
    }
    app.ask(environment, command).await
}

/// Makes what a name stands for, and its topic if that is missing too.
async fn make(app: &App, environment: &Environment, name: &str, start: Start) -> Result<(), ApiError> {
    match make_one(app, environment, name, start).await? {
        Err(Rejection::QueueNotFound { name: topic }) => {
            make_one(app, environment, &topic, Start::default()).await??;
            // Who deletes the topic now makes the caller try again.
            match make_one(app, environment, name, start).await? {
                Err(Rejection::QueueNotFound { .. }) => Ok(()),
                made => Ok(made?),
            }
        }
        made => Ok(made?),
    }
}

async fn make_one(
    app: &App,
    environment: &Environment,
    name: &str,
    start: Start,
) -> Result<Result<(), Rejection>, ApiError> {
    let create = CreateQueue {
        name: name.into(),
        start,
        spec: QueueSpec::topic(),
        annotations: NO_ANNOTATIONS.into(),
        validate_only: false,
    };
    match app.ask(environment, Command::CreateQueue(create)).await?.outcome {
        // Somebody else was as fast.
        Outcome::Rejected(Rejection::QueueAlreadyExists { .. }) => Ok(Ok(())),
        Outcome::Rejected(rejection) => Ok(Err(rejection)),
        _ => Ok(Ok(())),
    }
}
