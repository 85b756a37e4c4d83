//! Deployments: triggers that are put and removed together.

use serde_json::{Value, json};

use crate::fake_pushes::FakePushes;
use crate::harness::{HOME, Server, event, refused};

fn trigger(topic: &str, group: &str) -> Value {
    json!({ "topic": topic, "group": group, "target": "http://127.0.0.1:3000/queue" })
}

fn ids(deployment: &Value) -> Vec<&str> {
    let triggers = deployment["triggers"].as_array().expect("a list").iter();
    triggers.map(|trigger| trigger["trigger_id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn a_deployment_is_made_replaced_listed_and_removed() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/deployments").await.ok(), json!({ "deployments": [] }));
    let triggers = json!({ "triggers": [trigger("orders", "billing"), trigger("orders", "audit")] });
    let made = server.post("/v1/deployments?deployment_id=dpl_1", triggers.clone()).await.ok();
    let expected = json!({
        "name": format!("{HOME}/deployments/dpl_1"), "deployment_id": "dpl_1", "current": true,
        "create_time": made["triggers"][0]["create_time"], "triggers": made["triggers"],
    });
    assert_eq!(made, expected);
    assert_eq!(ids(&made), ["dpl_1-1", "dpl_1-2"]);
    let first = &made["triggers"][0];
    assert_eq!(
        (&first["group"], &first["deployment"], &first["current"]),
        (&json!("billing"), &json!("dpl_1"), &json!(true))
    );
    assert_eq!(server.get("/v1/triggers/dpl_1-2").await.ok(), made["triggers"][1]);

    let second = server.post("/v1/deployments?deployment_id=dpl_0", triggers).await.ok();
    assert_eq!(second["current"], true);
    let list = server.get("/v1/deployments").await.ok();
    let shown: Vec<_> = list["deployments"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| (&item["deployment_id"], &item["current"]))
        .collect();
    assert_eq!(shown, [(&json!("dpl_0"), &json!(true)), (&json!("dpl_1"), &json!(false))]);

    let fewer = json!({ "triggers": [trigger("mail", "mailer")] });
    let again = server.post("/v1/deployments?deployment_id=dpl_1", fewer).await.ok();
    assert_eq!((ids(&again), &again["current"]), (vec!["dpl_1-1"], &json!(true)), "the one deployed last");
    assert_ne!(again["triggers"][0]["uid"], first["uid"]);
    assert_eq!(server.get(&format!("/v1/{HOME}/deployments/dpl_1")).await.ok(), again);
    assert_eq!(server.get("/v1/deployments/dpl_0").await.ok()["current"], false);

    assert_eq!(server.delete("/v1/deployments/dpl_1").await.ok(), json!({}));
    assert_eq!(server.get("/v1/deployments/dpl_1").await.refusal(), refused(404, "deployment_not_found"));
    assert_eq!(server.get("/v1/triggers/dpl_1-1").await.refusal(), refused(404, "trigger_not_found"));
    assert_eq!(server.get("/v1/deployments/dpl_0").await.ok()["current"], true);
    assert_eq!(server.delete("/v1/deployments/dpl_1").await.refusal(), refused(404, "deployment_not_found"));
    server.delete("/v1/deployments/dpl_1?allow_missing=true").await.ok();
}

#[tokio::test]
async fn triggers_are_shown_in_the_order_in_which_they_were_given() {
    let server = Server::start().await;
    let groups: Vec<_> = (1..=11).map(|number| trigger("orders", &format!("g{number}"))).collect();
    let made = server.post("/v1/deployments?deployment_id=d", json!({ "triggers": groups })).await.ok();
    let expected: Vec<_> = (1..=11).map(|number| format!("d-{number}")).collect();
    assert_eq!(ids(&made), expected);
    assert_eq!(ids(&server.get("/v1/deployments/d").await.ok()), expected);
}

