//! One connection, kept alive, with one request at a time.

use std::pin::{Pin, pin};
use std::task::Poll;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

type Driver = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// A connection. What hyper does for it is done within [`Connection::call`]: a task of its own would cost two wake-ups a
/// call.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
    host: HeaderValue,
}

impl Connection {
    /// To `HOST:PORT`.
    pub(crate) async fn open(authority: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(authority).await;
        let stream = stream.with_context(|| format!("cannot connect to {authority}"))?;
        stream.set_nodelay(true)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: Box::pin(driver), host: HeaderValue::from_str(authority)? })
    }

    /// Makes a call and gives its answer, which has to be a success.
    pub(crate) async fn call(&mut self, method: Method, uri: &Uri, body: Vec<u8>) -> anyhow::Result<Bytes> {
        let (status, body) = self.request(method, uri, ("content-type", "application/json"), body).await?;
        if status != StatusCode::OK {
            bail!("{uri} was answered {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }

    /// Makes a call with one header and gives its answer, whatever that is.
    pub(crate) async fn request(
        &mut self,
        method: Method,
        uri: &Uri,
        header: (&'static str, &'static str),
        body: Vec<u8>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        request.headers_mut().insert(HOST, self.host.clone());
        let (name, value) = header;
        request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        let sent = self.sender.send_request(request);
        let response = driven(&mut self.driver, sent).await??;
        let status = response.status();
        let body = driven(&mut self.driver, response.into_body().collect()).await??.to_bytes();
        Ok((status, body))
    }
}

/// Lets the connection work until `work` is done.
async fn driven<F: Future>(driver: &mut Pin<Box<Driver>>, work: F) -> anyhow::Result<F::Output> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let ended = driver.as_mut().poll(context);
        // What the connection has just read may be what was waited for.
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        match ended {
            Poll::Ready(Ok(())) => Poll::Ready(Err(anyhow::anyhow!("the server closed the connection"))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
