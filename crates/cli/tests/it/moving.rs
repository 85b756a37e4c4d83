//! `backup`, `restore`, `export` and `import`: of a server that runs, of directories that nobody serves, and what each refuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::{Ran, Server, millpond, run};
use crate::schema;

const HOME: &str = "orgs/default/projects/default/envs/default";

/// Three messages in a queue, one of them large, a topic, and one lease that is held.
fn filled(directory: &Path) -> Server {
    let server = Server::start(directory);
    server.run(&["queue", "create", "mail"]).done();
    server.run(&["topic", "create", "news"]).done();
    let large = directory.join("large");
    fs::write(&large, vec![7; 700_000]).expect("it is written");
    server.run(&["send", "mail", "--data-file", text(&large)]).done();
    server.run(&["send", "mail", "[1]"]).done();
    server.run(&["send", "mail", "[2]"]).done();
    server.run(&["send", "--topic", "news", "[3]"]).done();
    server.run(&["lease", "mail", "--max", "1", "--visibility-timeout", "1h"]).done();
    server
}

fn text(path: &Path) -> &str {
    path.to_str().expect("utf-8")
}

/// A command that calls no server.
fn local(arguments: &[&str]) -> Ran {
    Ran::of(run(millpond().args(arguments)))
}

#[track_caller]
fn local_json(command: &str, arguments: &[&str]) -> Value {
    let words: Vec<&str> = [&[command], arguments, &["--json"]].concat();
    let mut lines = schema::check(command, &local(&words).done());
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

fn stop(server: Server) {
    server.signal(libc::SIGTERM);
    let (status, log) = server.ended();
    assert!(status.success(), "{log}");
}

fn ready(server: &Server) -> Value {
    server.json_one("queue-show", &["mail"])["status"]["ready_count"].clone()
}

/// Takes the three messages that there are, which void leases give back soon after the start; there is no fourth.
#[track_caller]
fn take_three(server: &Server, more: &[&str]) -> Vec<Value> {
    let words = ["mail", "--max", "3", "--min", "3", "--wait", "20s", "--max-wait", "20s"];
    let taken = server.json("lease", &[&words, more].concat());
    assert_eq!(taken.len(), 3, "{taken:?}");
    let shown = server.json_one("queue-show", &[&["mail"], more].concat());
    assert_eq!(
        (&shown["status"]["ready_count"], &shown["status"]["leased_count"]),
        (&json!("0"), &json!("3"))
    );
    taken
}

#[test]
fn a_backup_of_a_running_server_is_restored_and_its_leases_are_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, other) = (directory.path().join("data"), directory.path().join("other"));
    let server = filled(&data);
    let made = server.json_one("backup", &[]);
    let backup = made["directory"].as_str().expect("a path").to_owned();
    assert!(Path::new(&backup).starts_with(data.join("backups")), "{backup}");
    let environments = &made["environments"];
    assert_eq!((&environments[0]["name"], &environments[0]["delivery_count"]), (&json!(HOME), &json!("4")));
    let (status, shown) = server.get(&format!("/v1/backups/{}", backup.rsplit('/').next().expect("an id")));
    assert_eq!((status, &shown["state"]), (200, &json!("done")));
    server.run(&["send", "mail", "[4]"]).done();
    assert_eq!(ready(&server), "3");
    stop(server);

    let elsewhere = local_json("restore", &["--from", &backup, "--data-dir", text(&other)]);
    assert_eq!(elsewhere["environments"][0]["replaced"], false);
    let refused = local(&["restore", "--from", &backup, "--data-dir", text(&data)]).failed(2);
    assert!(refused.contains(&format!("\n    {HOME}\n")) && refused.contains("--yes"), "{refused}");
    let there = local_json("restore", &["--from", &backup, "--data-dir", text(&data), "--yes"]);
    assert_eq!(there["environments"][0]["replaced"], true);
    for place in [&data, &other] {
        let server = Server::start(place);
        take_three(&server, &[]);
        let topic = server.json_one("topic-show", &["news"]);
        assert_eq!(topic["status"]["ready_count"], "1", "{topic}");
    }
}

#[test]
fn a_directory_that_nobody_serves_is_backed_up_and_moved_without_changing_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    stop(filled(&directory.path().join("data")));
    let (data, backup, file) = (path("data"), path("backup"), path("export.jsonl"));
    local_json("backup", &["--data-dir", &data, "--to", &backup, "--environment", HOME]);
    let of_backup = local_json("export", &["--data-dir", &backup, "--to", &file]);
    let of_data = local_json("export", &["--data-dir", &data, "--to", &path("other.jsonl")]);
    assert_eq!(of_backup["rows"], of_data["rows"]);
    assert_eq!(of_backup["rows"]["delivery"], "4");

    let moved = local_json("import", &["--from", &file, "--data-dir", &path("target")]);
    assert_eq!((&moved["rows"], &moved["sha256"]), (&of_backup["rows"], &of_backup["sha256"]));
    let name = "orgs/a/projects/b/envs/c";
    local(&["import", "--from", &file, "--data-dir", &path("target"), "--environment", name]).done();
    let server = Server::start(&directory.path().join("target"));
    take_three(&server, &["--environment", name]);
    let taken = take_three(&server, &[]);
    let ids = taken.iter().filter_map(|message| message["lease"]["message_id"].as_str());
    let large = ids.map(|id| server.run(&["message", "show", "mail", id, "--json"]).done());
    let large = large.filter(|shown| shown.contains("data_url") || shown.contains("700000")).count();
    assert_eq!(large, 1, "{taken:?}");
}