#[tokio::test]
async fn what_a_deployment_cannot_have_is_refused_by_field_and_stores_nothing() {
    let server = Server::start().await;
    server.post("/v1/triggers?trigger_id=taken-1", trigger("mail", "mailer")).await.ok();
    let good = || trigger("orders", "billing");
    let with = |field: &str, value: &str| {
        let mut trigger = trigger("orders", "audit");
        trigger[field] = json!(value);
        json!([good(), trigger])
    };
    let long = format!("deployment_id={}", "d".repeat(251));
    for (query, triggers, status, code, field) in [
        ("", json!([good()]), 400, "missing_field", "deployment_id"),
        ("deployment_id=a.b", json!([good()]), 400, "invalid_field", "deployment_id"),
        (&*long, json!([good()]), 400, "invalid_field", "deployment_id"),
        ("deployment_id=d", json!([]), 400, "invalid_field", "triggers"),
        ("deployment_id=d", with("topic", "a.b"), 400, "invalid_field", "triggers[1].topic"),
        ("deployment_id=d", with("id", "x"), 400, "unknown_field", "triggers[1].id"),
        ("deployment_id=d", with("target", "http://u@h/"), 400, "invalid_field", "triggers[1].target"),
        (
            "deployment_id=d",
            with("dead_letter_queue", "none"),
            400,
            "invalid_field",
            "triggers[1].dead_letter_queue",
        ),
        (
            "deployment_id=d",
            json!([trigger("*", "audit"), with("retry_after", "5s")[1]]),
            409,
            "trigger_overlaps",
            "triggers[0].topic",
        ),
        ("deployment_id=taken", json!([good()]), 409, "trigger_already_exists", "deployment_id"),
    ] {
        let reply = server.post(&format!("/v1/deployments?{query}"), json!({ "triggers": triggers })).await;
        assert_eq!(reply.refusal(), refused(status, code), "{query} {triggers}");
        assert_eq!(reply.json()["field"], field, "{}", reply.json());
    }
    let checked = server
        .post("/v1/deployments?deployment_id=d&validate_only=true", json!({ "triggers": [good()] }))
        .await;
    assert_eq!((ids(&checked.ok()), &checked.ok()["current"]), (vec!["d-1"], &json!(true)));
    assert_eq!(server.get("/v1/deployments").await.ok(), json!({ "deployments": [] }));
}

#[tokio::test]
async fn a_target_that_is_not_allowed_refuses_the_deployment() {
    let (server, pushes) = FakePushes::serve().await;
    let mut other = trigger("mail", "mailer");
    other["target"] = json!("http://10.0.0.7/queue");
    let body = json!({ "triggers": [trigger("orders", "billing"), other] });
    let reply = server.post("/v1/deployments?deployment_id=d", body).await;
    assert_eq!(reply.refusal(), refused(400, "target_not_allowed"));
    assert_eq!(reply.json()["field"], "triggers[1].target");
    assert_eq!(server.get("/v1/deployments").await.ok(), json!({ "deployments": [] }));
    assert_eq!(pushes.take_changed(), [""; 0]);
    server.post("/v1/deployments?deployment_id=d", json!({ "triggers": [trigger("a", "g")] })).await.ok();
    server.delete("/v1/deployments/d").await.ok();
    assert_eq!(pushes.take_changed(), [HOME, HOME]);
}

#[tokio::test]
async fn what_was_sent_by_a_deployment_stays_when_it_is_removed() {
    let server = Server::start().await;
    server.post("/v1/topics?topic_id=orders", json!({})).await.ok();
    let body = json!({ "triggers": [trigger("orders", "billing")] });
    server.post("/v1/deployments?deployment_id=dpl_1", body).await.ok();
    server.post("/v1/topics/orders/groups?group_id=billing", json!({})).await.ok();
    server.post("/v1/topics/orders:send?partition=dpl_1", json!({ "events": [event("1")] })).await.ok();
    server.delete("/v1/deployments/dpl_1").await.ok();
    let group = server.get("/v1/topics/orders/groups/billing").await.ok();
    assert_eq!(group["status"]["ready_count"], "1");
    let call = json!({ "group": "billing", "partition": "dpl_1" });
    let leased = server.post("/v1/topics/orders:lease", call).await.ok();
    assert_eq!(leased["messages"].as_array().map(Vec::len), Some(1), "a poller gets it");
}
