//! Messages of a deployment, and who sees them.

use axum::body::Body;
use axum::http::Method;

use super::{GROUP, Message, PARTS, TOPIC, Timed, error, failure, messages};

const ONE: (&str, &str) = ("vqs-deployment-id", "dpl_1");
const TWO: (&str, &str) = ("vqs-deployment-id", "dpl_2");

fn payloads(received: &[Message]) -> Vec<String> {
    received.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

async fn three(timed: &Timed) {
    timed.send(&[ONE], "one").await;
    timed.send(&[], "none").await;
    timed.send(&[TWO], "two").await;
}

#[tokio::test]
async fn a_pinned_reader_sees_its_deployments_messages_and_another_all() {
    let timed = Timed::start().await;
    three(&timed).await;
    assert_eq!(payloads(&timed.receive(&format!("{TOPIC}/consumer/a"), &[TWO]).await), ["two"]);
    let unknown = ("vqs-deployment-id", "dpl_3");
    assert_eq!(timed.receive(&format!("{TOPIC}/consumer/b"), &[unknown]).await, []);
    assert_eq!(payloads(&timed.receive(&format!("{TOPIC}/consumer/c"), &[]).await), ["one", "none", "two"]);
}

#[tokio::test]
async fn pinned_and_unpinned_readers_of_a_group_share_what_is_done() {
    let timed = Timed::start().await;
    three(&timed).await;
    let two = timed.receive(GROUP, &[TWO]).await.remove(0);
    assert_eq!(timed.ack(&two.handle).await.status, 204);
    assert_eq!(payloads(&timed.receive(GROUP, &[]).await), ["one", "none"]);
    assert_eq!(timed.receive(GROUP, &[ONE]).await, []);
}

#[tokio::test]
async fn a_lease_is_not_settled_for_another_deployment() {
    let timed = Timed::start().await;
    three(&timed).await;
    let received = timed.receive(GROUP, &[]).await;
    let settle = async |message: &Message, headers: &[(&str, &str)]| {
        let path = format!("{GROUP}/lease/{}", message.handle);
        timed.call(Method::DELETE, &path, headers, Body::empty()).await
    };
    for (message, deployment) in [(&received[0], TWO), (&received[1], ONE)] {
        assert_eq!(error(&settle(message, &[deployment]).await), failure(404, "Message not found"));
    }
    assert_eq!(settle(&received[0], &[ONE]).await.status, 204);
    assert_eq!(settle(&received[1], &[]).await.status, 204);
    assert_eq!(settle(&received[2], &[]).await.status, 204);
}

#[tokio::test]
async fn a_message_is_found_by_its_id_within_its_deployment() {
    let timed = Timed::start().await;
    let id = timed.send(&[ONE, ("vqs-idempotency-key", "k")], "one").await;
    let duplicate = timed.send(&[ONE, ("vqs-idempotency-key", "k")], "one").await;
    timed.send(&[TWO], "two").await;
    let take = async |id: &str, headers: &[(&str, &str)]| {
        let all = [&[PARTS], headers].concat();
        timed.post(&format!("{GROUP}/id/{id}"), &all, Body::empty()).await
    };
    assert_eq!(error(&take(&id, &[TWO]).await), failure(404, "Message not found"));
    assert_eq!(error(&take(&duplicate, &[TWO]).await), failure(404, "Message not found"));
    assert_eq!(error(&take(&duplicate, &[ONE]).await).0, 409);
    assert_eq!(error(&take(&duplicate, &[]).await).0, 409);
    assert_eq!(payloads(&messages(&take(&id, &[ONE]).await)), ["one"]);
}
