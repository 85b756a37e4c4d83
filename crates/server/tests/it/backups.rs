//! Backups over HTTP. That one is made of a store that makes copies is for the binary (`crates/cli/tests/it/moving.rs`); here the store
//! makes none.

use std::sync::Arc;

use axum::http::Method;
use millpond_engine::{Engine, EngineSettings};
use millpond_server::CONNECTIONS;
use millpond_store::MemoryDisk;
use serde_json::{Value, json};

use crate::harness::{HOME, Server, refused};

async fn with_directory(directory: &std::path::Path) -> Server {
    let engine = Engine::start(EngineSettings::default(), Arc::new(MemoryDisk::new()));
    Server::made(engine, CONNECTIONS, |app| app.with_backups(directory.to_owned())).await
}

/// Asks until it is no longer made.
async fn ended(server: &Server, name: &str) -> Value {
    loop {
        let shown = server.get(&format!("/v1/{name}")).await.ok();
        if shown["state"] != "running" {
            return shown;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_backup_is_begun_looked_at_and_says_why_it_failed() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("old.part")).expect("it is made");
    let server = with_directory(directory.path()).await;
    let begun = server.post_nothing(&format!("/v1/backups?environments={HOME}")).await.ok();
    assert_eq!(begun["state"], "running");
    let name = begun["name"].as_str().expect("a name");
    let shown = ended(&server, name).await;
    assert_eq!((&shown["state"], &shown["directory"]), (&json!("failed"), &begun["directory"]));
    assert!(shown["error"].as_str().expect("why").contains("makes no copies"), "{shown}");
    let left = std::fs::read_dir(directory.path()).expect("it is read").count();
    assert_eq!(left, 0, "what a server that was killed left is removed");
    // One that has ended is in nobody's way.
    server.post("/v1/backups", json!({})).await.ok();
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = with_directory(directory.path()).await;
    for (path, status, code) in [
        ("/v1/backups?environments=mail", 400, "invalid_field"),
        ("/v1/backups?environments=,", 400, "invalid_field"),
        ("/v1/backups?directory=%2Ftmp", 400, "unknown_field"),
    ] {
        assert_eq!(server.post_nothing(path).await.refusal(), refused(status, code), "{path}");
    }
    let body = server.post("/v1/backups", json!({ "directory": "/tmp" })).await;
    assert_eq!(body.refusal(), refused(400, "unknown_field"));
    assert_eq!(server.get("/v1/backups/none").await.refusal(), refused(404, "not_found"));
    let listed = server.call(Method::GET, "/v1/backups", &[], "").await;
    assert_eq!(listed.refusal(), refused(405, "method_not_allowed"));
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is read").count(), 0);

    let without = Server::start().await;
    assert_eq!(without.post_nothing("/v1/backups").await.refusal(), refused(404, "not_found"));
    assert_eq!(without.get("/v1/backups/none").await.refusal(), refused(404, "not_found"));
}
