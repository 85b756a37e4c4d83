//! The table of operations on triggers, deployments and the signing secret; their paths are those behind the collections,
//! and behind the secret.

use millpond_api::ErrorCode::*;
use millpond_api::schema::{boolean, deployment_id, text, topic_id};
use millpond_core::limits::IDEMPOTENCY_KEY_BYTES_MAX;

use super::operation::Operation;

const TRIGGERS: &str = "triggers";
const DEPLOYMENTS: &str = "deployments";

/// The parameters of what changes something and is not remembered under a key.
fn unkeyed(operation: Operation, why: &str) -> Operation {
    operation.of_engine().header("Idempotency-Key", text(1..=IDEMPOTENCY_KEY_BYTES_MAX), why)
}

fn put(operation: Operation, why: &str) -> Operation {
    unkeyed(operation, why).query("validate_only", boolean(), "Check everything and store nothing.").codes(&[
        TargetNotAllowed,
        TriggerAlreadyExists,
        TriggerLimit,
        TriggerOverlaps,
    ])
}

fn deleted(operation: Operation) -> Operation {
    unkeyed(operation, "Not needed: with `allow_missing` a repetition does no harm.")
        .query("allow_missing", boolean(), "If it is not there, that is no error.")
        .answers("Empty")
        .codes(super::errors::BODY)
}

/// Operations on triggers.
pub(super) fn of_triggers() -> Vec<Operation> {
    let create = Operation::new("post", "", TRIGGERS, "triggers.create")
        .says(
            "Make a trigger",
            "It belongs to no deployment. A trigger is never changed: delete it and make another.",
        )
        .query("trigger_id", topic_id(), "The id of the trigger; the server makes one unless it is given.");
    let delete = Operation::new("delete", "/{trigger}", TRIGGERS, "triggers.delete").says(
        "Delete a trigger",
        "Nothing is pushed by it any more when this is answered. Its messages stay.",
    );
    vec![
        Operation::new("get", "", TRIGGERS, "triggers.list")
            .says("List triggers", "All of them, in the order of their ids, those of deployments too.")
            .of_engine()
            .answers("TriggerList"),
        put(create, "Not remembered: a repetition with the same `trigger_id` is refused.")
            .body("TriggerInput")
            .answers("Trigger"),
        Operation::new("get", "/{trigger}", TRIGGERS, "triggers.get")
            .says("Get a trigger", "And how it is doing.")
            .of_engine()
            .answers("Trigger")
            .codes(&[TriggerNotFound]),
        deleted(delete).codes(&[TriggerNotFound]),
        Operation::new("get", "/{trigger}/pushes", TRIGGERS, "triggers.pushes")
            .says(
                "Get the last pushes",
                "The last 100, newest first, and counts since the server was started.",
            )
            .of_engine()
            .answers("TriggerPushes")
            .codes(&[TriggerNotFound]),
    ]
}

/// Operations on deployments.
pub(super) fn of_deployments() -> Vec<Operation> {
    let create = Operation::new("post", "", DEPLOYMENTS, "deployments.create")
        .says(
            "Deploy",
            "The triggers take the place of those that the deployment had, in one commit, and it becomes the current one.",
        )
        .query("deployment_id", deployment_id(), "The id of the deployment, which is that of its partition.")
        .required();
    let delete = Operation::new("delete", "/{deployment}", DEPLOYMENTS, "deployments.delete").says(
        "Remove a deployment",
        "With its triggers: nothing is pushed by them any more when this is answered. What was sent by it stays until it expires.",
    );
    vec![
        Operation::new("get", "", DEPLOYMENTS, "deployments.list")
            .says(
                "List deployments",
                "All of them, in the order of their ids: there are at most 1,000 triggers.",
            )
            .of_engine()
            .answers("DeploymentList"),
        put(create, "Not needed: a repetition deploys the same again.")
            .body("DeploymentInput")
            .answers("Deployment"),
        Operation::new("get", "/{deployment}", DEPLOYMENTS, "deployments.get")
            .says("Get a deployment", "With its triggers.")
            .of_engine()
            .answers("Deployment")
            .codes(&[DeploymentNotFound]),
        deleted(delete).codes(&[DeploymentNotFound]),
    ]
}

/// Operations on the signing secret.
pub(super) fn of_signing_secret() -> Vec<Operation> {
    let rotate = Operation::new("post", ":rotate", TRIGGERS, "signingSecret.rotate").says(
        "Replace the secret",
        "Pushes are signed with both, until the grace is over. A secret that was replaced before signs no more.",
    );
    vec![
        Operation::new("get", "", TRIGGERS, "signingSecret.get")
            .says("Get the secret that pushes are signed with", "It is made when it is first asked for.")
            .of_engine()
            .answers("SigningSecret"),
        unkeyed(rotate, "Not remembered: a repetition replaces the secret again.")
            .optional_body("RotateInput")
            .answers("SigningSecret"),
    ]
}
