//! The runtime of a measurement, which ends early when the user says so.

use std::fmt;

/// The user interrupted the measurement (SIGINT).
#[derive(Clone, Copy, Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Runs a measurement on one thread. Servers and directories that it holds are gone when this returns, also after
/// [`Interrupted`].
///
/// # Errors
/// Those of the measurement; [`Interrupted`]; there is no runtime to be had.
pub fn block_on<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            done = measurement => done,
            signal = tokio::signal::ctrl_c() => {
                signal?;
                Err(Interrupted.into())
            }
        }
    })
}
