//! The client: which server, which environment, and how patiently.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Call, encode};
use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::transport::{Reply, Transport};

/// Calls one server. Clones are cheap and share connections; a runtime of tokio's has to be there.
///
/// A queue is named by its id, in the client's environment, or by its whole name
/// (`orgs/{org}/projects/{project}/envs/{env}/queues/{queue}`); a topic likewise.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    transport: Transport,
    retry: RetryPolicy,
    environment: Option<String>,
}

/// Settings of a client that are not the usual ones.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    url: String,
    retry: RetryPolicy,
    environment: Option<String>,
}

impl ClientBuilder {
    /// How often calls are tried.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The environment of queues that are named by their id, as `orgs/{org}/projects/{project}/envs/{env}`. Unless it is
    /// set, the server's default environment.
    #[must_use]
    pub fn environment(mut self, name: impl Into<String>) -> Self {
        self.environment = Some(name.into());
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// The address or the environment is none.
    pub fn build(self) -> Result<Client, Error> {
        if let Some(name) = &self.environment
            && !is_environment(name)
        {
            return Err(Error::InvalidArgument {
                field: "environment",
                value: name.clone(),
                expected: "orgs/{org}/projects/{project}/envs/{env}",
            });
        }
        let transport = Transport::new(&self.url)?;
        let shared = Shared { transport, retry: self.retry, environment: self.environment };
        Ok(Client { shared: Arc::new(shared) })
    }
}

impl Client {
    /// A client of the server at `http://HOST:PORT`, with usual settings.
    ///
    /// # Errors
    /// It is no such address.
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// A client with settings of its own.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder { url: url.into(), retry: RetryPolicy::default(), environment: None }
    }

    /// The address of the server.
    pub fn url(&self) -> &str {
        self.shared.transport.base()
    }

    /// How often calls are tried.
    pub fn retry_policy(&self) -> RetryPolicy {
        self.shared.retry
    }

    /// Whether the server is there and takes calls.
    ///
    /// # Errors
    /// It is not, or it is going down.
    pub async fn health(&self) -> Result<(), Error> {
        self.fetch::<Value>(Call::get("/healthz")).await.map(drop)
    }

    /// Path of the queues of the client's environment.
    pub(crate) fn queues_path(&self) -> String {
        self.collection_path("queues")
    }

    /// Path of a queue.
    pub(crate) fn queue_path(&self, queue: &str) -> String {
        self.member_path("queues", queue)
    }

    /// Path of the topics of the client's environment.
    pub(crate) fn topics_path(&self) -> String {
        self.collection_path("topics")
    }

    /// Path of a topic.
    pub(crate) fn topic_path(&self, topic: &str) -> String {
        self.member_path("topics", topic)
    }

    pub(crate) fn collection_path(&self, collection: &str) -> String {
        match &self.shared.environment {
            Some(name) => format!("/v1/{}/{collection}", encode_name(name)),
            None => format!("/v1/{collection}"),
        }
    }

    pub(crate) fn member_path(&self, collection: &str, name: &str) -> String {
        if is_member(collection, name) {
            format!("/v1/{}", encode_name(name))
        } else {
            format!("{}/{}", self.collection_path(collection), encode(name))
        }
    }

    /// Makes a call and reads its JSON.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        call.send(&self.shared.transport, &self.shared.retry).await
    }

    /// Makes a call and reads its JSON: one try, for callers that try by themselves.
    pub(crate) async fn fetch_once<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        call.send(&self.shared.transport, &RetryPolicy::never()).await
    }

    /// Makes a call whose answer is not JSON.
    pub(crate) async fn reply(&self, call: Call) -> Result<Reply, Error> {
        call.reply(&self.shared.transport, &self.shared.retry).await
    }

    /// The time a call waits by itself, and what its answer may take beyond that.
    pub(crate) fn patience(wait: Duration) -> Duration {
        wait + crate::call::ANSWER_MAX
    }
}

/// Whether this is the whole name of something in the collection. Of anything else with a slash the server says that it is no
/// id; it must not get to be the path of something else.
fn is_member(collection: &str, name: &str) -> bool {
    let rest = name.rsplit_once('/').filter(|(_, id)| !id.is_empty());
    rest.and_then(|(rest, _)| rest.strip_suffix(collection)?.strip_suffix('/')).is_some_and(is_environment)
}

fn is_environment(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    matches!(parts[..], ["orgs", org, "projects", project, "envs", env]
        if ![org, project, env].contains(&""))
}

/// A name with its slashes.
fn encode_name(name: &str) -> String {
    name.split('/').map(encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_found_by_id_in_the_environment_or_by_their_whole_name() {
        let short = Client::new("http://localhost:1").expect("a client");
        assert_eq!(short.queue_path("mail"), "/v1/queues/mail");
        assert_eq!(short.queue_path("a:b?c"), "/v1/queues/a%3Ab%3Fc");
        let whole = "orgs/a/projects/b/envs/c/queues/d";
        assert_eq!(short.queue_path(whole), format!("/v1/{whole}"));
        for no_name in
            ["queues/mail/messages/msg_1", "../x", "queues/mail", "orgs/a/projects/b/envs/c/queues/d/e"]
        {
            assert_eq!(short.queue_path(no_name), format!("/v1/queues/{}", no_name.replace('/', "%2F")));
        }
        let builder = Client::builder("http://localhost:1").environment("orgs/a/projects/b/envs/c");
        let long = builder.build().expect("a client");
        assert_eq!(long.queue_path("d"), format!("/v1/{whole}"));
        let topic = "orgs/a/projects/b/envs/c/topics/T_1";
        assert_eq!(
            (long.topic_path("T_1"), short.topic_path(topic)),
            (format!("/v1/{topic}"), format!("/v1/{topic}"))
        );
        assert_eq!(short.topic_path("T_1"), "/v1/topics/T_1");
        assert_eq!(short.topic_path(whole), format!("/v1/topics/{}", whole.replace('/', "%2F")));
    }

    #[test]
    fn an_environment_has_three_parts() {
        for name in ["", "a", "orgs/a/projects/b/envs/", "orgs/a/projects/b/envs/c/queues/d"] {
            let built = Client::builder("http://localhost:1").environment(name).build();
            assert!(matches!(built, Err(Error::InvalidArgument { field: "environment", .. })), "{name}");
        }
    }
}
