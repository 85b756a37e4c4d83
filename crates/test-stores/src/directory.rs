//! Directories that do not stay. An engine that nobody shuts down holds its store until the process ends, and then nothing is
//! dropped any more: so each process first takes away what those before it have left.

use std::fs;
use std::path::Path;
use std::process;
use std::sync::Once;

use tempfile::TempDir;

/// Followed by the id of the process and a `-`.
const PREFIX: &str = "millpond-test-";

/// A directory of its own for one store.
pub(crate) fn new() -> TempDir {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| sweep(&std::env::temp_dir()));
    let prefix = format!("{PREFIX}{}-", process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir().expect("a directory can be made")
}

/// Removes the directories of processes that have ended.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if of.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another process may be about it too.
            let _: std::io::Result<()> = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ended_processes_left_is_swept() {
        let parent = tempfile::tempdir().expect("a directory can be made");
        let mut ended = process::Command::new("true").spawn().expect("it can be run");
        ended.wait().expect("it can be waited for");
        let of = |process: u32| parent.path().join(format!("{PREFIX}{process}-x"));
        let others = [of(process::id()), parent.path().join("millpond-test-x"), parent.path().join("other")];
        for path in others.iter().chain([&of(ended.id())]) {
            fs::create_dir(path).expect("it can be made");
        }
        sweep(parent.path());
        assert!(others.iter().all(|path| path.exists()));
        assert!(!of(ended.id()).exists());
    }
}
