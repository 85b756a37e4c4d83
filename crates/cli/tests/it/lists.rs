//! Verbs on lists, dead letters, and single messages.

use serde_json::{Value, json};

use crate::process::Server;

/// A server with a queue whose messages are dead after one delivery.
fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    server.run(&["queue", "create", "mail", "--set", "max_deliveries=1", "--label", "team=post"]).done();
    (directory, server)
}

/// Sends numbers and lets them die; returns their ids.
fn kill(server: &Server, count: usize) -> Vec<String> {
    let lines: String = (0..count).map(|number| format!("{number}\n")).collect();
    server.feed(&["send", "mail", "-"], &lines).done();
    let leased = server.run(&["lease", "mail", "--max", "100", "--json"]).done();
    server.feed(&["nack", "mail", "-"], &leased).done();
    let ids = leased.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    ids.map(|message| message["message_id"].as_str().expect("an id").to_owned()).collect()
}

fn status(server: &Server, queue: &str) -> Value {
    server.json_one("queue-show", &[queue])["status"].clone()
}

#[test]
fn queues_are_listed_filtered_and_ordered() {
    let (_directory, server) = server();
    server.run(&["queue", "create", "audit"]).done();
    server.run(&["send", "mail", "1"]).done();
    let table = server.run(&["queue", "list"]).done();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["QUEUE", "READY", "DELAYED", "LEASED", "DEAD", "WHY"]);
    assert_eq!(rows[1], ["audit", "0", "0", "0", "0", "empty"]);
    assert_eq!(rows[2][..5], ["mail", "1", "0", "0", "0"]);
    let names = |arguments: &[&str]| -> Vec<String> {
        let queues = server.json("queue-list", arguments);
        queues
            .iter()
            .map(|queue| {
                queue["name"].as_str().expect("a name").rsplit('/').next().expect("an id").to_owned()
            })
            .collect()
    };
    assert_eq!(names(&[]), ["audit", "mail"]);
    assert_eq!(names(&["--order-by", "name desc"]), ["mail", "audit"]);
    assert_eq!(names(&["--filter", "labels.team = \"post\""]), ["mail"]);
    assert_eq!(names(&["--filter", "paused = true"]), [""; 0]);
    server.run(&["queue", "list", "--filter", "colour = 1"]).failed(1);
}

#[test]
fn a_queue_is_updated_field_by_field() {
    let (_directory, server) = server();
    let set =
        ["mail", "--set", "visibility_timeout=50s", "--set", "backoff.initial=2s", "--label", "tier=gold"];
    let updated = server.json_one("queue-update", &set);
    assert_eq!(updated["spec"]["visibility_timeout"], "50s");
    assert_eq!(updated["spec"]["max_deliveries"], 1, "what was not named stays");
    assert_eq!(updated["meta"]["labels"], json!({"team": "post", "tier": "gold"}));

    let part = server.json_one("queue-update", &["mail", "--set", "backoff.max=1m"]);
    assert_eq!(part["spec"]["backoff"]["initial"], "2s", "a part that was not named stays");
    assert_eq!(part["spec"]["backoff"]["max"], "60s");
    let unset = server.json_one(
        "queue-update",
        &["mail", "--unset", "max_deliveries", "--unlabel", "team", "--display-name", "Mail"],
    );
    assert_eq!(unset["spec"]["max_deliveries"], 5, "the default again");
    assert_eq!(unset["meta"]["labels"], json!({"tier": "gold"}));
    assert_eq!(unset["meta"]["display_name"], "Mail");

    let etag = updated["meta"]["etag"].as_str().expect("an etag");
    let stale = server.run(&["queue", "update", "mail", "--set", "delay=1s", "--etag", etag]).failed(1);
    assert!(stale.contains("etag_mismatch"), "{stale}");
    let valid = server.run(&["queue", "update", "mail", "--set", "delay=1s", "--validate-only"]).done();
    assert_eq!(valid, "could update queue mail\n");
    assert_eq!(server.json_one("queue-show", &["mail"])["spec"]["delay"], "0s");
}

#[test]
fn messages_are_looked_at_without_being_taken() {
    let (_directory, server) = server();
    server.feed(&["send", "mail", "-"], "{\"n\": 1}\n{\"n\": 2}\n").done();
    let peeked = server.json("peek", &["mail"]);
    assert_eq!(peeked.len(), 2);
    assert_eq!((&peeked[0]["event"]["data"], &peeked[0]["state"]), (&json!({"n": 1}), &json!("ready")));
    assert_eq!(server.json("peek", &["mail", "--max", "1"]).len(), 1);
    let table = server.run(&["peek", "mail"]).done();
    assert!(table.lines().count() == 3 && table.contains("{\"n\": 1}"), "{table}");
    let none = server.run(&["peek", "mail", "--state", "leased"]);
    assert_eq!((none.code, none.stderr.as_str()), (Some(0), "nothing leased in mail\n"));
    assert_eq!(status(&server, "mail")["ready_count"], "2");
}

