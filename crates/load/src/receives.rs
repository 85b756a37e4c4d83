//! Receives of nothing: what workers that poll a topic with nothing in it cost the server. Over the Vercel protocol, whose workers do
//! not wait in the server.

use std::time::Duration;

use anyhow::ensure;
use hyper::{Method, StatusCode, Uri};
use tokio::time::MissedTickBehavior;

use crate::http::Connection;
use crate::options::LoadOptions;
use crate::process::Processes;
use crate::progress::Progress;
use crate::running::{Running, Tally};
use crate::statistics::Figures;
use crate::system::Stamp;

const ACCEPT: (&str, &str) = ("accept", "multipart/mixed");

/// So many receives a second in all, each connection at a steady rate of its own, of a group that nothing is sent to.
///
/// # Errors
/// A call failed, or something was received.
pub(crate) async fn empty_receives(
    authority: &str,
    options: &LoadOptions,
    server: Option<Processes>,
    progress: &Progress,
) -> anyhow::Result<Figures> {
    let uri: Uri = "/api/v3/topic/bench-empty/consumer/workers".parse()?;
    let connections = u32::try_from(options.connections)?;
    let every = Duration::from_secs(1) * connections / u32::try_from(options.receive_rate)?;
    let mut running = Running::default();
    for number in 0..connections {
        let (mut connection, tally, uri) = (Connection::open(authority).await?, running.tally(), uri.clone());
        let begin = tokio::time::Instant::now() + every * number / connections;
        running.spawn(async move {
            let mut clock = tokio::time::interval_at(begin, every);
            clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                clock.tick().await;
                receive_nothing(&mut connection, &uri, &tally).await?;
            }
        });
    }
    running.measure(options, server, progress).await
}

async fn receive_nothing(connection: &mut Connection, uri: &Uri, tally: &Tally) -> anyhow::Result<()> {
    let begun = Stamp::now();
    let (status, body) = connection.request(Method::POST, uri, ACCEPT, Vec::new()).await?;
    let text = String::from_utf8_lossy(&body);
    ensure!(status == StatusCode::NO_CONTENT, "a receive of nothing was answered {status}: {text}");
    tally.took(begun);
    tally.add(1);
    Ok(())
}
