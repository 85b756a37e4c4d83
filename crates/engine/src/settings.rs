//! What a deployment may set; `Default` is what the documents state.

use std::time::Duration;

use crate::environment::EnvironmentSettings;

/// Settings of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// Settings of each environment.
    pub environment: EnvironmentSettings,
    /// Threads that apply commands, for all environments.
    pub apply_threads: usize,
    /// Threads that commit, for all environments; an environment stays with one while it is open.
    pub writer_threads: usize,
    /// Threads that read, for all environments.
    pub reader_threads: usize,
    /// Commands that may wait in an environment; beyond it they are refused.
    pub mailbox_commands: usize,
    /// Bytes of sends that may wait in an environment; beyond it they are refused.
    pub mailbox_bytes: usize,
    /// Environments open at once; beyond it the longest idle are closed.
    pub environments_open: usize,
    /// Closed environments are remembered for [`Engine::closed_survey`](crate::Engine::closed_survey) up to so many
    /// entries: one each, and one for each queue, of some 250 bytes.
    pub closed_entries: usize,
    /// An environment without work is closed after this time.
    pub idle_close: Duration,
    /// While the store is unavailable commands wait for so long before they are refused.
    pub unavailable_wait: Duration,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            environment: EnvironmentSettings::default(),
            apply_threads: 2,
            writer_threads: 4,
            reader_threads: 2,
            mailbox_commands: 65_536,
            mailbox_bytes: 64 * 1024 * 1024,
            environments_open: 256,
            closed_entries: 20_000,
            idle_close: Duration::from_secs(60),
            unavailable_wait: Duration::from_secs(5),
        }
    }
}
