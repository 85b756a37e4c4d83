//! What programs read: settings, completions, and that every answer in JSON follows its schema.

use serde_json::{Value, json};

use crate::process::{Ran, Server, millpond, run};
use crate::schema;

#[test]
fn settings_are_told_with_where_they_come_from() {
    let mut command = millpond();
    command.args(["config", "print", "--json", "--data-dir", "/srv/pond"]);
    command.env("MILLPOND_LISTEN", "127.0.0.1:9000").env("MILLPOND_ALLOW_HOST", "a.example,b.example");
    let settings = schema::check("config-print", &Ran::of(run(&mut command)).done());
    let find = |name: &str| settings.iter().find(|setting| setting["name"] == name).expect("a setting");
    let told = |name: &str| (find(name)["value"].clone(), find(name)["source"].clone());
    assert_eq!(told("data-dir"), (json!("/srv/pond"), json!("command line")));
    assert_eq!(told("listen"), (json!("127.0.0.1:9000"), json!("environment")));
    assert_eq!(told("allow-host"), (json!("a.example,b.example"), json!("environment")));
    assert_eq!(told("server"), (json!("http://127.0.0.1:8400"), json!("default")));
    assert_eq!(told("environment"), (Value::Null, json!("default")));
    assert_eq!(
        (&find("listen")["used_by"], &find("server")["used_by"]),
        (&json!("serve"), &json!("other commands"))
    );

    let table = Ran::of(run(millpond().args(["config", "print"]).env("MILLPOND_LOG", "debug"))).done();
    let line = table.lines().find(|line| line.starts_with("log ")).expect("a line");
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["log", "debug", "environment", "(MILLPOND_LOG)", "serve"]
    );
}

#[test]
fn a_message_is_one_line_whatever_line_breaks_its_data_holds() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    server.run(&["queue", "create", "mail"]).done();
    server.run(&["send", "mail", "{\n  \"a b\": [1.00,\n 2]\n}"]).done();
    let printed = server.run(&["peek", "mail", "--json"]).done();
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(printed.contains(r#""data":{"a b":[1.00,2]}"#), "{printed}");
}

/// A setting that `serve` takes and `config print` does not show would be one that nobody finds.
#[test]
fn every_setting_of_the_server_is_told() {
    let help = Ran::of(run(millpond().args(["serve", "--help"]))).done();
    let settings =
        schema::check("config-print", &Ran::of(run(millpond().args(["config", "print", "--json"]))).done());
    let variables: Vec<&str> =
        help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next()).collect();
    assert!(variables.len() >= 6, "{variables:?}");
    for variable in variables {
        assert!(settings.iter().any(|setting| setting["variable"] == variable), "{variable}");
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = Ran::of(run(millpond().args(["completions", shell]))).done();
        for word in ["redrive", "idempotency-key", "concurrency"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = Ran::of(run(millpond().args(["completions", "bash"]))).done();
    let mut bash = std::process::Command::new("bash");
    let checked = bash.args(["-n", "-c", &script]).output().expect("bash runs");
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn answers_follow_their_schemas() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    assert_eq!(server.json_one("queue-create", &["mail"])["status"]["paused"], false);
    assert_eq!(server.json_one("queue-pause", &["mail"])["status"]["paused"], true);
    assert_eq!(server.json_one("queue-resume", &["mail"])["status"]["paused"], false);
    let sent = server.json_one("send", &["mail", "[1.50]"]);
    let leased = server.json_one("lease", &["mail"]);
    assert_eq!(leased["message_id"], sent["message_id"]);
    let lease = format!(
        "{}@{}",
        leased["lease"]["message_id"].as_str().expect("an id"),
        leased["lease"]["lease_generation"].as_str().expect("a number")
    );
    assert_eq!(server.json_one("extend", &["mail", &lease])["settled_count"], "1");
    assert_eq!(server.json_one("nack", &["mail", &lease, "--delay", "0s"])["stale_leases"], json!([]));
    let why = server.json_one("why", &["mail"]);
    assert_eq!(
        (&why["queue"], &why["reason"], &why["advice"]),
        (&json!("mail"), &json!("delivering"), &json!("nothing to do"))
    );
    assert_eq!(server.json("lease", &["mail", "--max", "10"]).len(), 1);
    assert_eq!(server.json("lease", &["mail", "--max", "10"]), [Value::Null; 0]);

    // What was settled before is told in the answer and by the exit code.
    let ran = server.run(&["ack", "mail", &lease, "--json"]);
    assert_eq!(ran.code, Some(1));
    let answer = schema::check("ack", &ran.stdout);
    assert_eq!(answer[0]["settled_count"], "0");
    assert_eq!(answer[0]["stale_leases"][0]["message_id"], sent["message_id"]);

    server.run(&["send", "mail", "2"]).done();
    assert_eq!(server.json_one("queue-purge", &["mail", "--yes"])["purged_count"], "1");
    assert_eq!(
        server.json_one("queue-delete", &["mail", "--yes"]),
        json!({"queue": "mail", "deleted": true})
    );
}

#[test]
fn a_measurement_follows_its_schema() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    let url = format!("http://{}", server.address);
    let short = ["--seconds", "1", "--rounds", "1", "--warm-up", "0", "--connections", "2"];
    let mut command = server.command(&["bench", "sends", "--server", &url, "--json"]);
    let reports = schema::check("bench", &Ran::of(run(command.args(short))).done());
    assert!(reports[0]["scenarios"]["sends"].is_object(), "{}", reports[0]);
}
