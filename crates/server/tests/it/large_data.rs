//! Data on its way out: in answers, and by itself.

use axum::body::Body;
use axum::http::{Method, Request};
use http_body::Body as _;
use millpond_core::limits::CHUNK_BYTES;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::harness::{Reply, Server, leases, refused, strings};
use crate::uploads::{data, made, send_binary, until_stored};

const LARGE: usize = 3 * CHUNK_BYTES + 7;

async fn send_large(server: &Server) -> String {
    let sent = send_binary(server, &[("content-type", "video/mp4")], made(LARGE, true)).await.ok();
    strings(&sent["message_ids"]).remove(0)
}

async fn get(server: &Server, id: &str, headers: &[(&str, &str)]) -> Reply {
    server.call(Method::GET, &format!("/v1/queues/q/messages/{id}/data"), headers, Body::empty()).await
}

fn generation(message: &Value) -> &str {
    message["lease"]["lease_generation"].as_str().expect("a generation")
}

#[tokio::test]
async fn an_answer_holds_data_of_256_kib_and_names_where_more_is() {
    let server = Server::with_queue(json!({})).await;
    for bytes in [CHUNK_BYTES, CHUNK_BYTES + 1] {
        send_binary(&server, &[("content-type", "text/plain")], vec![b'x'; bytes]).await.ok();
    }
    let messages = server.lease(json!({ "max_messages": 2 })).await;
    let [small, large] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(small["event"]["data"].as_str().map(str::len), Some(CHUNK_BYTES));
    assert_eq!(small["event"].get("data_url"), None);
    assert_eq!((large["event"].get("data"), large["event"].get("data_base64")), (None, None));
    assert_eq!(large["event"]["data_content_type"], "text/plain");
    let url = large["event"]["data_url"].as_str().expect("an address");
    let id = large["message_id"].as_str().expect("an id");
    let expected = format!("/v1/orgs/default/projects/default/envs/default/queues/q/messages/{id}/data");
    assert_eq!(url, expected);
    let lease = [("millpond-lease-generation", generation(large))];
    let reply = server.call(Method::GET, url, &lease, Body::empty()).await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (200, CHUNK_BYTES + 1));
    assert_eq!(reply.header("content-type"), "text/plain");
}

#[tokio::test]
async fn whoever_looks_at_large_data_is_told_where_it_is() {
    let server = Server::with_queue(json!({ "max_deliveries": 1 })).await;
    let id = send_large(&server).await;
    let url = format!("/v1/orgs/default/projects/default/envs/default/queues/q/messages/{id}/data");
    let is_told = |message: &Value| {
        let event = &message["event"];
        assert_eq!(
            (&event["data_url"], event.get("data"), event.get("data_base64")),
            (&json!(url), None, None)
        );
        let bytes: usize = message["size_bytes"].as_str().expect("text").parse().expect("a number");
        assert!((LARGE..LARGE + 1_000).contains(&bytes), "{bytes}");
    };
    is_told(&server.get(&format!("/v1/queues/q/messages/{id}")).await.ok());
    is_told(&server.post("/v1/queues/q:peek", json!({})).await.ok()["messages"][0]);
    let messages = server.lease(json!({})).await;
    server.post("/v1/queues/q:nack", leases(&messages)).await.ok();
    is_told(&server.get("/v1/queues/q/dead-letters").await.ok()["messages"][0]);
    assert!(get(&server, &id, &[]).await.body == data(LARGE));

    let path = format!("/v1/queues/q/messages/{id}");
    server.call(Method::DELETE, &path, &[], Body::empty()).await.ok();
    assert_eq!(get(&server, &id, &[]).await.refusal(), refused(404, "message_not_found"));
}

#[tokio::test]
async fn a_batch_names_large_data_by_the_extension_for_it() {
    let server = Server::with_queue(json!({})).await;
    let id = send_large(&server).await;
    let accept = [("content-type", "application/json"), ("accept", "application/cloudevents-batch+json")];
    let batch = server.call(Method::POST, "/v1/queues/q:lease", &accept, "{}").await.ok();
    let url = batch[0]["dataref"].as_str().expect("an address");
    assert!(url.ends_with(&format!("/queues/q/messages/{id}/data")), "{url}");
    assert_eq!((batch[0].get("data"), batch[0].get("data_base64")), (None, None));
    let lease = [("millpond-lease-generation", batch[0]["millpondgeneration"].as_str().expect("text"))];
    assert!(server.call(Method::GET, url, &lease, Body::empty()).await.body == data(LARGE));
}

#[tokio::test]
async fn data_comes_as_it_was_sent_and_is_no_page() {
    let server = Server::with_queue(json!({})).await;
    for (content_type, body, expected) in [
        (Some("text/html; charset=iso-8859-1"), "<p>", "text/html; charset=iso-8859-1"),
        (Some("application/json"), " {\"a\" : 1.0}\n", "application/json"),
        (None, "x", "application/octet-stream"),
        (None, "", "application/octet-stream"),
    ] {
        let headers: Vec<_> = content_type.map(|value| ("content-type", value)).into_iter().collect();
        let sent = send_binary(&server, &headers, body).await.ok();
        let id = strings(&sent["message_ids"]).remove(0);
        let reply = get(&server, &id, &[]).await;
        assert_eq!(String::from_utf8_lossy(&reply.body), body);
        assert_eq!(reply.header("content-type"), expected);
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("content-security-policy"), "default-src 'none'; sandbox");
        assert_eq!(reply.header("accept-ranges"), "bytes");
    }
    let sent = server.send(&["json"]).await;
    let reply = get(&server, &sent[0], &[]).await;
    assert_eq!((reply.header("content-type"), &reply.body[..]), ("application/json", &b"{\"n\":1}"[..]));
}

