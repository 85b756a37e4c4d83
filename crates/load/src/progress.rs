//! One line on stderr that says how far it is, if stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

const TEMPLATE: &str = "[{bar:30}] {pos} of {len} done, about {eta} left: {msg}";

/// How far a measurement is.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many steps of about the same length.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("##."));
        }
        Self { bar }
    }

    /// The next step begins.
    pub fn begin(&self, label: String) {
        self.bar.set_message(label);
    }

    /// The step that was begun has ended.
    pub fn end(&self) {
        self.bar.inc(1);
    }

    /// Shows the line anew.
    pub fn show(&self) {
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
