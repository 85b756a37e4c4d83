//! Every verb against a server: what it does, and what it tells people.

use serde_json::json;

use crate::process::Server;

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    (directory, server)
}

fn with_queue() -> (tempfile::TempDir, Server) {
    let (directory, server) = server();
    server.run(&["queue", "create", "mail"]).done();
    (directory, server)
}

#[test]
fn a_message_is_sent_leased_and_acked() {
    let (_directory, server) = with_queue();
    let sent = server.run(&["send", "mail", r#"{"to": "ada@example.com"}"#, "--type", "welcome"]).done();
    assert!(sent.starts_with("msg_") && sent.lines().count() == 1, "{sent}");
    let leased = server.run(&["lease", "mail", "--wait", "20s"]).done();
    assert!(leased.starts_with(sent.trim_end()), "{leased}");
    assert!(leased.contains(r#"welcome from /millpond/send: {"to": "ada@example.com"}"#), "{leased}");
    // The last line is the command that acks it.
    let ack =
        leased.lines().last().and_then(|line| line.trim().strip_prefix("millpond ")).expect("a command");
    let acked = server.run(&ack.split(' ').collect::<Vec<_>>()).done();
    assert_eq!(acked, "acked 1 message\n");
    assert_eq!(server.json_one("why", &["mail"])["reason"], "empty");
}

#[test]
fn what_is_leased_in_json_is_settled_by_a_pipe() {
    let (_directory, server) = with_queue();
    let lines = "1\n2\n3\n";
    server.feed(&["send", "mail", "-"], lines).done();
    let leased = server.run(&["lease", "mail", "--max", "3", "--json"]).done();
    assert_eq!(
        server.feed(&["extend", "mail", "-", "--visibility-timeout", "5m"], &leased).done(),
        "extended 3 messages\n"
    );
    let two: String = leased.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(server.feed(&["nack", "mail", "-", "--delay", "1h"], &two).done(), "nacked 2 messages\n");
    let ran = server.feed(&["ack", "mail", "-"], &leased);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "acked 1 message\n"));
    assert!(ran.stderr.contains("could not ack all: no longer held: msg_"), "{}", ran.stderr);
    let status = &server.json_one("queue-show", &["mail"])["status"];
    assert_eq!((&status["delayed_count"], &status["leased_count"]), (&json!("2"), &json!("0")));
}

#[test]
fn a_queue_is_made_with_its_policies_and_shown_with_them() {
    let (_directory, server) = server();
    let made = server.json_one(
        "queue-create",
        &[
            "mail",
            "--set",
            "visibility_timeout=45s",
            "--set",
            "max_deliveries=3",
            "--set",
            "backoff.initial=1.5s",
            "--set",
            "backoff.factor=2",
            "--set",
            "lost_lease.spends_attempt=false",
            "--label",
            "team=post",
            "--annotation",
            "note=by hand",
            "--display-name",
            "Mail out",
        ],
    );
    assert_eq!(made["spec"]["visibility_timeout"], "45s");
    assert_eq!(made["spec"]["backoff"]["initial"], "1.5s");
    assert_eq!(made["spec"]["lost_lease"]["spends_attempt"], false);
    assert_eq!(made["meta"]["labels"], json!({"team": "post"}));
    assert_eq!(made["meta"]["display_name"], "Mail out");
    let shown = server.run(&["queue", "show", "mail"]).done();
    for part in ["labels", "team=post", "max_deliveries", "45s", "0 ready", "millpond send mail"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(server.run(&["queue", "create", "more"]).done(), "made queue more\n");
    assert_eq!(server.run(&["queue", "create", "less", "--validate-only"]).done(), "could make queue less\n");
    server.run(&["queue", "show", "less"]).failed(1);
}

#[test]
fn a_paused_queue_says_how_to_go_on() {
    let (_directory, server) = with_queue();
    server.run(&["send", "mail", "1"]).done();
    server.run(&["queue", "pause", "mail"]).done();
    let why = server.run(&["why", "mail"]).done();
    assert!(why.starts_with("mail: paused since ") && why.lines().count() == 1, "{why}");
    assert!(why.contains("`millpond queue resume mail`"), "{why}");
    let nothing = server.run(&["lease", "mail"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), ""));
    assert_eq!(nothing.stderr, "nothing to lease; `millpond why mail` says why\n");
    assert_eq!(server.run(&["queue", "resume", "mail"]).done(), "resumed queue mail; 1 message ready\n");
}

#[test]
fn destructive_verbs_do_what_they_say_with_yes() {
    let (_directory, server) = with_queue();
    server.feed(&["send", "mail", "-"], "1\n2\n3\n").done();
    assert_eq!(server.run(&["queue", "purge", "mail", "--yes"]).done(), "removed 3 messages\n");
    assert_eq!(server.run(&["queue", "delete", "mail", "-y"]).done(), "deleted queue mail\n");
    server.run(&["queue", "delete", "mail", "--yes"]).failed(1);
    server.run(&["queue", "delete", "mail", "--yes", "--allow-missing"]).done();
}

#[test]
fn options_of_a_send_reach_the_message() {
    let (_directory, server) = with_queue();
    let key = ["--idempotency-key", "order-7"];
    let first = server.run(&["send", "mail", "text, not JSON", "--delay", "2m", key[0], key[1]]).done();
    let again = server.run(&["send", "mail", "text, not JSON", "--delay", "2m", key[0], key[1]]).done();
    assert_eq!(first, again);
    assert_eq!(server.json_one("queue-show", &["mail"])["status"]["delayed_count"], "1");
    let other = server.run(&["send", "mail", "another", key[0], key[1]]).failed(1);
    assert!(other.contains("idempotency_key_reused") && other.contains("what to do: "), "{other}");

    server.run(&["send", "mail", "later", "--source", "/shop", "--subject", "7"]).done();
    server.run(&["send", "mail", "first", "--priority", "5", "--ttl", "1h"]).done();
    let leased = server.json("lease", &["mail", "--max", "2"]);
    assert_eq!(leased[0]["event"]["data"], "first");
    assert_eq!(leased[0]["event"]["data_content_type"], "text/plain");
    assert_eq!(
        (&leased[1]["event"]["source"], &leased[1]["event"]["subject"]),
        (&json!("/shop"), &json!("7"))
    );
}

#[test]
fn an_environment_can_be_named_in_three_ways() {
    let (_directory, server) = server();
    let name = "orgs/acme/projects/shop/envs/prod";
    let path = "/v1/orgs/acme/projects/shop/envs?env_id=prod";
    assert_eq!(server.post(path, &json!({})).0, 200);
    server.run(&["queue", "create", "mail", "--environment", name]).done();
    let whole = format!("{name}/queues/mail");
    assert_eq!(server.json_one("queue-show", &[&whole])["name"], whole);
    let mut command = server.command(&["queue", "show", "mail"]);
    command.env("MILLPOND_ENVIRONMENT", name);
    assert_eq!(crate::process::run(&mut command).status.code(), Some(0));
    server.run(&["queue", "show", "mail"]).failed(1);
}
