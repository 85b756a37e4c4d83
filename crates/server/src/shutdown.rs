//! How the server stops, in three phases: it serves; it drains (no new connections, waiting long polls are answered
//! empty, what runs is finished); it cuts what is left.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Serving,
    Draining,
    Cutting,
}

/// Stops the server that watches it.
#[derive(Debug)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
}

/// Tells when the server stops; clones are cheap.
#[derive(Clone, Debug)]
pub struct ShutdownWatch {
    phase: watch::Receiver<Phase>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { phase: watch::Sender::new(Phase::Serving) }
    }
}

impl Shutdown {
    /// A watch on this.
    pub fn watch(&self) -> ShutdownWatch {
        ShutdownWatch { phase: self.phase.subscribe() }
    }

    /// Takes no more work and lets what runs come to its end.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Ends what is left.
    pub fn cut(&self) {
        self.advance(Phase::Cutting);
    }

    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let forward = *phase < to;
            *phase = to.max(*phase);
            forward
        });
    }
}

impl ShutdownWatch {
    /// Whether the server takes no more work.
    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    /// Waits until it takes no more work. For ever, if whoever could say so is gone.
    pub async fn draining(&mut self) {
        self.reached(Phase::Draining).await;
    }

    /// Waits until what is left is to end.
    pub async fn cutting(&mut self) {
        self.reached(Phase::Cutting).await;
    }

    async fn reached(&mut self, wanted: Phase) {
        if self.phase.wait_for(|phase| *phase >= wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// SIGTERM and SIGINT, caught from the moment that this is made.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Catches them.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn install() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
