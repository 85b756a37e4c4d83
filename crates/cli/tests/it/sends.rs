//! Sending files: lines, batches, and taking up again what was not finished.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::process::{Ran, Server, run};

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(&directory.path().join("data"));
    server.run(&["queue", "create", "mail"]).done();
    (directory, server)
}

fn ready_count(server: &Server) -> String {
    let queue = server.json_one("queue-show", &["mail"]);
    queue["status"]["ready_count"].as_str().expect("a count").to_owned()
}

/// All messages, in their order.
fn drain(server: &Server) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let part = server.json("lease", &["mail", "--max", "100"]);
        if part.is_empty() {
            return all;
        }
        all.extend(part);
    }
}

#[test]
fn a_file_is_sent_to_its_end_although_nobody_reads_the_ids() {
    let (directory, server) = server();
    let file = directory.path().join("lines.jsonl");
    std::fs::write(&file, "1\n".repeat(350)).expect("written");
    let path = file.to_str().expect("utf-8");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = server.command(&["send", "mail", "--file", path, "--json"]);
    let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn();
    Ran::of(child.expect("the binary runs").wait_with_output().expect("it ends")).done();
    assert_eq!(ready_count(&server), "350");
}

#[test]
fn each_line_is_the_data_of_a_message_in_the_order_of_the_file() {
    let (directory, server) = server();
    let file = directory.path().join("lines.jsonl");
    let lines: String = (0..250).map(|number| format!("{{\"n\": {number}}}\n\n")).collect();
    std::fs::write(&file, lines).expect("written");
    let path = file.to_str().expect("utf-8");
    assert_eq!(
        server.run(&["send", "mail", "--file", path, "--type", "tick"]).done(),
        "sent 250 messages to mail\n"
    );
    let messages = drain(&server);
    let numbers: Vec<u64> =
        messages.iter().map(|message| message["event"]["data"]["n"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (0..250).collect::<Vec<_>>());
    assert!(messages.iter().all(|message| message["event"]["type"] == "tick"));
}

#[test]
fn a_line_with_specversion_is_a_whole_event() {
    let (_directory, server) = server();
    let lines = concat!(
        r#"{"specversion": "1.0", "id": "7", "source": "/shop", "type": "paid", "traceparent": "00-1", "data": {"sum": 1.5}}"#,
        "\n",
        r#"{"id": "8", "source": "/shop", "type": "paid"}"#,
        "\n"
    );
    let sent = server.feed(&["send", "mail", "-", "--json"], lines).done();
    let ids = crate::schema::check("send", &sent);
    assert_eq!(ids.len(), 2);
    let messages = drain(&server);
    assert_eq!(messages[0]["message_id"], ids[0]["message_id"]);
    let event = &messages[0]["event"];
    assert_eq!(
        (&event["id"], &event["source"], &event["type"]),
        (&json!("7"), &json!("/shop"), &json!("paid"))
    );
    assert_eq!(event["extensions"], json!({"traceparent": "00-1"}));
    assert_eq!(messages[1]["event"]["data"], json!({"id": "8", "source": "/shop", "type": "paid"}));
}

#[test]
fn with_events_every_line_is_one_and_gets_what_it_lacks() {
    let (_directory, server) = server();
    let lines = "{\"id\": \"a\", \"data\": 1}\n{\"type\": \"own\", \"extensions\": {\"n\": 3}}\n";
    server.feed(&["send", "mail", "-", "--events", "--source", "/given", "--type", "given"], lines).done();
    let messages = drain(&server);
    let (first, second) = (&messages[0]["event"], &messages[1]["event"]);
    assert_eq!(
        (&first["id"], &first["source"], &first["type"]),
        (&json!("a"), &json!("/given"), &json!("given"))
    );
    assert_eq!((&second["type"], &second["extensions"]), (&json!("own"), &json!({"n": 3})));
    assert!(second.get("data").is_none() && second["id"].is_string());
    let wrong =
        server.feed(&["send", "mail", "-", "--events"], "{\"data\": 1, \"colour\": \"red\"}\n").failed(2);
    assert!(wrong.contains("cannot send line 1 of stdin: colour is not a field of an event"), "{wrong}");
}

#[test]
fn data_keeps_its_text() {
    let (_directory, server) = server();
    server.feed(&["send", "mail", "-"], " {\"n\":   12345678901234567890.10, \"u\": \"\\u00e4\"} \n").done();
    // What is printed has no space between values, what a command is given is as it was sent.
    let peeked = server.run(&["peek", "mail", "--json"]).done();
    assert!(peeked.contains("\"data\":{\"n\":12345678901234567890.10,\"u\":\"\\u00e4\"}"), "{peeked}");
    let worked = server.run(&["work", "mail", "--exec", "cat", "--drain"]);
    assert_eq!(worked.stdout, "{\"n\":   12345678901234567890.10, \"u\": \"\\u00e4\"}");
}

#[test]
fn large_lines_are_split_into_calls_that_the_server_takes() {
    let (_directory, server) = server();
    // Five of 250 KiB are more than one call may hold; one of 300 KiB is more than an event in JSON may be.
    let text = |kib: usize| format!("\"{}\"\n", "x".repeat(kib << 10));
    let lines = text(250).repeat(5) + &text(300) + "1\n";
    assert_eq!(server.feed(&["send", "mail", "-"], &lines).done(), "sent 7 messages to mail\n");
    assert_eq!(ready_count(&server), "7");
}

#[test]
fn a_wrong_line_is_named_and_the_send_is_taken_up_again_under_its_key() {
    let (directory, server) = server();
    let file = directory.path().join("lines.jsonl");
    let path = file.to_str().expect("utf-8");
    let mut lines: Vec<String> = (0..250).map(|number| number.to_string()).collect();
    lines[220] = "not JSON".to_owned();
    std::fs::write(&file, lines.join("\n")).expect("written");
    let stderr = server.run(&["send", "mail", "--file", path]).failed(2);
    assert!(stderr.contains(&format!("cannot send line 221 of {path}: ")), "{stderr}");
    assert_eq!(ready_count(&server), "200");
    let key =
        stderr.split("--idempotency-key ").nth(1).and_then(|rest| rest.split(':').next()).expect("a key");
    assert!(stderr.contains("what to do: 200 messages sent so far; run it again with "), "{stderr}");

    lines[220] = "220".to_owned();
    std::fs::write(&file, lines.join("\n")).expect("written");
    for _ in 0..2 {
        let again = server.run(&["send", "mail", "--file", path, "--idempotency-key", key]).done();
        assert_eq!(again, "sent 250 messages to mail\n");
        assert_eq!(ready_count(&server), "250");
    }
}

#[test]
fn a_server_that_goes_away_is_told_with_how_to_go_on() {
    let (_directory, server) = server();
    let url = format!("http://{}", server.address);
    server.signal(libc::SIGKILL);
    assert!(!server.ended().0.success());
    let mut lines = tempfile::NamedTempFile::new().expect("a file");
    lines.write_all(b"1\n2\n").expect("written");
    let mut command = crate::process::millpond();
    command.args(["send", "mail", "--server", &url, "--file"]).arg(lines.path());
    let stderr = Ran::of(run(&mut command)).failed(3);
    assert!(stderr.contains("cannot send lines 1 to 2 of "), "{stderr}");
    assert!(stderr.contains("0 messages sent so far; run it again with --idempotency-key "), "{stderr}");
}

#[test]
fn what_a_slow_producer_has_written_is_sent_before_it_is_done() {
    let (_directory, server) = server();
    let mut command = server.command(&["send", "mail", "-", "--json"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"1\n").expect("written");
    assert_eq!(server.json("lease", &["mail", "--wait", "20s"])[0]["event"]["data"], 1);
    stdin.write_all(b"2\n").expect("written");
    drop(stdin);
    assert_eq!(Ran::of(child.wait_with_output().expect("it ends")).done().lines().count(), 2);
    assert_eq!(ready_count(&server), "1");
}

#[test]
fn an_interrupt_is_heard_while_the_input_is_slow() {
    let (_directory, server) = server();
    let mut command = server.command(&["send", "mail", "-", "--json"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"1\n").expect("written");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("utf-8");
    assert!(line.contains("msg_"), "{line}");
    let id = i32::try_from(child.id()).expect("a process id");
    // Safety: the process is ours, has not been waited for, and so has its id still.
    #[allow(unsafe_code)]
    let sent = unsafe { libc::kill(id, libc::SIGINT) };
    assert_eq!(sent, 0, "it can be signalled");
    let stderr = Ran::of(child.wait_with_output().expect("it ends")).failed(130);
    assert!(stderr.contains("1 message sent so far; send the rest"), "{stderr}");
    drop(stdin);
}

#[test]
fn a_file_is_sent_as_it_is_and_comes_back_the_same() {
    let (directory, server) = server();
    let file = directory.path().join("film.bin");
    let bytes: Vec<u8> = (0..600_000_u32).map(|number| 128 + (number % 127) as u8).collect();
    std::fs::write(&file, &bytes).expect("written");
    let path = file.to_str().expect("utf-8");
    server.run(&["send", "mail", "--data-file", path, "--content-type", "video/mp4"]).done();
    let seen = directory.path().join("seen");
    let copy = format!("cat > {}", seen.display());
    let worked = server.run(&["work", "mail", "--exec", &copy, "--drain"]);
    assert_eq!(worked.code, Some(0), "{}", worked.stderr);
    assert!(std::fs::read(&seen).expect("the command ran") == bytes, "what came is what was sent");

    let refused = server.run(&["send", "mail", "--file", path]);
    assert!(refused.stderr.contains("--data-file sends a file as it is"), "{}", refused.stderr);
    assert_eq!(ready_count(&server), "0");
}
