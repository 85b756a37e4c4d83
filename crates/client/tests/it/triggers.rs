//! Triggers, deployments and the signing secret.

use std::time::{Duration, SystemTime};

use millpond_client::{Client, ErrorCode, NewQueue, NewTrigger, TriggerPushes};

use crate::server::{Line, Scripted, Server, header};

fn trigger(topic: &str) -> NewTrigger {
    NewTrigger::new(topic, "g", "http://127.0.0.1:3000/queue")
}

#[tokio::test]
async fn triggers_are_made_listed_and_deleted() {
    let server = Server::with_queue(NewQueue::default()).await;
    let triggers = server.client.triggers();
    let whole = NewTrigger {
        retry_after: Some(Duration::from_secs(5)),
        initial_delay: Some(Duration::from_secs(3_600)),
        max_deliveries: Some(3),
        max_concurrency: Some(7),
        dead_letter_queue: Some("q".to_owned()),
        visibility_timeout: Some(Duration::from_millis(30_500)),
        ..trigger("a*")
    };
    let checked = triggers.create(Some("t"), &whole, true).await.expect("it could be made");
    assert!(triggers.list().await.expect("a list").is_empty());
    let made = triggers.create(Some("t"), &whole, false).await.expect("it is made");
    assert_eq!((checked.trigger_id.as_str(), made.trigger_id.as_str()), ("t", "t"));
    assert_eq!((made.topic.as_str(), made.group.as_str(), &made.target), ("a*", "g", &whole.target));
    assert_eq!((Some(made.retry_after), Some(made.initial_delay)), (whole.retry_after, whole.initial_delay));
    assert_eq!((made.max_deliveries, made.max_concurrency), (whole.max_deliveries, whole.max_concurrency));
    assert_eq!(Some(made.visibility_timeout), whole.visibility_timeout);
    assert!(made.dead_letter_queue.as_deref().is_some_and(|name| name.ends_with("/queues/q")));
    assert_eq!((made.state.as_str(), made.deployment.as_deref(), made.current), ("starting", None, false));
    assert_eq!(made.starts_at.duration_since(made.create_time).ok(), whole.initial_delay);
    let own = triggers.create(None, &trigger("b"), false).await.expect("it is made");
    assert_eq!(triggers.list().await.expect("a list"), [made.clone(), own.clone()]);
    assert_eq!(triggers.get(&made.name).await.expect("by its whole name"), made);
    let nothing = TriggerPushes { pushes: None, last: Vec::new() };
    assert_eq!(triggers.pushes("t").await.expect("an answer"), nothing);

    let error = triggers.create(Some("t"), &trigger("c"), false).await.expect_err("it is there");
    assert_eq!(error.code(), Some(&ErrorCode::TriggerAlreadyExists));
    let error = triggers.create(Some("u"), &trigger("ab"), false).await.expect_err("t is for it too");
    assert_eq!(error.code(), Some(&ErrorCode::TriggerOverlaps));
    triggers.delete(&own.trigger_id, false).await.expect("it was there");
    let error = triggers.delete(&own.trigger_id, false).await.expect_err("it is gone");
    assert_eq!(error.code(), Some(&ErrorCode::TriggerNotFound));
    triggers.delete(&own.trigger_id, true).await.expect("that is no error");
    server.stop().await;
}

#[tokio::test]
async fn deployments_are_put_listed_and_removed() {
    let server = Server::start().await;
    let deployments = server.client.deployments();
    let two = [trigger("a"), trigger("b")];
    deployments.deploy("dpl_1", &two, true).await.expect("it could be deployed");
    assert!(deployments.list().await.expect("a list").is_empty());
    let first = deployments.deploy("dpl_1", &two, false).await.expect("deployed");
    assert_eq!((first.deployment_id.as_str(), first.current), ("dpl_1", true));
    let ids: Vec<_> = first.triggers.iter().map(|trigger| trigger.trigger_id.as_str()).collect();
    assert_eq!(ids, ["dpl_1-1", "dpl_1-2"]);
    let second = deployments.deploy("dpl_2", &two[..1], false).await.expect("deployed");
    let list = deployments.list().await.expect("a list");
    assert_eq!(list.iter().map(|own| own.current).collect::<Vec<_>>(), [false, true]);
    assert_eq!(deployments.get(&second.name).await.expect("by its whole name"), second);
    deployments.delete("dpl_2", false).await.expect("it was there");
    assert!(deployments.get("dpl_1").await.expect("it is there").current);
    let error = deployments.get("dpl_2").await.expect_err("it is gone");
    assert_eq!(error.code(), Some(&ErrorCode::DeploymentNotFound));
    deployments.delete("dpl_2", true).await.expect("that is no error");
    server.stop().await;
}

#[tokio::test]
async fn a_secret_is_made_shown_and_replaced() {
    let server = Server::start().await;
    let client = &server.client;
    let first = client.signing_secret().await.expect("a secret");
    assert!(first.secret.starts_with("whsec_") && !format!("{first:?}").contains(&first.secret));
    assert_eq!(client.signing_secret().await.expect("the same"), first);
    let until = |secret: &millpond_client::SigningSecret| {
        secret.previous_until.and_then(|until: SystemTime| until.duration_since(secret.since).ok())
    };
    let second = client.rotate_signing_secret(None).await.expect("another");
    assert_ne!(second.secret, first.secret);
    assert_eq!(until(&second), Some(Duration::from_secs(24 * 3_600)));
    let third = client.rotate_signing_secret(Some(Duration::ZERO)).await.expect("another");
    assert_eq!(until(&third), None);
    server.stop().await;
}

#[tokio::test]
async fn a_rotation_is_tried_once_and_carries_no_key() {
    let server = Scripted::start(vec![Line::HangUp]).await;
    let error =
        server.client.rotate_signing_secret(Some(Duration::from_secs(60))).await.expect_err("no answer");
    assert!(error.may_have_happened());
    let requests = server.requests().await;
    assert_eq!((requests.len(), header(&requests[0], "idempotency-key")), (1, None));
    assert!(requests[0].ends_with(r#"{"grace":"60s"}"#), "{}", requests[0]);
}

#[tokio::test]
async fn environments_have_triggers_of_their_own() {
    let server = Server::start().await;
    let client = Client::builder(server.client.url()).environment("orgs/a/projects/b/envs/c").build();
    let error = client.expect("a client").triggers().list().await.expect_err("there is none");
    assert_eq!(error.code(), Some(&ErrorCode::EnvironmentNotFound));
    server.stop().await;
}
