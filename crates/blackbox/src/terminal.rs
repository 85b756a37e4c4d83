//! A terminal as people have it: a shell in tmux, what is typed or pasted into it, and what it shows.
//!
//! Everything shown comes through a pipe, so a test waits for a text and not for a time.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::binary;

/// What `sh` prompts with, whoever runs it; its `PS1` does not come from the environment everywhere.
const PROMPTS: [&str; 2] = ["$ ", "# "];

/// A shell in a terminal. Dropped, it is ended.
#[derive(Debug)]
pub struct Terminal {
    /// Holds the socket and the pipe.
    files: TempDir,
    shown: File,
    /// What was shown and not yet waited for.
    unread: String,
}

impl Terminal {
    /// A shell in a directory, with `millpond` in its path and the address of a server in its environment.
    ///
    /// # Panics
    /// tmux or mkfifo cannot be run.
    pub fn open(directory: &Path, url: &str) -> Self {
        let program = binary::millpond();
        let programs = program.parent().expect("it stands in a directory");
        Self::open_with(directory, programs, &[("MILLPOND_URL", url)])
    }

    /// A shell in a directory, with these programs before all others and some variables.
    ///
    /// # Panics
    /// tmux or mkfifo cannot be run.
    pub fn open_with(directory: &Path, programs: &Path, variables: &[(&str, &str)]) -> Self {
        let files = tempfile::tempdir().expect("a directory can be made");
        let pipe = files.path().join("shown");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo can be run").success());
        let shown = File::options().read(true).write(true).open(&pipe).expect("it can be opened");
        let terminal = Self { files, shown, unread: String::new() };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut tmux = terminal.tmux(&["new-session", "-d", "-x", "200", "-y", "50", "-c"]);
        tmux.arg(directory).arg("exec sh");
        // What the caller's shell sets must not change what is tested.
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.as_encoded_bytes().starts_with(b"MILLPOND_")) {
            tmux.env_remove(name);
        }
        tmux.env("PATH", format!("{}:{path}", programs.display())).env("TERM", "screen");
        tmux.env_remove("TMUX").env_remove("ENV").envs(variables.iter().copied());
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

    /// Waits for the end of a line, and returns it as people read it.
    pub fn next_line(&mut self) -> String {
        readable(self.wait_for("\n").trim_end_matches('\n'))
    }

    /// Types a command, waits for its end, and returns what was shown meanwhile, its exit code as the last line.
    pub fn run(&mut self, command: &str) -> String {
        // The quotes keep what is typed from looking like the end.
        self.line(&format!("{command}; echo \"code:\"\" $?\"\".\""));
        let shown = self.wait_for("code: ");
        shown + &self.wait_for(".")
    }

    /// Types a command, waits for its end, and returns its lines as people read them: without what was typed, prompts,
    /// colours, what was written over, and blank ones.
    pub fn lines_of(&mut self, command: &str) -> Vec<String> {
        let shown = self.run(command);
        let lines = shown.split('\n').filter(|line| !line.contains("echo \"code:"));
        let lines = lines.map(readable).filter(|line| !line.is_empty() && !line.starts_with("code: "));
        lines.collect()
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.files.path().join("tmux")).args(["-f", "/dev/null"]).args(arguments);
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

/// A line without escape sequences, after its last carriage return, without the prompt.
fn readable(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let last = line.rsplit('\r').next().unwrap_or(line);
    let mut text = String::new();
    let mut characters = last.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // CSI: up to a letter.
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            text.push(character);
        }
    }
    let mut text = text.as_str();
    while let Some(rest) = PROMPTS.iter().find_map(|prompt| text.strip_prefix(prompt)) {
        text = rest;
    }
    text.to_owned()
}

/// Whether a line looks like one of a document, where `…` stands for anything.
pub fn looks_like(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_people_see_it() {
        assert_eq!(readable("$ \u{1b}[2K⠁ purging 0s\r\u{1b}[2Kremoved 1 message\r"), "removed 1 message");
        assert_eq!(readable("# $ made queue q\r"), "made queue q");
    }

    #[test]
    fn what_stands_for_anything_does_and_nothing_else() {
        for (line, pattern, alike) in [
            ("msg_1", "msg_…", true),
            ("at 1Z: wait", "at …Z: wait", true),
            ("at 1Z: go", "at …Z: wait", false),
            ("a", "a", true),
            ("ab", "a", false),
            ("ab", "…b", true),
            ("xmsg_1", "msg_…", false),
            ("a1b2c", "a…b…c", true),
            ("a1c", "a…b…c", false),
        ] {
            assert_eq!(looks_like(line, pattern), alike, "{line} {pattern}");
        }
    }
}
