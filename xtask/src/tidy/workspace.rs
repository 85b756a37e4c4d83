//! Crates may depend on each other in one direction only.

use super::{Finding, SourceFile};

/// Which of our crates each crate may name under `[dependencies]`. A new entry is a change of architecture.
const ALLOWED: [(&str, &[&str]); 18] = [
    ("api", &[]),
    ("bench", &["core", "engine", "load", "store", "store-sqlite"]),
    ("blackbox", &["api", "core", "store", "store-sqlite", "test-postgres"]),
    (
        "cli",
        &[
            "client",
            "core",
            "engine",
            "load",
            "moving",
            "push",
            "server",
            "store",
            "store-postgres",
            "store-sqlite",
        ],
    ),
    ("client", &[]),
    ("core", &[]),
    ("engine", &["core", "store"]),
    ("load", &[]),
    ("moving", &["api", "core", "store"]),
    ("push", &["api", "core", "engine"]),
    ("server", &["api", "core", "engine", "push", "store"]),
    ("sim", &["core", "engine", "store", "store-sqlite"]),
    ("store", &["core"]),
    ("store-conformance", &["core", "store"]),
    ("store-postgres", &["core", "store"]),
    ("store-sqlite", &["core", "store"]),
    ("test-postgres", &[]),
    ("test-stores", &["core", "store", "store-postgres", "store-sqlite", "test-postgres"]),
];

pub(super) fn check(files: &[SourceFile], findings: &mut Vec<Finding>) {
    for file in files {
        let path = file.path.display().to_string();
        let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        // Below a crate there are projects of others: a workspace of their own.
        if name.contains('/') {
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            findings
                .push(Finding(format!("{path}:1: crate {name} is not in the list of allowed dependencies")));
            continue;
        };
        for dependency in our_dependencies(&file.text) {
            if !allowed.contains(&dependency) {
                findings.push(Finding(format!("{path}:1: {name} may not depend on {dependency}")));
            }
        }
    }
}

/// Our crates in the section `[dependencies]`.
fn our_dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let lines = section.unwrap_or_default().lines();
    lines.filter_map(|line| line.strip_prefix("millpond-")?.split(['.', ' ', '=']).next()).collect()
}
