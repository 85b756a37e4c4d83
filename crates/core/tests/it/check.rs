//! One helper for all table tests: a transcript of what is asked and what is answered, as text.
//!
//! Each line is a command (`verb name key=value …`); lines that begin with `->` are what it answers. The transcript is run
//! and written down again; both texts must be the same. Messages are named by their senders, leases by message and
//! count (`a#2` is the second lease of message `a`), waiting calls by `as=`. Times are seconds since the beginning.

mod answers;
mod beside;
mod commands;
mod store;
mod triggers;
mod words;
mod world;

use world::World;

/// Runs a transcript and compares.
#[track_caller]
pub(crate) fn check(transcript: &str) {
    let mut world = World::new(transcript);
    let mut found = String::new();
    for line in transcript.lines().map(str::trim) {
        if line.starts_with("->") {
            continue;
        }
        found.push_str(line);
        found.push('\n');
        if line.is_empty() || line.starts_with('#') || line.starts_with("with ") {
            continue;
        }
        for answer in world.run(line) {
            found.push_str(&format!("-> {answer}\n"));
        }
    }
    let expected: String = transcript.lines().map(|line| format!("{}\n", line.trim())).collect();
    if found != expected {
        panic!("the transcript is in truth\n{found}\nand not\n{expected}");
    }
}