#[tokio::test]
async fn ranges_are_what_they_say_across_chunks_and_in_small_data() {
    let server = Server::with_queue(json!({})).await;
    let large = send_large(&server).await;
    let small = send_binary(&server, &[], made(1_000, true)).await.ok();
    let small = strings(&small["message_ids"]).remove(0);
    for (id, total) in [(large, LARGE), (small, 1_000)] {
        let all = data(total);
        let middle = (total / 3, total / 3 * 2);
        for (range, from, until) in [
            ("bytes=0-0".to_owned(), 0, 1),
            (format!("bytes={}-{}", middle.0, middle.1), middle.0, middle.1 + 1),
            (format!("bytes={}-", total - 5), total - 5, total),
            ("bytes=-5".to_owned(), total - 5, total),
            (format!("bytes=1-{}", total * 2), 1, total),
        ] {
            let reply = get(&server, &id, &[("range", &range)]).await;
            assert_eq!(reply.status, 206, "{range}");
            assert!(reply.body == all[from..until], "{range}: {} bytes", reply.body.len());
            assert_eq!(reply.header("content-range"), format!("bytes {from}-{}/{total}", until - 1));
        }
        for passed_over in ["bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes"] {
            let reply = get(&server, &id, &[("range", passed_over)]).await;
            assert_eq!((reply.status.as_u16(), reply.body.len()), (200, total), "{passed_over}");
        }
        let reply = get(&server, &id, &[("range", &format!("bytes={total}-"))]).await;
        assert_eq!(reply.refusal(), refused(416, "range_not_satisfiable"));
        assert_eq!(reply.header("content-range"), format!("bytes */{total}"));
        let whole = get(&server, &id, &[]).await;
        let tag = whole.header("etag");
        let go_on = get(&server, &id, &[("range", "bytes=1-"), ("if-range", tag)]).await;
        assert_eq!(go_on.status, 206);
        let anew = get(&server, &id, &[("range", "bytes=1-"), ("if-range", "\"other\"")]).await;
        assert_eq!((anew.status.as_u16(), anew.body.len()), (200, total));
    }
}

#[tokio::test]
async fn data_of_a_leased_message_is_for_its_holder() {
    let server = Server::with_queue(json!({})).await;
    let id = send_large(&server).await;
    let bogus = [("millpond-lease-generation", "7")];
    assert_eq!(get(&server, &id, &[]).await.status, 200);
    assert_eq!(get(&server, &id, &bogus).await.refusal(), refused(409, "lease_stale"));
    let messages = server.lease(json!({})).await;
    let own = [("millpond-lease-generation", generation(&messages[0]))];
    assert_eq!(get(&server, &id, &[]).await.refusal(), refused(409, "invalid_state"));
    assert_eq!(get(&server, &id, &bogus).await.refusal(), refused(409, "lease_stale"));
    assert!(get(&server, &id, &own).await.body == data(LARGE));
    let malformed = [("millpond-lease-generation", "seven")];
    assert_eq!(get(&server, &id, &malformed).await.refusal(), refused(400, "invalid_field"));
    server.post("/v1/queues/q:ack", leases(&messages)).await.ok();
    assert_eq!(get(&server, &id, &own).await.refusal(), refused(404, "message_not_found"));
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = Server::with_queue(json!({})).await;
    let id = send_large(&server).await;
    server.post("/v1/queues?queue_id=other", json!({})).await.ok();
    let unknown = "msg_00000000000000000000000000";
    for (path, code) in [
        (format!("/v1/queues/q/messages/{unknown}/data"), "message_not_found"),
        ("/v1/queues/q/messages/17/data".to_owned(), "message_not_found"),
        (format!("/v1/queues/other/messages/{id}/data"), "message_not_found"),
        (format!("/v1/queues/none/messages/{id}/data"), "queue_not_found"),
        (format!("/v1/queues/q:send/messages/{id}/data"), "not_found"),
        (format!("/v1/queues/q/messages/{id}/data/more"), "not_found"),
    ] {
        assert_eq!(server.get(&path).await.refusal(), refused(404, code), "{path}");
    }
    let path = format!("/v1/queues/q/messages/{id}/data");
    assert_eq!(server.post_nothing(&path).await.refusal(), refused(405, "method_not_allowed"));
    let reply = server.get(&format!("{path}?x=1")).await;
    assert_eq!(reply.refusal(), refused(400, "unknown_field"));
}

#[tokio::test]
async fn who_acks_while_the_data_is_on_its_way_gets_all_of_it() {
    let server = Server::with_queue(json!({})).await;
    let id = send_large(&server).await;
    let messages = server.lease(json!({})).await;
    let request = Request::builder()
        .uri(format!("/v1/queues/q/messages/{id}/data"))
        .header("host", "127.0.0.1:8400")
        .header("millpond-lease-generation", generation(&messages[0]));
    let request = request.body(Body::empty()).expect("valid");
    let Ok(response) = server.router.clone().oneshot(request).await;
    let mut body = response.into_body();
    let mut read = Vec::new();
    let mut acked = false;
    while let Some(frame) =
        std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await
    {
        read.extend_from_slice(&frame.expect("it goes on").into_data().expect("data"));
        if !acked {
            acked = true;
            server.post("/v1/queues/q:ack", leases(&messages)).await.ok();
            assert_eq!(server.view().await.counters.leased, 0);
        }
    }
    assert!(read == data(LARGE), "{} bytes came", read.len());
    assert_eq!(server.stored().chunks.len(), 4, "kept while the stream is open");
    drop(body);
    until_stored(&server, |stored| stored.chunks.is_empty() && stored.uploads.is_empty()).await;
}
