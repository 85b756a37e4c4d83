//! `examples/verify-signature`: what its programs make of signed pushes.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

use bytes::Bytes;
use millpond_core::time::Timestamp;
use millpond_push::signature::{Secret, sign};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::target::{caller, request};

/// Five minutes and a bit: beyond what is taken for the present.
const STALE_MILLIS: i64 = 310_000;

async fn started(program: &str, file: &str, secret: &Secret) -> (Child, String) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/verify-signature");
    let mut child = Command::new(program)
        .arg(folder.join(file))
        .env("PUSH_SECRET", secret.reveal())
        .env("PORT", "0")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let url = lines.next_line().await.expect("text").expect("it says where it listens");
    (child, url)
}

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    Timestamp::from_millis(i64::try_from(now.as_millis()).expect("it is not that late"))
}

async fn verifies_what_is_genuine(program: &str, file: &str) {
    let secret = |byte| Secret::from_bytes(&[byte; 32]).expect("a legal length");
    let (_child, url) = started(program, file, &secret(1)).await;
    let caller = caller(&["127.0.0.1"]);
    let (own, other, both) = ([secret(1)], [secret(2)], [secret(2), secret(1)]);
    let stale = |sign: i64| Timestamp::from_millis(now().as_millis() + sign * STALE_MILLIS);
    let text: &[u8] = b"{\"a\": 1}";
    for (what, secrets, signed, sent, at, status) in [
        ("text", &own[..], text, text, now(), 204),
        ("bytes", &own, b"\xff\x00\xfe", b"\xff\x00\xfe", now(), 204),
        ("no body", &own, b"", b"", now(), 204),
        ("two secrets", &both, text, text, now(), 204),
        ("another secret", &other, text, text, now(), 401),
        ("another body", &own, text, b"{\"a\":1}", now(), 401),
        ("no signature", &[], text, text, now(), 401),
        ("too old", &own, text, text, stale(-1), 401),
        ("too new", &own, text, text, stale(1), 401),
    ] {
        let mut request = request(&url);
        request.body = Bytes::from_static(sent);
        sign(&mut request.headers, secrets, "msg_01KC9Z1V0G00000004Q3HRAZRX", at, signed);
        let reply = caller.call(request, oneshot::channel().0).await;
        assert_eq!(reply.map(|reply| reply.status), Ok(status), "{file}: {what}");
    }
}

#[tokio::test]
async fn the_program_in_javascript_tells_genuine_pushes_from_others() {
    verifies_what_is_genuine("node", "verify.mjs").await;
}

#[tokio::test]
async fn the_program_in_python_tells_genuine_pushes_from_others() {
    verifies_what_is_genuine("python3", "verify.py").await;
}
