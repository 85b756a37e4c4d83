//! Calls about queues as resources.

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::{BULK_ANSWER_MAX, Call, encode};
use crate::client::Client;
use crate::error::Error;
use crate::queue::{Queue, QueuePage, Why};
use crate::request::{DeleteQueue, NewQueue, PurgeTarget, QueueQuery, QueueUpdate, Redriven, Selection};
use crate::wire;

#[derive(Deserialize)]
struct WhyAnswer {
    why: Why,
}

#[derive(Deserialize)]
struct Purged {
    #[serde(with = "wire::number")]
    purged_count: u64,
}

#[derive(Deserialize)]
struct Replayed {
    #[serde(with = "wire::number")]
    replayed_count: u64,
}

#[derive(Serialize)]
struct Redrive<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a str>,
    #[serde(flatten)]
    selection: &'a Selection,
}

/// Each call fails as [`Error`] says; a code that only one call has stands with it.
impl Client {
    /// Makes an environment. Making it again is no error and changes nothing.
    ///
    /// # Errors
    /// See above.
    pub async fn create_environment(&self, org: &str, project: &str, env: &str) -> Result<(), Error> {
        let path = format!("/v1/orgs/{}/projects/{}/envs", encode(org), encode(project));
        self.fetch::<Value>(Call::change(Method::POST, &path).query("env_id", env)).await.map(drop)
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// `queue_already_exists`, `queue_limit`.
    pub async fn create_queue(&self, queue: &NewQueue) -> Result<Queue, Error> {
        let (call, body) = queue.to_call(&self.queues_path(), "queue_id");
        self.fetch(call.json(&body)).await
    }

    /// A page of the environment's queues.
    ///
    /// # Errors
    /// `page_token_invalid`.
    pub async fn list_queues(&self, query: &QueueQuery) -> Result<QueuePage, Error> {
        self.fetch(query.to_call(&self.queues_path())).await
    }

    /// A queue, with exact counts in its status.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn get_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.fetch(Call::get(&self.queue_path(queue))).await
    }

    /// Changes a queue.
    ///
    /// # Errors
    /// `queue_not_found`, `etag_mismatch`.
    pub async fn update_queue(&self, queue: &str, update: &QueueUpdate) -> Result<Queue, Error> {
        self.fetch(update.to_call(&self.queue_path(queue))).await
    }

    /// Deletes a queue and all that is in it.
    ///
    /// # Errors
    /// `queue_not_found`, `etag_mismatch`, `invalid_state` if another queue's dead letters go to it.
    pub async fn delete_queue(&self, queue: &str, how: &DeleteQueue) -> Result<(), Error> {
        self.fetch::<Value>(how.to_call(&self.queue_path(queue))).await.map(drop)
    }

    /// Stops handing messages out.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn pause_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.fetch(self.verb(queue, "pause")).await
    }

    /// Hands messages out again.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn resume_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.fetch(self.verb(queue, "resume")).await
    }

    /// Removes messages; returns how many. What is leased stays.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn purge_queue(&self, queue: &str, target: PurgeTarget) -> Result<u64, Error> {
        let call = self.verb(queue, "purge").within(BULK_ANSWER_MAX);
        let call = match target {
            PurgeTarget::Waiting => call,
            other => call.json(&json!({ "target": other })),
        };
        self.fetch::<Purged>(call).await.map(|answer| answer.purged_count)
    }

    /// Makes dead letters ready again where they are; returns how many. A call that is cut off has done a part and can
    /// be made again.
    ///
    /// # Errors
    /// `queue_not_found`, `invalid_state` if the queue's dead letters go elsewhere.
    pub async fn replay(&self, queue: &str, which: &Selection) -> Result<u64, Error> {
        let call = self.verb(queue, "replay").json(which).within(BULK_ANSWER_MAX);
        self.fetch::<Replayed>(call).await.map(|answer| answer.replayed_count)
    }

    /// Moves dead letters to `destination`, or to the queues that they came from. A call that is cut off has done a part
    /// and can be made again.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn redrive(
        &self,
        queue: &str,
        destination: Option<&str>,
        which: &Selection,
    ) -> Result<Redriven, Error> {
        let body = Redrive { destination, selection: which };
        self.fetch(self.verb(queue, "redrive").json(&body).within(BULK_ANSWER_MAX)).await
    }

    /// Why nothing is handed out.
    ///
    /// # Errors
    /// `queue_not_found`.
    pub async fn why(&self, queue: &str) -> Result<Why, Error> {
        self.why_at(&self.queue_path(queue)).await
    }

    pub(crate) async fn why_at(&self, path: &str) -> Result<Why, Error> {
        self.fetch::<WhyAnswer>(Call::get(&format!("{path}:why"))).await.map(|answer| answer.why)
    }

    /// A verb of a queue that changes something.
    pub(crate) fn verb(&self, queue: &str, verb: &str) -> Call {
        Call::change(Method::POST, &format!("{}:{verb}", self.queue_path(queue)))
    }
}
