//! What keeps a server from starting, and how it says so.

use std::path::Path;

use crate::process::{Server, millpond, run};

/// Runs `serve` on a directory; it must fail with one line.
fn refused(directory: &Path) -> String {
    let output = run(millpond().args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory));
    let stderr = String::from_utf8(output.stderr).expect("utf-8");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Server::start(directory.path());
    let stderr = refused(directory.path());
    assert!(stderr.contains("another process serves"), "{stderr}");
    drop(first);
    Server::start(directory.path());
}

#[test]
fn a_foreign_directory_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("thesis.doc"), "").expect("written");
    let stderr = refused(directory.path());
    assert!(stderr.contains("not a data directory") && stderr.contains("thesis.doc"), "{stderr}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 1);
}

#[test]
fn a_directory_that_cannot_be_made_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("written");
    let stderr = refused(&file.join("data"));
    assert!(stderr.contains("making the data directory"), "{stderr}");
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let (first, second) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let server = Server::start(first.path());
    let output =
        run(millpond().args(["serve", "--listen", &server.address, "--data-dir"]).arg(second.path()));
    let stderr = String::from_utf8(output.stderr).expect("utf-8");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("cannot listen on {}", server.address)), "{stderr}");
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    for (arguments, said) in [
        (&["serve", "--listen", "0.0.0.0:8400"][..], "only listens on 127.0.0.1 or [::1]"),
        (&["serve", "--listen", "nowhere"], "expected an address and a port"),
        (&["serve", "--allow-host", "http://x"], "expected a host name"),
        (&["serve", "--default-environment", "x"], "default-environment is x"),
        (&["serve", "--log", "=="], "log is \"==\", expected a level or a filter"),
        (&["serve", "--log-format", "xml"], "possible values: json, text"),
        (&["serve", "--max-connections", "0"], "max-connections is 0, expected 1 to 1000000"),
        (&["serve", "--metrics-queues", "20001"], "metrics-queues is 20001, expected 0 to 20000"),
        (&["serve", "--runtime-cache", "1"], "runtime-cache is 1, expected 8388608 to 1073741824"),
        (&["serve", "--runtime-cache", "64MiB"], "invalid value '64MiB' for '--runtime-cache <BYTES>'"),
        (&["serve", "--vercel-region", "iad1"], "vercel-region is \"iad1\", expected REGION=ENVIRONMENT"),
        (&["serve", "--lissten", "127.0.0.1:0"], "unexpected argument"),
        (&["serf"], "unrecognized subcommand"),
        (&[], "Usage"),
    ] {
        let output = run(millpond().args(arguments).env("MILLPOND_DATA_DIR", &data));
        let stderr = String::from_utf8(output.stderr).expect("utf-8");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
        assert!(!data.exists(), "{arguments:?}");
    }
}

#[test]
fn help_and_version_are_data() {
    for argument in ["--help", "--version"] {
        let output = run(millpond().arg(argument));
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn a_wrong_common_filter_is_named_as_such() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let output = run(millpond().arg("serve").env("MILLPOND_DATA_DIR", &data).env("RUST_LOG", "=="));
    let stderr = String::from_utf8(output.stderr).expect("utf-8");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("RUST_LOG is \"==\", expected a level or a filter"), "{stderr}");
}
