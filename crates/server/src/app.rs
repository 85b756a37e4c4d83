//! The router, and what its handlers share.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use millpond_api::ErrorCode;
use millpond_api::limits::BINARY_BODY_BYTES_MAX;
use millpond_api::name::EnvironmentName;
use millpond_core::command::{Idempotency, Once};
use millpond_core::{Command, Outcome};
use millpond_engine::{Answer, Engine};

use crate::answers::Answers;
use crate::bodies::Bodies;
use crate::connections::Connections;
use crate::envelope::EnvelopeLayer;
use crate::error::ApiError;
use crate::extract::{self, Environment};
use crate::guard::AllowedHosts;
use crate::handlers::{
    data, dead_letters, environments, health, list_queues, messages, metrics, openapi, queues, update_queue,
};
use crate::metrics::Metrics;
use crate::paths;
use crate::request::{Observer, Phases};
use crate::shutdown::ShutdownWatch;

/// What handlers share.
pub struct App {
    pub(crate) answers: Answers,
    pub(crate) bodies: Bodies,
    /// The most bytes of data that a message in binary mode has.
    pub(crate) data_bytes_max: usize,
    pub(crate) engine: Engine,
    pub(crate) hosts: AllowedHosts,
    pub(crate) default_environment: Arc<Environment>,
    pub(crate) metrics: Metrics,
    pub(crate) observer: Arc<Observer>,
    pub(crate) shutdown: ShutdownWatch,
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
            bodies: Bodies::new(Arc::clone(&metrics.http)),
            data_bytes_max: BINARY_BODY_BYTES_MAX,
            engine,
            hosts,
            default_environment: Arc::new(Environment::new(default_environment)),
            metrics,
            observer,
            shutdown,
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
        let answer = Phases::engine(self.engine.submit(&environment.text, command)).await?;
        match answer.outcome {
            Outcome::Rejected(rejection) => Err(rejection.into()),
            _ => Ok(answer),
        }
    }

    /// The same, at most once where there is a key. Tells with the outcome whether it was given before.
    pub(crate) async fn submit_once(
        &self,
        environment: &Environment,
        key: Option<Idempotency>,
        command: Command,
    ) -> Result<(Outcome, bool), ApiError> {
        let command = match key {
            Some(idempotency) => Command::Once(Once { idempotency, command: Box::new(command) }),
            None => command,
        };
        match self.submit(environment, command).await?.outcome {
            Outcome::Repeated(first) => Ok((*first, true)),
            outcome => Ok((outcome, false)),
        }
    }
}

/// The service; it answers without a socket too.
pub fn app(app: App) -> Router {
    let app = Arc::new(app);
    let collection = || get(list_queues::list).post(queues::create);
    let queue = || {
        let known = get(queues::get_or_why).delete(queues::delete).patch(update_queue::update);
        known.post(queues::verb).fallback(queues::no_method)
    };
    let message = || get(messages::get).delete(messages::delete);
    Router::new()
        .route(paths::HEALTH, get(health::get))
        .route(paths::OPENAPI, get(openapi::get))
        .route(paths::METRICS, get(metrics::get))
        .route(paths::ENVIRONMENTS, post(environments::create))
        .route(paths::QUEUES, collection())
        .route(paths::QUEUE, queue())
        .route(paths::DATA, get(data::get))
        .route(paths::DEAD_LETTERS, get(dead_letters::list))
        .route(paths::MESSAGE, message())
        .route(paths::SHORT_QUEUES, collection())
        .route(paths::SHORT_QUEUE, queue())
        .route(paths::SHORT_DATA, get(data::get))
        .route(paths::SHORT_DEAD_LETTERS, get(dead_letters::list))
        .route(paths::SHORT_MESSAGE, message())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(EnvelopeLayer { app: Arc::clone(&app) })
        .with_state(app)
}

async fn no_route(uri: axum::http::Uri) -> ApiError {
    extract::no_route(uri.path())
}

async fn no_method(method: axum::http::Method) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("this route does not take {method}"))
}
