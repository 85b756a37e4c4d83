//! Every route, once.
//!
//! A verb is part of its segment (`emails:send`), which the router cannot tell apart: `{queue}` takes id and verb
//! together, and `extract` splits them.

/// Whether the server answers at all.
pub(crate) const HEALTH: &str = "/healthz";

/// What an operator watches.
pub(crate) const METRICS: &str = "/metrics";

/// Environments of a project.
pub(crate) const ENVIRONMENTS: &str = "/v1/orgs/{org}/projects/{project}/envs";

/// Queues of an environment.
pub(crate) const QUEUES: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/queues";

/// A queue of an environment, and its verbs.
pub(crate) const QUEUE: &str = "/v1/orgs/{org}/projects/{project}/envs/{env}/queues/{queue}";

/// Queues of the default environment.
pub(crate) const SHORT_QUEUES: &str = "/v1/queues";

/// A queue of the default environment, and its verbs.
pub(crate) const SHORT_QUEUE: &str = "/v1/queues/{queue}";

/// What every route of the native API starts with.
pub(crate) const VERSION_PREFIX: &str = "/v1/";
