//! Data in PostgreSQL: exports, imports, and what a backup of such a server says.

use std::path::Path;

use millpond_test_postgres::Cluster;
use serde_json::Value;

use crate::process::{Ran, Server, millpond, run};
use crate::schema;

/// A command that calls no server.
fn local(arguments: &[&str]) -> Ran {
    Ran::of(run(millpond().args(arguments)))
}

fn local_json(command: &str, arguments: &[&str]) -> Value {
    let words: Vec<&str> = [&[command], arguments, &["--json"]].concat();
    schema::check(command, &local(&words).done()).remove(0)
}

fn stop(server: Server) {
    server.signal(libc::SIGTERM);
    let (status, log) = server.ended();
    assert!(status.success(), "{log}");
}

#[test]
fn an_environment_moves_from_a_directory_to_a_database_and_back() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("utf-8").to_owned();
    let server = Server::start(Path::new(&path("data")));
    server.run(&["queue", "create", "mail"]).done();
    server.run(&["send", "mail", "[1]"]).done();
    server.run(&["send", "mail", "[2]"]).done();
    stop(server);

    let url = cluster.url("postgres");
    let there = ["--database-url", url.as_str(), "--database-schema", "moved"];
    let out = local_json("export", &["--data-dir", &path("data"), "--to", &path("one")]);
    local_json("import", &[&["--from", &path("one")], &there[..]].concat());
    let refused = local(&[&["import", "--from", &path("one")], &there[..]].concat()).failed(1);
    assert!(refused.contains("is not empty"), "{refused}");

    let server = Server::start_by(millpond().args(["serve", "--listen", "127.0.0.1:0"]).args(there));
    let leased = server.json("lease", &["mail", "--max", "2", "--wait", "20s", "--min", "2"]);
    assert_eq!(leased.len(), 2, "{leased:?}");
    // An export reads beside the server, an import wants its place.
    local_json("export", &[&["--to", &path("two")], &there[..]].concat());
    let refused = local(&[&["import", "--from", &path("one")], &there[..]].concat()).failed(1);
    assert!(refused.contains("another server") && refused.contains("schema moved"), "{refused}");
    let refused = server.run(&["backup"]).failed(1);
    assert!(refused.contains("the data is in PostgreSQL, whose own backups hold it"), "{refused}");
    stop(server);

    let back = local_json("import", &["--from", &path("two"), "--data-dir", &path("back")]);
    assert_eq!(back["rows"], out["rows"]);
    let server = Server::start(Path::new(&path("back")));
    let leased = server.json("lease", &["mail", "--max", "2", "--wait", "20s", "--min", "2"]);
    assert_eq!(leased.len(), 2, "{leased:?}");
}

#[test]
fn exactly_one_place_is_named_and_no_password_is_told() {
    let secret = "postgres://user:swordfish@127.0.0.1:1/data";
    let refused = local(&["export", "--to", "-"]).failed(2);
    assert!(refused.contains("neither a directory nor a database"), "{refused}");
    let both = ["import", "--from", "/dev/null", "--data-dir", "none", "--database-url", secret];
    assert!(local(&both).failed(2).contains("both a directory and a database"));
    for command in [["export", "--to", "-"], ["import", "--from", "/dev/null"]] {
        let refused = local(&[&command[..], &["--database-url", secret]].concat()).failed(1);
        assert!(refused.contains("schema millpond of the database: connecting"), "{refused}");
        assert!(!refused.contains("swordfish"), "{refused}");
    }
}
