//! Topics and groups on the command line.

use serde_json::{Value, json};

use crate::process::{Server, millpond, run};
use crate::schema;

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    server.run(&["topic", "create", "news"]).done();
    (directory, server)
}

const GROUP: [&str; 4] = ["--topic", "news", "--group", "billing"];

fn with_group<'a>(verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[verb], &GROUP[..], more].concat()
}

#[test]
fn topics_are_made_listed_changed_and_deleted() {
    let (_directory, server) = server();
    let made =
        server.json_one("topic-create", &["Orders_1", "--set", "retention=2h", "--label", "team=shop"]);
    assert_eq!(made["spec"], json!({"retention": "7200s", "delay": "0s"}));
    let changed = server.json_one("topic-update", &["Orders_1", "--set", "delay=5s", "--unset", "retention"]);
    assert_eq!(changed["spec"], json!({"retention": "604800s", "delay": "5s"}));
    server.run(&["send", "--topic", "Orders_1", "1"]).done();
    assert_eq!(server.json_one("topic-show", &["Orders_1"])["status"]["delayed_count"], "1");
    let ids: Vec<Value> = server.json("topic-list", &[]).iter().map(|topic| topic["name"].clone()).collect();
    assert_eq!(ids.len(), 2);
    let filtered = server.run(&["topic", "list", "--filter", "labels.team = shop"]).done();
    assert!(filtered.lines().count() == 2 && filtered.contains("Orders_1  0      1"), "{filtered}");
    let shown = server.run(&["topic", "show", "Orders_1"]).done();
    assert!(shown.contains("0 ready, 1 delayed") && shown.contains("team=shop"), "{shown}");

    let ran = server.run(&["topic", "delete", "Orders_1"]);
    assert!(ran.failed(2).contains("add --yes"), "off a terminal nobody can be asked");
    let deleted = server.json_one("topic-delete", &["Orders_1", "--yes"]);
    assert_eq!(deleted, json!({"topic": "Orders_1", "deleted": true}));
    assert!(server.run(&["topic", "delete", "Orders_1", "--yes"]).failed(1).contains("topic_not_found"));
    server.run(&["topic", "delete", "Orders_1", "--allow-missing"]).done();
    let told = server.run(&["topic", "update", "news"]);
    assert!(told.failed(2).contains("nothing was named to change"));
}

#[test]
fn groups_are_made_listed_paused_and_deleted() {
    let (_directory, server) = server();
    server.run(&["send", "--topic", "news", "1"]).done();
    let late = server.json_one(
        "group-create",
        &["late", "--topic", "news", "--start", "latest", "--set", "max_deliveries=3"],
    );
    assert_eq!((&late["status"]["ready_count"], &late["spec"]["max_deliveries"]), (&json!("0"), &json!(3)));
    server.run(&["group", "create", "billing", "--topic", "news"]).done();
    assert_eq!(server.json("group-list", &["--topic", "news"]).len(), 2);
    let table = server.run(&["group", "list", "--topic", "news"]).done();
    assert!(table.contains("billing  1      0        0       no consumer"), "{table}");
    assert_eq!(server.json_one("group-pause", &["billing", "--topic", "news"])["status"]["paused"], true);
    let why = server.run(&with_group("why", &[])).done();
    assert!(why.contains("`millpond group resume billing --topic news` lets it deliver again"), "{why}");
    let answer = server.json_one("why", &GROUP);
    assert_eq!(
        (&answer["topic"], &answer["group"], &answer["reason"]),
        (&json!("news"), &json!("billing"), &json!("paused"))
    );
    assert!(answer.get("queue").is_none());
    assert_eq!(server.json_one("group-resume", &["billing", "--topic", "news"])["status"]["paused"], false);
    let shown = server.run(&["group", "show", "billing", "--topic", "news"]).done();
    assert!(shown.contains("1 ready, 0 delayed, 0 leased"), "{shown}");
    assert!(server.run(&["group", "delete", "billing", "--topic", "news"]).failed(2).contains("add --yes"));
    let deleted = server.json_one("group-delete", &["billing", "--topic", "news", "--yes"]);
    assert_eq!(deleted, json!({"topic": "news", "group": "billing", "deleted": true}));
    let ran = server.run(&["group", "show", "billing", "--topic", "news"]);
    assert!(ran.failed(1).contains("a lease makes one"));
}