#[test]
fn an_import_that_was_broken_off_is_served_by_nobody_and_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    stop(filled(&directory.path().join("data")));
    let (file, torn, target) = (path("export.jsonl"), path("torn.jsonl"), path("target"));
    local(&["export", "--data-dir", &path("data"), "--to", &file]).done();
    let whole = fs::read(&file).expect("it is there");
    fs::write(&torn, &whole[..whole.len() - 20]).expect("it is written");
    let refused = local(&["import", "--from", &torn, "--data-dir", &target]).failed(1);
    assert!(refused.contains("it is torn") && refused.contains("goes on where it stopped"), "{refused}");

    let server = Server::start(Path::new(&target));
    let refused = server.run(&["queue", "show", "mail"]).failed(1);
    assert!(refused.contains("storage_corrupt"), "{refused}");
    let held = local(&["import", "--from", &file, "--data-dir", &target]).failed(1);
    assert!(held.contains("another process serves"), "{held}");
    stop(server);

    local(&["import", "--from", &file, "--data-dir", &target]).done();
    take_three(&Server::start(Path::new(&target)), &[]);
    let refused = local(&["import", "--from", &file, "--data-dir", &target]).failed(1);
    assert!(refused.contains("is not empty"), "{refused}");

    let mut altered = whole.clone();
    let at = altered.windows(6).rposition(|bytes| bytes == b"\"nonce").expect("it is there");
    altered[at + 10] ^= 1;
    fs::write(&torn, altered).expect("it is written");
    let refused = local(&["import", "--from", &torn, "--data-dir", &path("third")]).failed(1);
    assert!(refused.contains("their checksum is another"), "{refused}");
}

#[test]
fn an_export_goes_through_a_pipe() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    stop(filled(&directory.path().join("data")));
    let mut export = millpond();
    export
        .args(["export", "--data-dir", &path("data"), "--to", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut export = export.spawn().expect("it runs");
    let piped = export.stdout.take().expect("it is piped");
    let mut import = millpond();
    import.args(["import", "--from", "-", "--data-dir", &path("target"), "--json"]).stdin(piped);
    let imported = Ran::of(import.output().expect("it runs")).done();
    assert!(export.wait().expect("it ends").success());
    assert_eq!(schema::check("import", &imported)[0]["file"], "-");
    let head = Command::new("sh")
        .args(["-c", "\"$0\" export --data-dir \"$1\" --to - | head -c 100"])
        .args([env!("CARGO_BIN_EXE_millpond"), &path("data")])
        .output()
        .expect("it runs");
    assert_eq!(head.stdout.len(), 100);
    let told = String::from_utf8(head.stderr).expect("text");
    assert!(!told.contains("millpond: "), "{told}");
}

#[test]
fn what_cannot_be_moved_is_said_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    let (data, none) = (path("data"), path("none"));
    let server = filled(Path::new(&data));
    for words in [
        ["backup", "--data-dir", &data, "--to", &none],
        ["export", "--data-dir", &data, "--to", &none],
        ["import", "--data-dir", &data, "--from", "/dev/null"],
    ] {
        let refused = local(&words).failed(1);
        assert!(
            refused.contains("another process serves") && refused.contains("backup --server"),
            "{refused}"
        );
    }
    let refused = server.run(&["backup", "--environment", "orgs/a/projects/b/envs/c"]).failed(1);
    assert!(refused.contains("environment orgs/a/projects/b/envs/c does not exist"), "{refused}");
    assert!(server.run(&["backup", "--environment", "mail"]).code == Some(2));
    stop(server);
    assert!(!Path::new(&none).exists());
    local(&["export", "--data-dir", &none, "--to", "-"]).failed(1);
    local(&["restore", "--from", &data, "--data-dir", &none]).failed(1);
    let refused =
        local(&["export", "--data-dir", &data, "--to", "-", "--environment", "orgs/a/projects/b/envs/c"]);
    assert!(refused.failed(1).contains(&format!("\n    {HOME}\n")));
    local(&["export", "--data-dir", &data, "--to", "-", "--json"]).failed(2);
    local(&["export", "--data-dir", &data, "--to", &path("file")]).done();
    let refused = local(&["export", "--data-dir", &data, "--to", &path("file")]).failed(1);
    assert!(refused.contains("is there already"), "{refused}");
    // Somebody writes it, or was killed over it.
    fs::write(path("other.part"), "of somebody else").expect("it is written");
    let refused = local(&["export", "--data-dir", &data, "--to", &path("other")]).failed(1);
    assert!(refused.contains("other.part is there already"), "{refused}");
    assert_eq!(fs::read(path("other.part")).expect("it is left alone"), b"of somebody else");
    local(&["backup", "--data-dir", &data, "--to", &path("backup")]).done();
    let refused = local(&["backup", "--data-dir", &data, "--to", &path("backup")]).failed(1);
    assert!(refused.contains("is there already"), "{refused}");
    let far = ["restore", "--from", &path("backup"), "--data-dir", &none, "--after", "2060-01-01T00:00:00Z"];
    assert!(local(&far).failed(2).contains("before 2054"));

    // A bit that turned is noticed, and nothing is replaced.
    let copy = directory.path().join("backup/1.sqlite");
    let mut bytes = fs::read(&copy).expect("it is there");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&copy, bytes).expect("it is written");
    let refused = local(&["restore", "--from", &path("backup"), "--data-dir", &data, "--yes"]).failed(1);
    assert!(refused.contains("is not what was backed up"), "{refused}");
    let refused = local(&["export", "--data-dir", &path("backup"), "--to", "-"]).failed(1);
    assert!(refused.contains("is not what was backed up"), "{refused}");
    assert_eq!(ready(&Server::start(Path::new(&data))), "2", "the lease lives on");
}
