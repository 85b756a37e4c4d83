//! The router, and what its handlers share.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use millpond_api::ErrorCode;
use millpond_api::limits::BINARY_BODY_BYTES_MAX;
use millpond_api::name::EnvironmentName;
use millpond_api::vercel::path::Place;
use millpond_core::command::Idempotency;
use millpond_core::{Command, Outcome};
use millpond_engine::{Answer, Engine};

use crate::answers::Answers;
use crate::backups::Backups;
use crate::bodies::Bodies;
use crate::connections::Connections;
use crate::envelope::EnvelopeLayer;
use crate::error::ApiError;
use crate::extract::{self, Environment};
use crate::guard::AllowedHosts;
use crate::handlers::{
    backups, cache, data, dead_letters, deployments, environments, health, list_queues, messages, metrics,
    openapi, queues, signing_secret, triggers, update_queue,
};
use crate::metrics::Metrics;
use crate::paths;
use crate::pushes::Pushes;
use crate::request::{Observer, Phases};
use crate::runtime_cache::RuntimeCache;
use crate::shutdown::ShutdownWatch;
use crate::vercel::{self, Regions};

/// What handlers share.
pub struct App {
    pub(crate) answers: Answers,
    /// `None`: it makes none.
    pub(crate) backups: Option<Arc<Backups>>,
    pub(crate) bodies: Bodies,
    /// The most bytes of data that a message in binary mode has.
    pub(crate) data_bytes_max: usize,
    pub(crate) engine: Engine,
    pub(crate) hosts: AllowedHosts,
    pub(crate) default_environment: Arc<Environment>,
    pub(crate) metrics: Metrics,
    pub(crate) observer: Arc<Observer>,
    /// Who pushes; `None`: nobody does.
    pub(crate) pushes: Option<Arc<dyn Pushes>>,
    /// Of the default environment; none: it is off.
    pub(crate) runtime_cache: Option<Arc<RuntimeCache>>,
    pub(crate) shutdown: ShutdownWatch,
    /// Environments of regions, on Vercel's wire.
    pub(crate) vercel_regions: Regions,
}

impl App {
    /// Over this engine, for requests to these hosts; `/v1/queues` stands for the default environment.
    pub fn new(
        engine: Engine,
        hosts: AllowedHosts,
        default_environment: EnvironmentName,
        shutdown: ShutdownWatch,
    ) -> Self {
        let metrics = Metrics::default();
        let observer = Arc::new(Observer::new(Arc::clone(&metrics.http)));
        Self {
            answers: Answers::default(),
            backups: None,
            bodies: Bodies::new(Arc::clone(&metrics.http)),
            data_bytes_max: BINARY_BODY_BYTES_MAX,
            engine,
            hosts,
            default_environment: Arc::new(Environment::new(default_environment)),
            metrics,
            observer,
            pushes: None,
            runtime_cache: None,
            shutdown,
            vercel_regions: Regions::new(),
        }
    }

    /// The same for messages in binary mode with at most so many bytes of data, up to [`BINARY_BODY_BYTES_MAX`], which it is
    /// unless told.
    #[must_use]
    pub fn with_data_bytes(mut self, most: usize) -> Self {
        self.data_bytes_max = most.min(BINARY_BODY_BYTES_MAX);
        self
    }

    /// The same with so many queues shown singly in metrics: at most
    /// [`METRICS_QUEUES_MAX`](crate::METRICS_QUEUES_MAX), [`METRICS_QUEUES`](crate::METRICS_QUEUES) unless told.
    #[must_use]
    pub fn with_metrics_queues(mut self, most: usize) -> Self {
        self.metrics.queues_max = most;
        self
    }

    /// The same with a runtime cache of so many bytes, [`RUNTIME_CACHE_BYTES_MIN`](crate::RUNTIME_CACHE_BYTES_MIN) to
    /// [`RUNTIME_CACHE_BYTES_MAX`](crate::RUNTIME_CACHE_BYTES_MAX). Unless told there is none.
    #[must_use]
    pub fn with_runtime_cache(mut self, bytes: usize) -> Self {
        self.runtime_cache = Some(Arc::new(RuntimeCache::new(bytes)));
        self
    }

    /// The same with backups, which are made in this directory. Unless told it makes none.
    #[must_use]
    pub fn with_backups(mut self, directory: PathBuf) -> Self {
        self.backups = Some(Arc::new(Backups::new(directory)));
        self
    }

    /// The same with this part to push messages by triggers; without one triggers are kept and nothing is pushed.
    #[must_use]
    pub fn with_pushes(mut self, pushes: Arc<dyn Pushes>) -> Self {
        self.pushes = Some(pushes);
        self
    }

    /// The same with an environment for each of these regions, as paths of Vercel's wire name them; without any all regions
    /// are the default environment.
    #[must_use]
    pub fn with_vercel_regions(
        mut self,
        regions: impl IntoIterator<Item = (String, EnvironmentName)>,
    ) -> Self {
        let regions = regions.into_iter();
        self.vercel_regions =
            regions.map(|(region, name)| (region, Arc::new(Environment::new(name)))).collect();
        self
    }

    /// Connections to this, at most so many at once.
    pub fn connections(&self, most: usize) -> Connections {
        Connections::new(most, Arc::clone(&self.observer))
    }

    /// Has the engine do it. A refusal is an error here.
    pub(crate) async fn submit(
        &self,
        environment: &Environment,
        command: Command,
    ) -> Result<Answer, ApiError> {
        self.submit_making(environment, &[], command).await
    }

