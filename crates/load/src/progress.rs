//! One line on stderr that says how far it is, if stderr is a terminal.

use std::cell::{Cell, RefCell};
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

const WIDTH: usize = 30;

/// How far a measurement is.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
    begun: Instant,
    steps: u64,
    done: Cell<u64>,
    label: RefCell<String>,
}

impl Progress {
    /// Of so many steps of about the same length.
    pub fn new(steps: u64) -> Self {
        Self {
            is_shown: stderr().is_terminal(),
            begun: Instant::now(),
            steps,
            done: Cell::new(0),
            label: RefCell::new(String::new()),
        }
    }

    /// The next step begins.
    pub fn begin(&self, label: String) {
        *self.label.borrow_mut() = label;
        self.show();
    }

    /// The step that was begun has ended.
    pub fn end(&self) {
        self.done.set(self.done.get() + 1);
    }

    /// Shows the line anew.
    pub fn show(&self) {
        if self.is_shown {
            let line = self.line(self.begun.elapsed());
            // A terminal that is gone is no reason to stop.
            let _ = write!(stderr(), "\r\x1b[K{line}");
        }
    }

    fn line(&self, elapsed: Duration) -> String {
        let (done, steps) = (self.done.get(), self.steps.max(1));
        let filled = usize::try_from(done * WIDTH as u64 / steps).unwrap_or(WIDTH).min(WIDTH);
        let left = match u32::try_from(done) {
            Ok(done) if done > 0 => {
                let left = (elapsed / done).mul_f64((steps - u64::from(done).min(steps)) as f64);
                format!(", about {} s left", left.as_secs())
            }
            _ => String::new(),
        };
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
        format!("[{bar}] {} of {steps}: {}{left}", (done + 1).min(steps), self.label.borrow())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let progress = Progress::new(4);
        progress.begin("sends".to_owned());
        let bar = |filled: usize| format!("[{}{}]", "#".repeat(filled), ".".repeat(WIDTH - filled));
        assert_eq!(progress.line(Duration::ZERO), format!("{} 1 of 4: sends", bar(0)));
        progress.end();
        let line = progress.line(Duration::from_secs(8));
        assert_eq!(line, format!("{} 2 of 4: sends, about 24 s left", bar(7)));
    }
}