#[test]
fn a_message_of_a_topic_is_leased_and_settled_by_hand() {
    let (_directory, server) = server();
    let sent = server.run(&["send", "--topic", "news", "--partition", "p", "[1]"]).done();
    server.feed(&["send", "--topic", "news", "-"], "2\n3\n").done();
    let leased = server.run(&with_group("lease", &["--partition", "p"])).done();
    assert!(leased.starts_with(sent.trim_end()), "{leased}");
    // The last line is the command that acks it.
    let ack =
        leased.lines().last().and_then(|line| line.trim().strip_prefix("millpond ")).expect("a command");
    assert_eq!(server.run(&ack.split(' ').collect::<Vec<_>>()).done(), "acked 1 message\n");
    let leased = server.run(&with_group("lease", &["--max", "10", "--json"])).done();
    assert_eq!(schema::check("lease", &leased).len(), 2);
    let extend = with_group("extend", &["-", "--visibility-timeout", "5m"]);
    assert_eq!(server.feed(&extend, &leased).done(), "extended 2 messages\n");
    let first = format!("{}\n", leased.lines().next().expect("a message"));
    assert_eq!(
        server.feed(&with_group("nack", &["-", "--delay", "1h"]), &first).done(),
        "nacked 1 message\n"
    );
    let ran = server.feed(&with_group("ack", &["-", "--json"]), &leased);
    assert_eq!(ran.code, Some(1));
    let answer = schema::check("ack", &ran.stdout);
    assert_eq!(
        (&answer[0]["settled_count"], answer[0]["stale_leases"][0]["delivery"].is_string()),
        (&json!("1"), true)
    );
    let nothing = server.run(&with_group("lease", &[]));
    assert!(nothing.stderr.contains("`millpond why --topic news --group billing` says why"), "{nothing:?}");
}

#[test]
fn a_worker_of_a_group_gets_the_data_and_knows_whose_it_is() {
    let (_directory, server) = server();
    server.run(&["send", "--topic", "news", "[7]"]).done();
    for group in ["one", "two"] {
        let exec = "cat; echo; env | grep -E '^MILLPOND_(QUEUE|TOPIC|GROUP|DELIVERY)=' | sort";
        let mut command =
            server.command(&["work", "--topic", "news", "--group", group, "--exec", exec, "--drain"]);
        let ran = crate::process::Ran::of(run(command.env("MILLPOND_QUEUE", "of another message")));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(
            (lines[0], lines[2], lines[3]),
            ("[7]", &*format!("MILLPOND_GROUP={group}"), "MILLPOND_TOPIC=news"),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("MILLPOND_DELIVERY=") && lines.len() == 4, "{lines:?}");
    }
    let nowhere = server.run(&["work", "--topic", "none", "--group", "g", "--exec", "true"]);
    assert!(nowhere.failed(1).contains("topic_not_found"));
}

#[test]
fn what_does_not_go_together_is_a_wrong_usage() {
    for arguments in [
        &["lease", "--topic", "t"][..],
        &["lease", "--group", "g"],
        &["lease"],
        &["lease", "q", "--topic", "t", "--group", "g"],
        &["lease", "q", "--partition", "p"],
        &["ack", "--topic", "t", "--group", "g"],
        &["ack", "q"],
        &["ack", "--topic", "t", "--group", "g", "msg_1"],
        &["send", "--topic", "t"],
        &["send", "--topic", "t", "1", "2"],
        &["send", "--topic", "t", "1", "--file", "f"],
        &["send", "q", "1", "--partition", "p"],
        &["group", "list"],
        &["work", "--exec", "true"],
    ] {
        let ran = crate::process::Ran::of(run(millpond()
            .args(arguments)
            .env("MILLPOND_URL", "http://127.0.0.1:9")));
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
    }
}
