//! Every route, once.
//!
//! A verb is part of its segment (`emails:send`), which the router cannot tell apart: `{queue}` takes id and verb
//! together, and `extract` splits them. Each route is in the OpenAPI document (`openapi`), and so is each verb.

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

/// Dead letters of a queue of the default environment.
pub(crate) const SHORT_DEAD_LETTERS: &str = "/v1/queues/{queue}/dead-letters";

/// A message of a queue of the default environment.
pub(crate) const SHORT_MESSAGE: &str = "/v1/queues/{queue}/messages/{message}";

/// What every route of the native API starts with.
pub(crate) const VERSION_PREFIX: &str = "/v1/";
