//! The router, and what its handlers share.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use millpond_api::ErrorCode;
use millpond_api::name::EnvironmentName;
use millpond_core::{Command, Outcome};
use millpond_engine::{Answer, Engine};

use crate::bodies::Bodies;
use crate::connections::Connections;
use crate::envelope::EnvelopeLayer;
use crate::error::ApiError;
use crate::extract::Environment;
use crate::guard::AllowedHosts;
use crate::handlers::{environments, health, metrics, queues};
use crate::metrics::Metrics;
use crate::paths;
use crate::request::{Observer, Phases};
use crate::shutdown::ShutdownWatch;

/// What handlers share.
pub struct App {
    pub(crate) bodies: Bodies,
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
            bodies: Bodies::new(Arc::clone(&metrics.http)),
            engine,
            hosts,
            default_environment: Arc::new(Environment::new(default_environment)),
            metrics,
            observer,
            shutdown,
        }
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
}

/// The service; it answers without a socket too.
pub fn app(app: App) -> Router {
    let app = Arc::new(app);
    let queue = || get(queues::get_or_why).delete(queues::delete).post(queues::verb);
    Router::new()
        .route(paths::HEALTH, get(health::get))
        .route(paths::METRICS, get(metrics::get))
        .route(paths::ENVIRONMENTS, post(environments::create))
        .route(paths::QUEUES, post(queues::create))
        .route(paths::QUEUE, queue())
        .route(paths::SHORT_QUEUES, post(queues::create))
        .route(paths::SHORT_QUEUE, queue())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(EnvelopeLayer { app: Arc::clone(&app) })
        .with_state(app)
}

async fn no_route(uri: axum::http::Uri) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("no route {}", uri.path()))
}

async fn no_method(method: axum::http::Method) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("this route does not take {method}"))
}