    /// The same, but a refusal is an answer as well.
    pub(crate) async fn ask(&self, environment: &Environment, command: Command) -> Result<Answer, ApiError> {
        Ok(Phases::engine(self.engine.submit(&environment.text, command)).await?)
    }

    /// Has the engine do it, at most once where there is a key. Tells with the outcome whether it was given before.
    pub(crate) async fn submit_once(
        &self,
        environment: &Environment,
        key: Option<Idempotency>,
        command: Command,
    ) -> Result<(Outcome, bool), ApiError> {
        self.submit_once_making(environment, &[], key, command).await
    }
}

/// The service; it answers without a socket too.
pub fn app(app: App) -> Router {
    let app = Arc::new(app);
    Router::new()
        .route(paths::HEALTH, get(health::get))
        .route(paths::OPENAPI, get(openapi::get))
        .route(paths::METRICS, get(metrics::get))
        .route(paths::ENVIRONMENTS, post(environments::create))
        .route(paths::BACKUPS, post(backups::create))
        .route(paths::BACKUP, get(backups::get))
        .merge(of_cache())
        .merge(of_queues())
        .merge(of_topics())
        .merge(of_triggers())
        .fallback(elsewhere)
        .method_not_allowed_fallback(no_method)
        .layer(EnvelopeLayer { app: Arc::clone(&app) })
        .with_state(app)
}

/// A collection whose members are made by a POST.
fn collection() -> MethodRouter<Arc<App>> {
    get(list_queues::list).post(queues::create)
}

/// A queue, a topic or a group, with its verbs.
fn member() -> MethodRouter<Arc<App>> {
    let known = get(queues::get_or_why).delete(queues::delete).patch(update_queue::update);
    known.post(queues::verb).fallback(queues::no_method)
}

fn of_cache() -> Router<Arc<App>> {
    Router::new()
        .route(paths::CACHE_REVALIDATE, post(cache::revalidate))
        .route(paths::CACHE_VALUE, get(cache::get).post(cache::set).delete(cache::delete))
}

fn of_queues() -> Router<Arc<App>> {
    let message = || get(messages::get).delete(messages::delete);
    Router::new()
        .route(paths::QUEUES, collection())
        .route(paths::QUEUE, member())
        .route(paths::DATA, get(data::get))
        .route(paths::DEAD_LETTERS, get(dead_letters::list))
        .route(paths::MESSAGE, message())
        .route(paths::SHORT_QUEUES, collection())
        .route(paths::SHORT_QUEUE, member())
        .route(paths::SHORT_DATA, get(data::get))
        .route(paths::SHORT_DEAD_LETTERS, get(dead_letters::list))
        .route(paths::SHORT_MESSAGE, message())
}

fn of_topics() -> Router<Arc<App>> {
    let partition = || delete(queues::delete).fallback(queues::no_method);
    Router::new()
        .route(paths::TOPICS, collection())
        .route(paths::TOPIC, member())
        .route(paths::TOPIC_DATA, get(data::get))
        .route(paths::TOPIC_MESSAGE, get(messages::get))
        .route(paths::GROUPS, collection())
        .route(paths::GROUP, member())
        .route(paths::PARTITIONS, get(list_queues::list))
        .route(paths::PARTITION, partition())
        .route(paths::SHORT_TOPICS, collection())
        .route(paths::SHORT_TOPIC, member())
        .route(paths::SHORT_TOPIC_DATA, get(data::get))
        .route(paths::SHORT_TOPIC_MESSAGE, get(messages::get))
        .route(paths::SHORT_GROUPS, collection())
        .route(paths::SHORT_GROUP, member())
        .route(paths::SHORT_PARTITIONS, get(list_queues::list))
        .route(paths::SHORT_PARTITION, partition())
}

fn of_triggers() -> Router<Arc<App>> {
    let trigger = || get(triggers::get).delete(triggers::delete);
    let deployment = || get(deployments::get).delete(deployments::delete);
    Router::new()
        .route(paths::DEPLOYMENTS, get(deployments::list).post(deployments::create))
        .route(paths::DEPLOYMENT, deployment())
        .route(paths::SIGNING_SECRET, get(signing_secret::get))
        .route(paths::SIGNING_SECRET_ROTATE, post(signing_secret::rotate))
        .route(paths::TRIGGERS, get(triggers::list).post(triggers::create))
        .route(paths::TRIGGER, trigger())
        .route(paths::TRIGGER_PUSHES, get(triggers::pushes))
        .route(paths::SHORT_DEPLOYMENTS, get(deployments::list).post(deployments::create))
        .route(paths::SHORT_DEPLOYMENT, deployment())
        .route(paths::SHORT_SIGNING_SECRET, get(signing_secret::get))
        .route(paths::SHORT_SIGNING_SECRET_ROTATE, post(signing_secret::rotate))
        .route(paths::SHORT_TRIGGERS, get(triggers::list).post(triggers::create))
        .route(paths::SHORT_TRIGGER, trigger())
        .route(paths::SHORT_TRIGGER_PUSHES, get(triggers::pushes))
}

/// Vercel's wire is known by the middle of its paths, whatever stands before.
async fn elsewhere(State(app): State<Arc<App>>, request: Request) -> Response {
    let path = request.uri().path();
    if Place::of(path).is_none() {
        return extract::no_route(path).into_response();
    }
    vercel::serve(&app, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn no_method(method: axum::http::Method) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("this route does not take {method}"))
}
