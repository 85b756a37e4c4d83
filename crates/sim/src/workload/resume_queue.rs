//! Hands out again.

use millpond_core::Command;

use super::{Scene, pause_queue};
use crate::auditor::{Answered, Auditor, Verdict};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let paused = scene.auditor.queues.values().find(|queue| queue.alive && queue.paused);
    let queue = paused.map(|queue| queue.name.clone());
    Command::ResumeQueue { queue: queue.unwrap_or_else(|| scene.anything()) }
}

pub(super) fn predict(auditor: &mut Auditor, name: &str, answered: &Answered<'_>) -> Verdict {
    pause_queue::set(auditor, name, false, answered)
}
