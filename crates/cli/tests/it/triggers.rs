//! Triggers, deployments and the signing secret on the command line.

use millpond_client::{Client, NewTrigger};
use serde_json::{Value, json};

use crate::process::Server;

const TARGET: &str = "http://127.0.0.1:9/queue";

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    (directory, server)
}

/// Deploys so many triggers.
pub(crate) fn deploy(server: &Server, id: &str, count: usize) {
    let client = Client::new(format!("http://{}", server.address)).expect("a client");
    let trigger = |number| NewTrigger::new("orders", format!("g{number}"), TARGET);
    let triggers: Vec<_> = (0..count).map(trigger).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(client.deployments().deploy(id, &triggers, false)).expect("deployed");
}

fn create<'a>(id: &'a str, group: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[id, "--topic", "orders-*", "--group", group, "--target", TARGET], more].concat()
}

#[test]
fn triggers_are_made_listed_shown_and_deleted() {
    let (_directory, server) = server();
    server.run(&["queue", "create", "dead"]).done();
    let policies = [
        "--retry-after",
        "5s",
        "--initial-delay",
        "1h",
        "--max-deliveries",
        "3",
        "--max-concurrency",
        "7",
        "--dead-letter-queue",
        "dead",
        "--visibility-timeout",
        "1m",
    ];
    let checked = [&policies[..], &["--validate-only"]].concat();
    assert_eq!(server.json_one("trigger-create", &create("mail", "mailer", &checked))["trigger_id"], "mail");
    let nothing = server.run(&["trigger", "list"]);
    assert!(nothing.stderr.contains("`millpond trigger create`"), "{nothing:?}");
    let made = server.json_one("trigger-create", &create("mail", "mailer", &policies));
    let told: Vec<&Value> =
        ["retry_after", "initial_delay", "max_deliveries", "max_concurrency", "visibility_timeout"]
            .iter()
            .map(|name| &made[*name])
            .collect();
    assert_eq!(told, [&json!("5s"), &json!("3600s"), &json!(3), &json!(7), &json!("60s")]);
    let told = server.run(&[&["trigger", "create"], &create("audit", "audit", &[])[..]].concat()).done();
    assert_eq!(told, "made trigger audit\n");

    assert_eq!(server.json("trigger-list", &[]).len(), 2);
    let table = server.run(&["trigger", "list"]).done();
    let line = table.lines().nth(2).expect("the second trigger");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..5], ["mail", "orders-*", "mailer", TARGET, "starting"], "{table}");
    assert_eq!(server.json_one("trigger-show", &["mail"]), made);
    let shown = server.run(&["trigger", "show", "mail"]).done();
    for part in ["starting", "(in 59m", "retry_after", "5s", "/queues/dead"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(server.json("trigger-pushes", &["mail"]), [Value::Null; 0]);
    assert_eq!(server.run(&["trigger", "pushes", "mail"]).stdout, "");

    let taken = server.run(&[&["trigger", "create"], &create("mail", "other", &[])[..]].concat());
    assert!(taken.failed(1).contains("(trigger_already_exists)"));
    let overlaps = server.run(&[&["trigger", "create"], &create("other", "mailer", &[])[..]].concat());
    assert!(overlaps.failed(1).contains("(trigger_overlaps)"));
    assert!(server.run(&["trigger", "delete", "mail"]).failed(2).contains("add --yes"));
    assert_eq!(
        server.json_one("trigger-delete", &["mail", "--yes"]),
        json!({ "trigger": "mail", "deleted": true })
    );
    let gone = server.run(&["trigger", "show", "mail"]);
    assert!(gone.failed(1).contains("`millpond trigger list`"));
    server.run(&["trigger", "delete", "mail", "--allow-missing"]).done();
    let drawn = server.run(&["trigger", "create", "--topic", "t", "--group", "g", "--target", TARGET]).done();
    assert!(drawn.starts_with("made trigger trg_"), "{drawn}");
}

#[test]
fn deployments_are_listed_shown_and_removed() {
    let (_directory, server) = server();
    assert_eq!(server.run(&["deployment", "list"]).stderr, "no deployments\n");
    deploy(&server, "dpl_1", 2);
    deploy(&server, "dpl_2", 1);
    assert_eq!(server.json("deployment-list", &[]).len(), 2);
    let table = server.run(&["deployment", "list"]).done();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(1).map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(
        (rows[0][..2].to_vec(), rows[1].clone()),
        (vec!["dpl_1", "2"], vec!["dpl_2", "yes", "1"]),
        "{table}"
    );
    assert_eq!(server.json_one("deployment-show", &["dpl_1"])["triggers"][1]["trigger_id"], "dpl_1-2");
    let shown = server.run(&["deployment", "show", "dpl_1"]).done();
    assert!(shown.contains("another was deployed later") && shown.contains("dpl_1-2"), "{shown}");
    let trigger = server.run(&["trigger", "show", "dpl_2-1"]).done();
    assert!(trigger.contains("dpl_2 (the current one)"), "{trigger}");

    assert!(server.run(&["deployment", "remove", "dpl_2"]).failed(2).contains("add --yes"));
    assert_eq!(
        server.json_one("deployment-remove", &["dpl_2", "--yes"]),
        json!({ "deployment": "dpl_2", "removed": true })
    );
    assert!(server.run(&["deployment", "show", "dpl_2"]).failed(1).contains("`millpond deployment list`"));
    server.run(&["deployment", "remove", "dpl_2", "--allow-missing"]).done();
    assert_eq!(server.json_one("deployment-show", &["dpl_1"])["current"], true);
}

#[test]
fn the_secret_is_printed_and_replaced() {
    let (_directory, server) = server();
    let first = server.run(&["signing-secret", "show"]).done();
    assert!(first.starts_with("whsec_") && first.lines().count() == 1, "{first}");
    assert_eq!(server.json_one("signing-secret-show", &[])["secret"], first.trim_end());
    assert!(server.run(&["signing-secret", "rotate"]).failed(2).contains("add --yes"));
    let rotated = server.run(&["signing-secret", "rotate", "--grace", "1h", "--yes"]);
    assert!(rotated.stderr.contains("signs as well until"), "{rotated:?}");
    assert_ne!(rotated.stdout, first);
    let answer = server.json_one("signing-secret-rotate", &["--grace", "0s", "--yes"]);
    assert_eq!(answer["previous_until"], Value::Null);
    let long = server.run(&["signing-secret", "rotate", "--grace", "31d", "--yes"]);
    assert!(long.failed(1).contains("(invalid_field)"));
}
