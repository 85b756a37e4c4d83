//! Waits between tries of what failed: longer each time, half of it by chance so that many do not come at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    next: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Patience {
    /// For what does not pass soon.
    pub(crate) fn long() -> Self {
        Self { next: LONGEST }
    }

    pub(crate) async fn wait(&mut self) {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        tokio::time::sleep(wait / 2 + wait.mul_f64(fastrand::f64() / 2.0)).await;
    }
}
