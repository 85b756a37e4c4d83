//! A terminal as people have it: a shell in tmux, what is typed or pasted into it, and what it shows.
//!
//! Everything shown comes through a pipe, so a test waits for a text and not for a time.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::binary;

/// A shell in a terminal. Dropped, it is ended.
#[derive(Debug)]
pub struct Terminal {
    socket: PathBuf,
    shown: File,
    /// What was shown and not yet waited for.
    unread: String,
}

impl Terminal {
    /// A shell with `millpond` in its path and the address of a server in its environment.
    ///
    /// # Panics
    /// tmux or mkfifo cannot be run.
    pub fn open(directory: &Path, url: &str) -> Self {
        let (socket, pipe) = (directory.join("tmux"), directory.join("shown"));
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo can be run").success());
        let shown = File::options().read(true).write(true).open(&pipe).expect("it can be opened");
        let terminal = Self { socket, shown, unread: String::new() };
        let program = binary::millpond();
        let programs = program.parent().expect("it stands in a directory").display();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut tmux = terminal.tmux(&["new-session", "-d", "-x", "200", "-y", "50", "exec sh"]);
        tmux.env("PATH", format!("{programs}:{path}")).env("MILLPOND_URL", url).env("PS1", "$ ");
        tmux.env("TERM", "screen").env_remove("TMUX").env_remove("ENV");
        succeed(&mut tmux);
        let copy = format!("cat > '{}'", pipe.display());
        succeed(&mut terminal.tmux(&["pipe-pane", "-o", &copy]));
        terminal
    }

    /// Pastes a text, line breaks included.
    pub fn paste(&self, text: &str) {
        succeed(&mut self.tmux(&["set-buffer", "--", text]));
        succeed(&mut self.tmux(&["paste-buffer", "-d"]));
    }

    /// Types a line and ends it.
    pub fn line(&self, text: &str) {
        succeed(&mut self.tmux(&["send-keys", "-l", "--", text]));
        succeed(&mut self.tmux(&["send-keys", "Enter"]));
    }

    /// Presses a key by tmux's name for it, such as `C-c`.
    pub fn key(&self, name: &str) {
        succeed(&mut self.tmux(&["send-keys", name]));
    }

    /// Waits until this is shown, after what was waited for before; returns all that was shown up to its end. What is
    /// typed is shown too.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.unread.find(text) {
                let rest = self.unread.split_off(at + text.len());
                return std::mem::replace(&mut self.unread, rest);
            }
            let mut bytes = [0; 4_096];
            let count = self.shown.read(&mut bytes).expect("the pipe can be read");
            self.unread.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Types a command, waits for its end, and returns what was shown meanwhile, its exit code as the last line.
    pub fn run(&mut self, command: &str) -> String {
        // The quotes keep what is typed from looking like the end.
        self.line(&format!("{command}; echo \"code:\"\" $?\"\".\""));
        self.wait_for("code: ");
        self.wait_for(".")
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(arguments);
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server of this socket has this one session.
        let _: std::io::Result<Output> = self.tmux(&["kill-server"]).output();
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("tmux can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
