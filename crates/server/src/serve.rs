//! The listener: accepts connections until it is told to stop, then sees them off.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use millpond_store::Outage;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::connection::serve_connection;
use crate::connections::Connections;
use crate::shutdown::Shutdown;

/// How long running requests get once the server drains.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Pause after an accept that failed for want of descriptors or memory, so that what runs can give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens. Port 0 takes any; the listener knows which.
///
/// # Errors
/// The address cannot be had.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until `stop` ends. Then connections are drained, for at most [`DRAIN_MAX`], and cut. On return no connection
/// is left; the engine can be shut down.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    connections: &Connections,
    shutdown: &Shutdown,
    stop: impl Future<Output = ()>,
) {
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let mut stop = std::pin::pin!(stop);
    let (begun, mut outage) = (Instant::now(), Outage::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.as_mut() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                if let Some(lasted) = outage.over(begun.elapsed()) {
                    tracing::info!(?lasted, "connections are accepted again");
                }
                take(stream, &app, connections, shutdown, alive.clone());
            }
            // What a single connection did wrong is passed over; where the process lacks something, waiting helps.
            Err(error) if is_of_one_connection(&error) => (),
            Err(error) => {
                if let Some(lasted) = outage.failed(begun.elapsed()) {
                    tracing::error!(%error, ?lasted, "cannot accept connections");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop((listener, alive));
    shutdown.drain();
    if tokio::time::timeout(DRAIN_MAX, all_gone.recv()).await.is_err() {
        tracing::warn!("requests still ran {DRAIN_MAX:?} after the stop signal; they are cut off");
        shutdown.cut();
        all_gone.recv().await;
    }
}

/// Serves a connection in a task of its own, or tells it that it is one too many. `alive` is held as long as it lasts.
fn take(
    stream: TcpStream,
    app: &Router,
    connections: &Connections,
    shutdown: &Shutdown,
    alive: mpsc::Sender<()>,
) {
    if let Some(admitted) = connections.admit() {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let (app, watch) = (app.clone(), shutdown.watch());
        tokio::spawn(async move {
            serve_connection(stream, app, watch).await;
            drop((admitted, alive));
        });
    } else if let Some(refusal) = connections.refuse() {
        tokio::spawn(async move {
            refusal.answer(stream).await;
            drop(alive);
        });
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
