//! Which addresses are connected to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millpond_push::{Caller, Looking};

use crate::target::{Listener, OK, call, caller, resolving, settings, unreachable};

fn of_port(port: u16, addresses: &[&str]) -> Vec<SocketAddr> {
    addresses.iter().map(|address| SocketAddr::new(address.parse().expect("an address"), port)).collect()
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_not_connected_to_whatever_it_is_called() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.2/32"]));
    let port = listener.address().port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1"] {
        let error = unreachable(&caller, &format!("http://{host}:{port}/")).await;
        assert!(error.contains("may not push to it, only to 127.0.0.2/32"), "{host}: {error}");
    }
    listener.assert_untouched().await;
}

#[tokio::test]
async fn of_a_names_addresses_only_those_that_are_allowed_are_connected_to() {
    let refused = Listener::bind().await;
    let port = refused.address().port();
    let listener = Listener::bind_to(&format!("127.0.0.2:{port}")).await;
    let mut settings = settings(&["127.0.0.2"]);
    let lookups = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lookups);
    resolving(&mut settings, move |name, port| {
        assert_eq!(name, "shop.example");
        // Whoever asks a second time is led elsewhere.
        match counted.fetch_add(1, Ordering::Relaxed) {
            0 => of_port(port, &["127.0.0.1", "127.0.0.2"]),
            _ => of_port(port, &["127.0.0.1"]),
        }
    });
    let caller = Caller::new(settings);
    let url = format!("http://shop.example:{port}/push");
    let (reply, received) = tokio::join!(call(&caller, &url), async {
        let mut connection = listener.accept().await;
        connection.serve(&OK.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")).await
    });
    assert_eq!(reply.expect("it was replied to").status, 200);
    assert_eq!(received.header("host"), Some(format!("shop.example:{port}").as_str()));
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
    let error = unreachable(&caller, &url).await;
    assert!(error.starts_with(&format!("127.0.0.1:{port}: ")), "{error}");
    refused.assert_untouched().await;
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let listener = Listener::bind_to("127.0.0.2:0").await;
    let port = listener.address().port();
    let mut settings = settings(&["127.0.0.0/8"]);
    resolving(&mut settings, |_, port| of_port(port, &["127.0.0.3", "127.0.0.2"]));
    let caller = Caller::new(settings);
    let url = format!("http://shop.example:{port}/");
    let (reply, _) = tokio::join!(call(&caller, &url), async { listener.accept().await.serve(OK).await });
    assert_eq!(reply.expect("it was replied to").status, 200);
}

#[tokio::test]
async fn a_name_without_addresses_is_unreachable() {
    let mut settings = settings(&["127.0.0.0/8"]);
    resolving(&mut settings, |_, _| Vec::new());
    let error = unreachable(&Caller::new(settings), "http://shop.example/").await;
    assert_eq!(error, "the name has no address");
    let mut settings = crate::target::settings(&["127.0.0.0/8"]);
    settings.look_up_by(Arc::new(|_, _| -> Looking {
        Box::pin(async { Err(std::io::Error::other("no such name")) })
    }));
    assert_eq!(unreachable(&Caller::new(settings), "https://shop.example/").await, "no such name");
}

#[tokio::test]
async fn a_name_that_nobody_resolves_is_unreachable_after_a_while() {
    let mut settings = settings(&["127.0.0.0/8"]);
    settings.connect_patience = Duration::from_millis(20);
    settings.look_up_by(Arc::new(|_, _| -> Looking { Box::pin(std::future::pending()) }));
    let error = unreachable(&Caller::new(settings), "http://shop.example/").await;
    assert_eq!(error, "no connection within 0.02 s");
}
