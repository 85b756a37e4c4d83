//! Rules of this repository that no compiler knows. Each finding is one line: place and what is wrong.

mod documents;
mod sources;
mod workspace;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A finding.
pub(crate) struct Finding(pub(crate) String);

/// A file that git tracks or would track.
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

pub(crate) fn run() -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = match read_files(&root) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(2);
        }
    };
    let mut findings = Vec::new();
    for file in &files {
        match file.path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => sources::check(file, &mut findings),
            Some("md") => documents::check(&root, file, &mut findings),
            _ => {}
        }
    }
    workspace::check(&files, &mut findings);
    for Finding(text) in &findings {
        println!("{text}");
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut files = Vec::new();
    for path in listed.lines() {
        // What is no text, or was removed and not committed yet, is none of our business.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            files.push(SourceFile { path: path.into(), text });
        }
    }
    Ok(files)
}
