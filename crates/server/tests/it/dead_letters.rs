//! Dead letters: listed page by page, brought back, moved.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{Server, event, leases, refused};

const LIST: &str = "/v1/queues/q/dead-letters";
const REPLAY: &str = "/v1/queues/q:replay";
const REDRIVE: &str = "/v1/queues/q:redrive";

/// Lets what is ready in `q` die, and answers the message ids.
async fn kill(server: &Server, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|number| format!("{number:04}")).collect();
    let mut messages = Vec::new();
    for ids in ids.chunks(100) {
        messages.extend(server.send(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await);
        let held = server.lease(json!({ "max_messages": 100 })).await;
        server.post("/v1/queues/q:nack", leases(&held)).await.ok();
    }
    messages
}

/// A queue in which a message dies with its first nack.
async fn mortal() -> Server {
    Server::with_queue(json!({ "max_deliveries": 1 })).await
}

async fn count(server: &Server) -> [u64; 2] {
    let counters = server.view().await.counters;
    [counters.ready, counters.dead]
}

fn ids_of(page: &Value) -> Vec<String> {
    let messages = page["messages"].as_array().expect("a list");
    messages.iter().map(|message| message["message_id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn a_list_goes_through_all_of_them_once() {
    let server = mortal().await;
    let messages = kill(&server, 7).await;
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = server.get(&format!("{LIST}?page_size=3&page_token={token}")).await.ok();
        seen.extend(ids_of(&page));
        token = page["next_page_token"].as_str().expect("a token").to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, messages);
    let page = server.get(LIST).await.ok();
    let dead = &page["messages"][0];
    assert_eq!((&dead["state"], &dead["dead_letter_reason"]), (&json!("dead"), &json!("attempts_spent")));
    assert_eq!(dead["event"], event("0000"));
    let died = dead["dead_letter_time"].as_str().expect("a time");
    assert_eq!(ids_of(&server.get(&format!("{LIST}?start_time={died}")).await.ok()).len(), 7);
    assert_eq!(ids_of(&server.get(&format!("{LIST}?end_time=2001-01-01T00:00:00Z")).await.ok()).len(), 0);
}

#[tokio::test]
async fn a_token_of_another_list_is_refused() {
    let server = mortal().await;
    kill(&server, 2).await;
    let page = server.get(&format!("{LIST}?page_size=1")).await.ok();
    let token = page["next_page_token"].as_str().expect("a token");
    for path in [
        format!("{LIST}?page_token={token}&start_time=2001-01-01T00:00:00Z"),
        format!("{LIST}?page_token=x{token}"),
        format!("{LIST}?page_token={}", &token[1..]),
    ] {
        assert_eq!(server.get(&path).await.refusal(), refused(400, "page_token_invalid"), "{path}");
    }
}

#[tokio::test]
async fn a_replay_brings_back_all_or_those_that_it_names() {
    let server = mortal().await;
    let messages = kill(&server, 250).await;
    let named = json!({ "message_ids": [messages[3], messages[4], "no id"] });
    assert_eq!(server.post(REPLAY, named).await.ok(), json!({ "replayed_count": "2" }));
    assert_eq!(count(&server).await, [2, 248]);
    assert_eq!(server.post_nothing(REPLAY).await.ok(), json!({ "replayed_count": "248" }));
    assert_eq!(count(&server).await, [250, 0]);
    assert_eq!(server.post_nothing(REPLAY).await.ok(), json!({ "replayed_count": "0" }));
}

#[tokio::test]
async fn a_replay_under_a_key_is_done_once() {
    let server = mortal().await;
    kill(&server, 2).await;
    let call = async || server.call(Method::POST, REPLAY, &[("idempotency-key", "k")], "").await;
    assert_eq!(call().await.ok(), json!({ "replayed_count": "2" }));
    kill(&server, 1).await;
    let again = call().await;
    assert_eq!(again.header("millpond-idempotent-replay"), "true");
    assert_eq!(again.ok(), json!({ "replayed_count": "2" }));
    // What `kill` leased was what had come back, of which one was sent anew.
    assert_eq!(count(&server).await, [0, 3]);
}

#[tokio::test]
async fn a_redrive_moves_to_another_queue() {
    let server = mortal().await;
    server.post_nothing("/v1/queues?queue_id=other").await.ok();
    kill(&server, 3).await;
    let moved = server.post(REDRIVE, json!({ "destination": "other" })).await.ok();
    assert_eq!(moved, json!({ "redriven_count": "3", "skipped_count": "0" }));
    assert_eq!(count(&server).await, [0, 0]);
    let named = json!({ "destination": "other", "message_ids": ["no id"] });
    assert_eq!(
        server.post(REDRIVE, named).await.ok(),
        json!({ "redriven_count": "0", "skipped_count": "1" })
    );
    // What was moved on purpose is no dead letter any more.
    let back = server.post_nothing("/v1/queues/other:redrive").await.ok();
    assert_eq!(back, json!({ "redriven_count": "0", "skipped_count": "0" }));
}

#[tokio::test]
async fn a_redrive_without_a_destination_sends_home_what_came_as_a_dead_letter() {
    let server = Server::start().await;
    server.post_nothing("/v1/queues?queue_id=other").await.ok();
    let spec = json!({ "max_deliveries": 1, "dead_letter_queue": "other" });
    server.post("/v1/queues?queue_id=q", json!({ "spec": spec })).await.ok();
    kill(&server, 3).await;
    let back = server.post_nothing("/v1/queues/other:redrive").await.ok();
    assert_eq!(back, json!({ "redriven_count": "3", "skipped_count": "0" }));
    assert_eq!(count(&server).await, [3, 0]);
}

#[tokio::test]
async fn a_redrive_to_nowhere_moves_nothing() {
    let server = mortal().await;
    kill(&server, 1).await;
    let elsewhere = "orgs/a/projects/b/envs/c/queues/d";
    for (destination, refusal) in
        [("nowhere", refused(404, "queue_not_found")), (elsewhere, refused(400, "invalid_field"))]
    {
        let reply = server.post(REDRIVE, json!({ "destination": destination })).await;
        assert_eq!(reply.refusal(), refusal, "{destination}");
    }
    assert_eq!(count(&server).await, [0, 1]);
}

#[tokio::test]
async fn a_purge_takes_what_it_is_told_to() {
    let server = mortal().await;
    let purge =
        async |body: Value| server.post("/v1/queues/q:purge", body).await.ok()["purged_count"].clone();
    kill(&server, 2).await;
    server.post("/v1/queues/q:send", json!({ "events": [event("1")] })).await.ok();
    assert_eq!(purge(json!({})).await, "1");
    assert_eq!(count(&server).await, [0, 2]);
    server.send(&["2"]).await;
    assert_eq!(purge(json!({ "target": "dead_letters" })).await, "2");
    assert_eq!(count(&server).await, [1, 0]);
    assert_eq!(purge(json!({ "target": "all" })).await, "1");
}

#[tokio::test]
async fn a_verb_over_no_queue_is_not_found() {
    let server = Server::start().await;
    for verb in ["peek", "purge", "redrive", "replay"] {
        let reply = server.post_nothing(&format!("/v1/queues/q:{verb}")).await;
        assert_eq!(reply.refusal(), refused(404, "queue_not_found"), "{verb}");
    }
    assert_eq!(server.get(LIST).await.refusal(), refused(404, "queue_not_found"));
}
