//! Every route, once.
//!
//! A verb is part of its segment (`emails:send`), which the router cannot tell apart: `{queue}` takes id and verb
//! together, and `extract` splits them. Each route is in the OpenAPI document (`openapi`), and so is each verb.

use millpond_api::name::ResourceName;
use millpond_core::id::MessageId;

/// Whether the server answers at all.
pub(crate) const HEALTH: &str = "/healthz";

/// What this server answers, for programs.
pub(crate) const OPENAPI: &str = "/openapi.json";

/// What an operator watches.
pub(crate) const METRICS: &str = "/metrics";

/// Environments of a project.
pub(crate) const ENVIRONMENTS: &str = "/v1/orgs/{org}/projects/{project}/envs";

/// Queues of an environment.
pub(crate) const QUEUES: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/queues";

/// A queue of an environment, and its verbs.
pub(crate) const QUEUE: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/queues/{queue}";

/// The data of a message of an environment.
pub(crate) const DATA: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/queues/{queue}/messages/{message}/data";

/// Messages out of attempts that are in a queue's own set.
pub(crate) const DEAD_LETTERS: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/queues/{queue}/dead-letters";

/// A message of a queue.
pub(crate) const MESSAGE: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/queues/{queue}/messages/{message}";

/// Queues of the default environment.
pub(crate) const SHORT_QUEUES: &str = "/v1/queues";

/// A queue of the default environment, and its verbs.
pub(crate) const SHORT_QUEUE: &str = "/v1/queues/{queue}";

/// The data of a message of the default environment.
pub(crate) const SHORT_DATA: &str = "/v1/queues/{queue}/messages/{message}/data";

/// Dead letters of a queue of the default environment.
pub(crate) const SHORT_DEAD_LETTERS: &str = "/v1/queues/{queue}/dead-letters";

/// A message of a queue of the default environment.
pub(crate) const SHORT_MESSAGE: &str = "/v1/queues/{queue}/messages/{message}";

/// Topics of an environment.
pub(crate) const TOPICS: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/topics";

/// A topic of an environment, and its verbs.
pub(crate) const TOPIC: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/topics/{topic}";

/// The data of a message of a topic.
pub(crate) const TOPIC_DATA: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/messages/{message}/data";

/// A message of a topic.
pub(crate) const TOPIC_MESSAGE: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/messages/{message}";

/// Groups of a topic.
pub(crate) const GROUPS: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/groups";

/// A group of a topic, and its verbs.
pub(crate) const GROUP: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/groups/{group}";

/// Partitions of a topic.
pub(crate) const PARTITIONS: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/partitions";

/// A partition of a topic.
pub(crate) const PARTITION: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/partitions/{partition}";

/// Topics of the default environment.
pub(crate) const SHORT_TOPICS: &str = "/v1/topics";

/// A topic of the default environment, and its verbs.
pub(crate) const SHORT_TOPIC: &str = "/v1/topics/{topic}";

/// The data of a message of a topic, in the default environment.
pub(crate) const SHORT_TOPIC_DATA: &str = "/v1/topics/{topic}/messages/{message}/data";

/// A message of a topic, in the default environment.
pub(crate) const SHORT_TOPIC_MESSAGE: &str = "/v1/topics/{topic}/messages/{message}";

/// Groups of a topic, in the default environment.
pub(crate) const SHORT_GROUPS: &str = "/v1/topics/{topic}/groups";

/// A group of a topic, and its verbs, in the default environment.
pub(crate) const SHORT_GROUP: &str = "/v1/topics/{topic}/groups/{group}";

/// Partitions of a topic, in the default environment.
pub(crate) const SHORT_PARTITIONS: &str = "/v1/topics/{topic}/partitions";

/// A partition of a topic, in the default environment.
pub(crate) const SHORT_PARTITION: &str = "/v1/topics/{topic}/partitions/{partition}";

/// Backups of this server.
pub(crate) const BACKUPS: &str = "/v1/backups";

/// A backup.
pub(crate) const BACKUP: &str = "/v1/backups/{backup}";

/// A value of the runtime cache.
pub(crate) const CACHE_VALUE: &str = "/v1/cache/{key}";

/// Removes values of the runtime cache by their tags.
pub(crate) const CACHE_REVALIDATE: &str = "/v1/cache/revalidate";

/// What stands before the key of a value.
pub(crate) const CACHE_PREFIX: &str = "/v1/cache/";

/// Deployments of an environment.
pub(crate) const DEPLOYMENTS: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/deployments";

/// A deployment of an environment.
pub(crate) const DEPLOYMENT: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/deployments/{deployment}";

/// What the pushes of an environment are signed with.
pub(crate) const SIGNING_SECRET: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/signing-secret";

/// Replaces it.
pub(crate) const SIGNING_SECRET_ROTATE: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/signing-secret:rotate";

/// Triggers of an environment.
pub(crate) const TRIGGERS: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/triggers";

/// A trigger of an environment.
pub(crate) const TRIGGER: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/triggers/{trigger}";

/// What became of its pushes.
pub(crate) const TRIGGER_PUSHES: &str =
    "/v1/orgs/{org}/projects/{project}/envs/{env}/triggers/{trigger}/pushes";

/// Deployments of the default environment.
pub(crate) const SHORT_DEPLOYMENTS: &str = "/v1/deployments";

/// A deployment of the default environment.
pub(crate) const SHORT_DEPLOYMENT: &str = "/v1/deployments/{deployment}";

/// What the pushes of the default environment are signed with.
pub(crate) const SHORT_SIGNING_SECRET: &str = "/v1/signing-secret";

/// Replaces it.
pub(crate) const SHORT_SIGNING_SECRET_ROTATE: &str = "/v1/signing-secret:rotate";

/// Triggers of the default environment.
pub(crate) const SHORT_TRIGGERS: &str = "/v1/triggers";

/// A trigger of the default environment.
pub(crate) const SHORT_TRIGGER: &str = "/v1/triggers/{trigger}";

/// What became of its pushes.
pub(crate) const SHORT_TRIGGER_PUSHES: &str = "/v1/triggers/{trigger}/pushes";

/// What every route of the native API starts with.
pub(crate) const VERSION_PREFIX: &str = "/v1/";

/// Where the data of a message is; `home` is the whole name of its queue or topic.
pub(crate) fn data_url(home: &ResourceName, message: MessageId) -> String {
    format!("{VERSION_PREFIX}{home}/messages/{message}/data")
}
