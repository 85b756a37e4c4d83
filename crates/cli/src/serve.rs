//! `millpond serve`: opens the store, starts the engine, listens, and puts everything in order when it is told to stop.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use millpond_engine::{Engine, EngineSettings};
use millpond_push::{PushSettings, Pusher};
use millpond_server::{AllowedHosts, App, DRAIN_MAX, Settings, Shutdown, StopSignals, app, bind, serve};

use crate::serve_arguments::ServeArguments;
use crate::{descriptors, log, wiring};

pub(crate) fn run(arguments: ServeArguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads that serve")?;
    // Before anything else: until then a signal to stop ends the process as if it had failed.
    let signals = {
        let _inside = runtime.enter();
        StopSignals::install().context("cannot catch signals")?
    };
    log::start(arguments.log_filter()?, arguments.log_format);
    let settings = arguments.settings().resolve()?;
    runtime.block_on(serve_until_stopped(settings, signals))
}

async fn serve_until_stopped(settings: Settings, mut signals: StopSignals) -> anyhow::Result<()> {
    let place = || match &settings.database {
        Some(database) => database.to_string(),
        None => settings.data_dir.display().to_string(),
    };
    let store = wiring::open_store(&settings).with_context(|| format!("cannot serve {}", place()))?;
    let engine_settings = settings.quotas.lay_over(EngineSettings::default());
    let engine = Engine::start_with_clock(engine_settings, store.factory, store.clock);
    let of_regions = settings.vercel_regions.iter().map(|(_, name)| name);
    for name in std::iter::once(&settings.default_environment).chain(of_regions) {
        let name = name.to_string();
        engine
            .create_environment(&name)
            .await
            .with_context(|| format!("cannot make {name} in {}", store.place))?;
    }
    let listener =
        bind(settings.listen).await.with_context(|| format!("cannot listen on {}", settings.listen))?;
    let address = listener.local_addr().context("cannot tell the address listened on")?;

    let shutdown = Shutdown::default();
    let hosts = AllowedHosts::new(address, settings.allow_hosts.clone());
    let pusher = Pusher::start(engine.clone(), push_settings(&settings));
    let mut served = App::new(engine.clone(), hosts, settings.default_environment, shutdown.watch())
        .with_pushes(Arc::new(pusher.clone()))
        .with_backups(settings.backup_dir.clone())
        .with_metrics_queues(settings.metrics_queues)
        .with_data_bytes(settings.max_data_bytes)
        .with_vercel_regions(settings.vercel_regions);
    if let Some(bytes) = settings.runtime_cache {
        served = served.with_runtime_cache(bytes);
    }
    let connections = served.connections(descriptors::connections_that_fit(settings.max_connections));
    let router = app(served);
    if let Err(error) = announce(address) {
        engine.shut_down().await;
        return Err(error).context("cannot write to stdout where the server listens");
    }
    // Handlers under way can still say what becomes of their messages while nothing new is pushed.
    let stop = async {
        signals.received().await;
        pusher.stop(DRAIN_MAX).await;
    };
    serve(listener, router, &connections, &shutdown, stop).await;
    engine.shut_down().await;
    Ok(())
}

fn push_settings(settings: &Settings) -> PushSettings {
    let mut push = PushSettings::default();
    push.call.allowed = settings.push_allow.clone();
    push.calls = Some(settings.push_concurrency);
    let regions = settings.vercel_regions.iter();
    push.regions = regions.map(|(region, name)| (name.to_string(), region.clone())).collect();
    push
}

/// Scripts wait for this line; with port 0 nothing else tells where the server is.
fn announce(address: SocketAddr) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "listening on http://{address}")?;
    stdout.flush()
}
