//! What is measured.

use clap::ValueEnum;

use crate::loops::{Work, closed_loop, open_loop};
use crate::options::LoadOptions;
use crate::process::Processes;
use crate::progress::Progress;
use crate::statistics::Figures;
use crate::system::System;

/// Messages of a batch.
pub(crate) const BATCH: usize = 100;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Sends of one message, one at a time on each connection
    Sends,
    /// Send, lease and ack of one message, each a call
    Lifecycle,
    /// The same with a hundred messages in each call
    Batches,
    /// Messages at a steady rate to handlers that wait: the time from send to handler
    Latency,
    /// Receives of nothing at a steady rate, over the Vercel protocol
    Receives,
    /// Lifecycles behind a backlog, after half of it was drained and an own server was killed and started again
    Backlog,
}

impl Scenario {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sends => "sends",
            Self::Lifecycle => "lifecycle",
            Self::Batches => "batches",
            Self::Latency => "latency",
            Self::Receives => "receives",
            Self::Backlog => "backlog",
        }
    }

    /// Puts a system with an empty queue under this load. A backlog is the caller's to make; without it that is a lifecycle. Receives
    /// of nothing are the caller's as well: other systems have no such call.
    ///
    /// # Errors
    /// A call failed.
    pub async fn measure<S: System>(
        self,
        system: &S,
        options: &LoadOptions,
        server: Option<Processes>,
        progress: &Progress,
    ) -> anyhow::Result<Figures> {
        let callers = usize::try_from(options.connections)?;
        let work = match self {
            Self::Latency => return open_loop(system, options, server, progress).await,
            Self::Sends => Work::Sends,
            Self::Lifecycle | Self::Backlog | Self::Receives => Work::Lifecycle(1),
            Self::Batches => Work::Lifecycle(BATCH),
        };
        closed_loop(system, (work, callers), options, server, progress).await
    }
}
