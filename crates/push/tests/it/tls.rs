//! Targets behind TLS. `tls/` has a certificate for `localhost` and the authority that signed it.

use std::sync::Arc;
use std::time::Duration;

use millpond_push::{CallSettings, Caller};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::target::{Connection, Listener, OK, call, unreachable};

const AUTHORITY: &[u8] = include_bytes!("tls/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/localhost.pem");
const KEY: &[u8] = include_bytes!("tls/localhost-key.pem");

fn trusting() -> CallSettings {
    let mut settings = CallSettings::default();
    settings.trust(AUTHORITY).expect("a certificate");
    settings
}

async fn accept(listener: &Listener) -> std::io::Result<Connection<TlsStream<TcpStream>>> {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a key for this certificate");
    let stream = TlsAcceptor::from(Arc::new(config)).accept(listener.accept_raw().await).await?;
    Ok(Connection::new(stream))
}

#[tokio::test]
async fn a_target_behind_tls_is_asked_for_by_its_name() {
    let (listener, caller) = (Listener::bind().await, Caller::new(trusting()));
    let url = format!("https://localhost:{}/push", listener.address().port());
    let (reply, ()) = tokio::join!(call(&caller, &url), async {
        let mut connection = accept(&listener).await.expect("a handshake");
        let name = connection.stream.get_ref().1.server_name().map(str::to_owned);
        assert_eq!(name.as_deref(), Some("localhost"));
        let received = connection.serve(OK).await;
        assert_eq!(received.body, b"hello");
    });
    assert_eq!(reply.expect("it was replied to").status, 200);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_of_another_name_is_refused() {
    let listener = Listener::bind().await;
    let port = listener.address().port();
    for (settings, host, expected) in [
        (CallSettings::default(), "localhost", "UnknownIssuer"),
        (trusting(), "127.0.0.1", "not valid for name"),
    ] {
        let caller = Caller::new(settings);
        let url = format!("https://{host}:{port}/push");
        let (error, handshake) = tokio::join!(unreachable(&caller, &url), accept(&listener));
        assert!(error.contains(expected), "{error}");
        assert!(handshake.is_err());
    }
}

#[tokio::test]
async fn a_target_that_does_not_speak_tls_is_unreachable() {
    let listener = Listener::bind().await;
    let url = format!("https://127.0.0.1:{}/", listener.address().port());
    let caller = Caller::new(trusting());
    let (error, ()) = tokio::join!(unreachable(&caller, &url), async {
        listener.accept().await.send("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    assert!(!error.is_empty());
    let mut settings = trusting();
    settings.connect_patience = Duration::from_millis(20);
    let caller = Caller::new(settings);
    let (error, _silent) = tokio::join!(unreachable(&caller, &url), listener.accept_raw());
    assert_eq!(error, "no connection within 0.02 s");
}
