//! Calls about triggers, deployments and the signing secret.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::trigger::{Deployment, NewTrigger, SigningSecret, Trigger, TriggerPushes};
use crate::wire;

/// Calls about the triggers of the client's environment. Each fails as [`Error`] says; a code that only one call has stands with it.
#[derive(Clone, Copy, Debug)]
pub struct Triggers<'c>(&'c Client);

/// Calls about its deployments, likewise.
#[derive(Clone, Copy, Debug)]
pub struct Deployments<'c>(&'c Client);

#[derive(Deserialize)]
struct TriggerList {
    triggers: Vec<Trigger>,
}

#[derive(Deserialize)]
struct DeploymentList {
    deployments: Vec<Deployment>,
}

impl Client {
    /// What pushes messages.
    pub fn triggers(&self) -> Triggers<'_> {
        Triggers(self)
    }

    /// Triggers that are put and removed together.
    pub fn deployments(&self) -> Deployments<'_> {
        Deployments(self)
    }

    /// What pushes of the client's environment are signed with. It is made when it is first asked for.
    ///
    /// # Errors
    /// None of its own.
    pub async fn signing_secret(&self) -> Result<SigningSecret, Error> {
        self.fetch(Call::get(&self.collection_path("signing-secret"))).await
    }

    /// Replaces the secret; the one so far signs as well for the time of `grace`, up to 30 days, 24 hours if it is none.
    ///
    /// It is tried once: another try would replace what the first one made. When an answer is lost, [`Client::signing_secret`] tells
    /// what became of it.
    ///
    /// # Errors
    /// None of its own.
    pub async fn rotate_signing_secret(&self, grace: Option<Duration>) -> Result<SigningSecret, Error> {
        let call = Call::harmless(&format!("{}:rotate", self.collection_path("signing-secret")));
        let call = match grace {
            Some(grace) => call.json(&json!({ "grace": wire::render_duration(grace) })),
            None => call,
        };
        self.fetch_once(call).await
    }
}

impl Triggers<'_> {
    /// Makes a trigger, under an id that the server makes unless there is one; with `validate_only` it only checks whether it could.
    ///
    /// # Errors
    /// `target_not_allowed`, `trigger_already_exists`, `trigger_limit`, `trigger_overlaps`. A try whose answer was lost may have made
    /// the trigger, so that the next one says that it exists or overlaps.
    pub async fn create(
        &self,
        id: Option<&str>,
        trigger: &NewTrigger,
        validate_only: bool,
    ) -> Result<Trigger, Error> {
        let call = Call::harmless(&self.0.collection_path("triggers")).query_option("trigger_id", id);
        self.0.fetch(call.query_flag("validate_only", validate_only).json(trigger)).await
    }

    /// All triggers of the environment, in the order of their ids.
    ///
    /// # Errors
    /// None of its own.
    pub async fn list(&self) -> Result<Vec<Trigger>, Error> {
        let call = Call::get(&self.0.collection_path("triggers"));
        self.0.fetch::<TriggerList>(call).await.map(|answer| answer.triggers)
    }

    /// A trigger, and how it is doing.
    ///
    /// # Errors
    /// `trigger_not_found`.
    pub async fn get(&self, id: &str) -> Result<Trigger, Error> {
        self.0.fetch(Call::get(&self.path(id))).await
    }

    /// Its last pushes.
    ///
    /// # Errors
    /// `trigger_not_found`.
    pub async fn pushes(&self, id: &str) -> Result<TriggerPushes, Error> {
        self.0.fetch(Call::get(&format!("{}/pushes", self.path(id)))).await
    }

    /// Deletes a trigger: nothing is pushed by it any more when this is answered. With `allow_missing` it is no error if it is not
    /// there.
    ///
    /// # Errors
    /// `trigger_not_found`.
    pub async fn delete(&self, id: &str, allow_missing: bool) -> Result<(), Error> {
        self.0.fetch::<Value>(delete(&self.path(id), allow_missing)).await.map(drop)
    }

    fn path(&self, id: &str) -> String {
        self.0.member_path("triggers", id)
    }
}

impl Deployments<'_> {
    /// Puts triggers in the place of those of a deployment, and makes it the current one; with `validate_only` it only checks whether
    /// it could.
    ///
    /// # Errors
    /// `target_not_allowed`, `trigger_already_exists`, `trigger_limit`, `trigger_overlaps`.
    pub async fn deploy(
        &self,
        id: &str,
        triggers: &[NewTrigger],
        validate_only: bool,
    ) -> Result<Deployment, Error> {
        let call = Call::harmless(&self.0.collection_path("deployments")).query("deployment_id", id);
        let call = call.query_flag("validate_only", validate_only);
        self.0.fetch(call.json(&json!({ "triggers": triggers }))).await
    }

    /// All deployments of the environment, in the order of their ids.
    ///
    /// # Errors
    /// None of its own.
    pub async fn list(&self) -> Result<Vec<Deployment>, Error> {
        let call = Call::get(&self.0.collection_path("deployments"));
        self.0.fetch::<DeploymentList>(call).await.map(|answer| answer.deployments)
    }

    /// A deployment with its triggers.
    ///
    /// # Errors
    /// `deployment_not_found`.
    pub async fn get(&self, id: &str) -> Result<Deployment, Error> {
        self.0.fetch(Call::get(&self.path(id))).await
    }

    /// Removes a deployment with its triggers: nothing is pushed by them any more when this is answered. With `allow_missing` it is
    /// no error if it is not there.
    ///
    /// # Errors
    /// `deployment_not_found`.
    pub async fn delete(&self, id: &str, allow_missing: bool) -> Result<(), Error> {
        self.0.fetch::<Value>(delete(&self.path(id), allow_missing)).await.map(drop)
    }

    fn path(&self, id: &str) -> String {
        self.0.member_path("deployments", id)
    }
}

/// A removal carries no key: the server remembers none for it.
fn delete(path: &str, allow_missing: bool) -> Call {
    Call::unkeyed(Method::DELETE, path).query_flag("allow_missing", allow_missing)
}
