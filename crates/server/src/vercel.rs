//! Vercel Queues' wire: `/api/v3/topic/…` behind any prefix. What it promises, and where it differs from Vercel's own
//! service, is in `docs/compatibility/vercel.md`.
//!
//! Topics, groups and partitions are resources of the core with these names:
//!
//! | there | here |
//! | --- | --- |
//! | topic `T` | `topics/T` |
//! | what deployment `D` sent to it | `topics/T/partitions/D` |
//! | consumer group `G` | `topics/T/groups/G` |
//!
//! They are made by their first use ([`Call::makes_log`], [`Call::makes_group`]). Bodies and headers are read and written by `millpond_api::vercel`.

mod answer_body;
mod batch;
mod credential;
mod lease;
mod receive;
mod refusal;
mod send;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use millpond_api::vercel::header;
use millpond_api::vercel::path::{Endpoint, Names, Place};
use millpond_core::command::{CreateQueue, Start};

use crate::app::App;
use crate::delivery::Deliveries;
use crate::error::ApiError;
use crate::extract::{self, Environment};
use crate::making::make;

pub(crate) use refusal::{Refusal, Refused};

/// Which environment a region's name in a path stands for.
pub(crate) type Regions = BTreeMap<String, Arc<Environment>>;

/// What a call is about, but for its body.
struct Call<'a> {
    environment: Arc<Environment>,
    names: Names,
    deployment: Option<&'a str>,
    headers: &'a HeaderMap,
    deliveries: Option<Deliveries>,
}

impl<'a> Call<'a> {
    /// The first header of this name.
    fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.get(name).map(|value| value.as_bytes())
    }

    fn topic(&self) -> Box<str> {
        format!("topics/{}", self.names.topic).into()
    }

    fn group(&self) -> Box<str> {
        format!("topics/{}/groups/{}", self.names.topic, self.names.group).into()
    }

    /// What a send makes if it is not there.
    fn makes_log(&self) -> Vec<CreateQueue> {
        let topic = make(self.topic(), Start::default());
        let partition = self.deployment.map(|_| make(self.log(), Start::default()));
        std::iter::once(topic).chain(partition).collect()
    }

    /// What a receive makes if it is not there.
    fn makes_group(&self, start: Start) -> Vec<CreateQueue> {
        vec![make(self.topic(), Start::default()), make(self.group(), start)]
    }

    /// What of the topic the call is about: what its deployment sent, or all of it.
    fn log(&self) -> Box<str> {
        match self.deployment {
            Some(deployment) => format!("topics/{}/partitions/{deployment}", self.names.topic).into(),
            None => self.topic(),
        }
    }
}

/// Answers a call. Its path has to be one of this wire.
pub(crate) async fn serve(app: &App, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let place = Place::of(path).ok_or_else(|| extract::no_route(path))?;
    let endpoint = place.endpoint.ok_or_else(|| extract::no_route(path))?;
    let acknowledges = parts.method == Method::DELETE && endpoint == Endpoint::Lease;
    let is_taken = match endpoint {
        Endpoint::Batch | Endpoint::Receive | Endpoint::ReceiveById | Endpoint::Send => {
            parts.method == Method::POST
        }
        Endpoint::Lease => acknowledges || parts.method == Method::PATCH,
        Endpoint::Visibility => parts.method == Method::PATCH,
    };
    if !is_taken {
        return Err(ApiError::method_not_allowed(endpoint.allow()).into());
    }
    let named = |name: &str| parts.headers.get(name).map(|value| value.as_bytes());
    let call = Call {
        environment: environment(app, &place)?,
        names: place.names()?,
        deployment: header::deployment(named)?,
        headers: &parts.headers,
        deliveries: parts.extensions.get().cloned(),
    };
    credential::check(app, &call, endpoint).await?;
    match endpoint {
        Endpoint::Batch => batch::send(app, &call, body).await,
        Endpoint::Lease if acknowledges => lease::acknowledge(app, &call).await,
        Endpoint::Lease | Endpoint::Visibility => lease::change(app, &call, body).await,
        Endpoint::Receive => receive::receive(app, &call).await,
        Endpoint::ReceiveById => receive::receive_by_id(app, &call).await,
        Endpoint::Send => send::send(app, &call, body).await,
    }
}

/// The environment that a path's region stands for. While no region has one, all of them are the default environment.
fn environment(app: &App, place: &Place<'_>) -> Result<Arc<Environment>, ApiError> {
    let Some(region) = place.region().filter(|_| !app.vercel_regions.is_empty()) else {
        return Ok(Arc::clone(&app.default_environment));
    };
    app.vercel_regions.get(region).cloned().ok_or_else(|| {
        let detail = format!("region {region} has no environment here, vercel-region gives it one");
        ApiError::field("region", region, detail)
    })
}

/// Bits that nobody can foresee, and that are hardly ever the same twice.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}
