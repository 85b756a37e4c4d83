//! Listing queues: pages, filters, order.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{Server, refused};

/// A server with queues `q00`, `q01`, …; every third is labelled, every fifth paused.
async fn with_queues(count: usize) -> Server {
    let server = Server::start().await;
    for number in 0..count {
        let labels =
            if number % 3 == 0 { json!({ "team": "a b", "n": number.to_string() }) } else { json!({}) };
        let path = format!("/v1/queues?queue_id=q{number:02}");
        server.post(&path, json!({ "meta": { "labels": labels } })).await.ok();
        if number % 5 == 0 {
            server.post_nothing(&format!("/v1/queues/q{number:02}:pause")).await.ok();
        }
    }
    server
}

fn ids(page: &Value) -> Vec<String> {
    let queues = page["queues"].as_array().expect("a list").iter();
    queues
        .map(|queue| {
            queue["name"].as_str().and_then(|name| name.rsplit('/').next()).expect("a name").to_owned()
        })
        .collect()
}

/// All pages of a list.
async fn pages(server: &Server, query: &str) -> Vec<Vec<String>> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/queues?{query}&page_token={token}")).await.ok();
        pages.push(ids(&page));
        token = page["next_page_token"].as_str().expect("a token").to_owned();
        if token.is_empty() {
            return pages;
        }
    }
}

fn named(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("q{number:02}")).collect()
}

#[tokio::test]
async fn queues_come_in_the_order_of_their_names() {
    let server = with_queues(12).await;
    let all = server.get("/v1/queues").await.ok();
    assert_eq!((ids(&all), &all["next_page_token"]), (named(0..12), &json!("")));
    assert_eq!(all["queues"][3], server.get("/v1/queues/q03").await.ok());
    assert_eq!(pages(&server, "page_size=5").await, [named(0..5), named(5..10), named(10..12)]);
    assert_eq!(pages(&server, "page_size=6").await, [named(0..6), named(6..12)]);
    let backwards = pages(&server, "page_size=7&order_by=name+desc").await;
    assert_eq!(backwards, [named((5..12).rev()), named((0..5).rev())]);
    let none = Server::start().await.get("/v1/queues").await.ok();
    assert_eq!(none, json!({ "queues": [], "next_page_token": "" }));
}

#[tokio::test]
async fn a_page_has_50_queues_unless_told() {
    let server = with_queues(51).await;
    let page = server.get("/v1/queues").await.ok();
    assert_eq!(ids(&page).len(), 50);
    let page = server.get("/v1/queues?page_size=1001").await.ok();
    assert_eq!((ids(&page).len(), &page["next_page_token"]), (51, &json!("")));
}

#[tokio::test]
async fn a_filter_chooses() {
    let server = with_queues(12).await;
    for (filter, wanted) in [
        ("paused%20=%20true", named([0, 5, 10])),
        ("labels.team=%22a%20b%22", named([0, 3, 6, 9])),
        ("labels.team:*+AND+paused=true", named([0])),
        ("name=q1*", named([10, 11])),
        ("name=q1*+AND+name!=q11", named([10])),
        ("labels.n=6", named([6])),
        ("labels.n=7", named([])),
    ] {
        let page = server.get(&format!("/v1/queues?filter={filter}")).await.ok();
        assert_eq!((ids(&page), &page["next_page_token"]), (wanted.clone(), &json!("")), "{filter}");
        let singly = pages(&server, &format!("filter={filter}&page_size=1")).await;
        assert_eq!(singly.concat(), wanted, "{filter}");
    }
}

#[tokio::test]
async fn a_queue_that_comes_or_goes_between_pages_disturbs_no_other() {
    let server = with_queues(6).await;
    let first = server.get("/v1/queues?page_size=3").await.ok();
    server.delete("/v1/queues/q02").await.ok();
    server.delete("/v1/queues/q04").await.ok();
    server.post_nothing("/v1/queues?queue_id=q0x").await.ok();
    let token = first["next_page_token"].as_str().expect("a token");
    let second = server.get(&format!("/v1/queues?page_size=9&page_token={token}")).await.ok();
    assert_eq!(ids(&second), ["q03", "q05", "q0x"]);
}

#[tokio::test]
async fn a_token_belongs_to_its_list() {
    let server = with_queues(3).await;
    let page = server.get("/v1/queues?page_size=1&filter=paused=false").await.ok();
    let token = page["next_page_token"].as_str().expect("a token").to_owned();
    server.post_nothing("/v1/orgs/a/projects/b/envs?env_id=c").await.ok();
    for path in [
        format!("/v1/queues?page_token={token}"),
        format!("/v1/queues?filter=paused=true&page_token={token}"),
        format!("/v1/queues?filter=paused=false&order_by=name+desc&page_token={token}"),
        format!("/v1/orgs/a/projects/b/envs/c/queues?filter=paused=false&page_token={token}"),
        "/v1/queues?page_token=x".to_owned(),
    ] {
        let reply = server.get(&path).await;
        assert_eq!(reply.refusal(), refused(400, "page_token_invalid"), "{path}");
        assert_eq!(reply.json()["field"], "page_token");
    }
}

#[tokio::test]
async fn parameters_that_make_no_sense_are_refused() {
    let server = with_queues(1).await;
    for (query, code, field) in [
        ("page_size=-1", "invalid_field", "page_size"),
        ("page_size=x", "invalid_field", "page_size"),
        ("order_by=uid", "invalid_field", "order_by"),
        ("filter=color=red", "invalid_field", "filter"),
        ("show_deleted=true", "unknown_field", "show_deleted"),
    ] {
        let reply = server.get(&format!("/v1/queues?{query}")).await;
        assert_eq!(reply.refusal(), refused(400, code), "{query}");
        assert_eq!(reply.json()["field"], field, "{query}");
    }
    let missing = server.get("/v1/orgs/a/projects/b/envs/c/queues").await;
    assert_eq!(missing.refusal(), refused(404, "environment_not_found"));
    let reply = server.call(Method::PUT, "/v1/queues", &[], Body::empty()).await;
    assert_eq!(reply.header("allow"), "GET,HEAD,POST");
}