#[test]
fn dead_letters_are_listed_replayed_and_purged() {
    let (_directory, server) = server();
    let ids = kill(&server, 3);
    let dead = server.json("dead-list", &["mail"]);
    assert_eq!(
        dead.iter().map(|message| message["message_id"].as_str().expect("an id")).collect::<Vec<_>>(),
        ids
    );
    assert!(dead[0]["dead_letter_reason"].is_string(), "{}", dead[0]);
    let few = server.run(&["dead", "list", "mail", "--max", "2"]);
    assert_eq!(
        (few.stdout.lines().count(), few.stderr.as_str()),
        (3, "there are more; --max COUNT shows them\n")
    );
    let why = server.run(&["why", "mail"]).done();
    assert!(
        why.contains("`millpond dead list mail`") && why.contains("`millpond queue replay mail`"),
        "{why}"
    );

    let one = server.json_one("queue-replay", &["mail", "--message", &ids[0], "--yes"]);
    assert_eq!(one["replayed_count"], "1");
    assert_eq!(server.json_one("queue-replay", &["mail", "--until", "1h", "--yes"])["replayed_count"], "0");
    assert_eq!(
        server.run(&["queue", "replay", "mail", "--since", "1h", "--yes"]).done(),
        "made 2 dead letters ready again\n"
    );
    assert_eq!(status(&server, "mail")["ready_count"], "3");

    let leased = server.run(&["lease", "mail", "--max", "100", "--json"]).done();
    server.feed(&["nack", "mail", "-"], &leased).done();
    let purged = server.json_one("queue-purge", &["mail", "--target", "dead-letters", "--yes"]);
    assert_eq!(purged["purged_count"], "3");
    let none = server.run(&["dead", "list", "mail"]);
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "no dead letters in mail\n"));
}

#[test]
fn dead_letters_are_moved() {
    let (_directory, server) = server();
    let ids = kill(&server, 2);
    server.run(&["queue", "create", "again"]).done();
    let moved = server.json_one("queue-redrive", &["mail", "--to", "again", "--message", &ids[0], "--yes"]);
    assert_eq!(moved, json!({"redriven_count": "1", "skipped_count": "0"}));
    assert_eq!(status(&server, "again")["ready_count"], "1");
    // What died in its own queue has no other home.
    let skipped = server.run(&["queue", "redrive", "mail", "--yes"]).done();
    assert_eq!(skipped, "moved 0 messages, skipped 1 without a home (give one with --to QUEUE)\n");
    assert_eq!(status(&server, "mail")["dead_letter_count"], "1");
}

#[test]
fn dead_letters_go_back_to_where_they_came_from() {
    let (_directory, server) = server();
    server.run(&["queue", "create", "mail-dead"]).done();
    server.run(&["queue", "update", "mail", "--set", "dead_letter_queue=mail-dead"]).done();
    let ids = kill(&server, 2);
    let dead = server.json_one("message-show", &["mail-dead", &ids[0]]);
    assert!(dead["dead_letter_queue"].as_str().is_some_and(|home| home.ends_with("mail")), "{dead}");
    assert_eq!(server.run(&["queue", "redrive", "mail-dead", "--yes"]).done(), "moved 2 messages\n");
    assert_eq!(status(&server, "mail")["ready_count"], "2");
    assert_eq!(status(&server, "mail-dead")["ready_count"], "0");
}

#[test]
fn one_message_is_shown_and_deleted() {
    let (_directory, server) = server();
    let id = server.run(&["send", "mail", "{\"a\":   1}", "--type", "welcome"]).done();
    let id = id.trim_end();
    let message = server.json_one("message-show", &["mail", id]);
    assert_eq!((&message["message_id"], &message["state"]), (&json!(id), &json!("ready")));
    let shown = server.run(&["message", "show", "mail", id]).done();
    assert!(shown.contains("welcome") && shown.contains("{\"a\":   1}"), "{shown}");
    assert_eq!(server.run(&["message", "show", "mail", id, "--data"]).done(), "{\"a\":   1}");

    let gone = server.json_one("message-delete", &["mail", id, "--yes"]);
    assert_eq!(gone, json!({"message_id": id, "deleted": true}));
    let missing = server.run(&["message", "show", "mail", id]).failed(1);
    assert!(missing.contains("message_not_found"), "{missing}");
}

/// A duration that is not known as one would be refused in minutes.
#[test]
fn every_policy_that_is_a_duration_is_read_in_minutes() {
    fn durations(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) if text.ends_with('s') && text[..text.len() - 1].parse::<f64>().is_ok() => {
                found.push(path.to_owned());
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    durations(&path, value, found);
                }
            }
            _ => {}
        }
    }
    let (_directory, server) = server();
    let queue = server.json_one("queue-update", &["mail", "--set", "backoff.initial=1s"]);
    let mut found = Vec::new();
    durations("", &queue["spec"], &mut found);
    assert!(found.len() >= 6, "{found:?}");
    for path in found {
        server.run(&["queue", "update", "mail", "--set", &format!("{path}=2m"), "--validate-only"]).done();
    }
}

#[test]
fn bounds_of_a_lease_reach_the_server() {
    let (_directory, server) = server();
    server.run(&["send", "mail", "1"]).done();
    let options = ["mail", "--max", "2", "--min", "2", "--wait", "0s", "--max-wait", "0s"];
    assert_eq!(server.json("lease", &options).len(), 1);
    for (option, value, field) in
        [("--max-wait", "21s", "max_wait"), ("--wait", "21s", "wait"), ("--min", "101", "min_messages")]
    {
        let refused = server.run(&["lease", "mail", option, value]).failed(1);
        assert!(refused.contains(field) && refused.contains("invalid_field"), "{refused}");
    }
}

#[test]
fn data_is_written_as_it_was_sent_whatever_its_kind() {
    let (_directory, server) = server();
    let shown = |id: &str| server.run(&["message", "show", "mail", id, "--data"]).done();
    for data in ["{\"a\":   1}", "gr\u{fc}\u{df}e", ""] {
        let id = server.run(&["send", "mail", data]).done();
        assert_eq!(shown(id.trim_end()), data);
    }
    let bytes = json!({"data_base64": "AAEK", "data_content_type": "application/x-thing"}).to_string();
    let id = server.run(&["send", "mail", &bytes, "--events"]).done();
    assert_eq!(shown(id.trim_end()), "\0\u{1}\n");
}
