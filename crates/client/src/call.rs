//! One logical call: what it asks for, and its tries.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::transport::{Reply, Transport};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What RFC 3986 leaves unreserved stays as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How long an answer may take, beyond what the call waits for by itself.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The same for calls that work through a whole queue before they answer.
pub(crate) const BULK_ANSWER_MAX: Duration = Duration::from_secs(600);

/// A call to be made. Its tries are alike, the idempotency key included.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    /// Path and query.
    target: String,
    has_query: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    answer_max: Duration,
}

impl Call {
    /// A call that reads.
    pub(crate) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// A call that does no more when it is made twice, or is refused then: lease, ack, nack, extend, triggers.
    pub(crate) fn harmless(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// A call that is harmless by its method or its parameters.
    pub(crate) fn unkeyed(method: Method, path: &str) -> Self {
        Self::new(method, path)
    }

    /// A call that changes something, under an idempotency key of its own.
    pub(crate) fn change(method: Method, path: &str) -> Self {
        let key = uuid::Uuid::now_v7().to_string();
        let key = HeaderValue::from_str(&key).expect("a UUID is made of letters, digits and hyphens");
        let mut call = Self::new(method, path);
        call.headers.push((IDEMPOTENCY_KEY, key));
        call
    }

    fn new(method: Method, path: &str) -> Self {
        Self {
            method,
            target: path.to_owned(),
            has_query: false,
            headers: Vec::new(),
            body: Bytes::new(),
            answer_max: ANSWER_MAX,
        }
    }

    /// Takes another idempotency key.
    pub(crate) fn key(self, key: &str) -> Result<Self, Error> {
        self.header(IDEMPOTENCY_KEY, "idempotency_key", key)
    }

    /// A header in place of the one of that name; `field` names it in a refusal.
    pub(crate) fn header(
        mut self,
        name: HeaderName,
        field: &'static str,
        value: &str,
    ) -> Result<Self, Error> {
        let refuse = |_| Error::InvalidArgument {
            field,
            value: value.to_owned(),
            expected: "characters that can stand in a header",
        };
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(refuse)?;
        self.headers.retain(|(own, _)| *own != name);
        self.headers.push((name, value));
        Ok(self)
    }

    /// A query parameter.
    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.target.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.target.push_str(name);
        self.target.push('=');
        self.target.push_str(&encode(value));
        self
    }

    /// A query parameter, if there is a value.
    pub(crate) fn query_option(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// A query parameter that is true or absent.
    pub(crate) fn query_flag(self, name: &str, flag: bool) -> Self {
        if flag { self.query(name, "true") } else { self }
    }

    /// A body of JSON.
    pub(crate) fn json<T: Serialize>(mut self, body: &T) -> Self {
        // What is sent are structs and maps with string keys, whose writing cannot fail.
        self.body = serde_json::to_vec(body).expect("the body can be written as JSON").into();
        self.headers.push((CONTENT_TYPE, JSON));
        self
    }

    /// A body of any kind; its content type is a header.
    pub(crate) fn bytes(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    /// How long an answer may take.
    pub(crate) fn within(mut self, most: Duration) -> Self {
        self.answer_max = most;
        self
    }

    /// Makes the call and reads the answer.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        transport: &Transport,
        retry: &RetryPolicy,
    ) -> Result<T, Error> {
        let reply = self.reply(transport, retry).await?;
        serde_json::from_slice(&reply.body).map_err(|error| transport.misunderstood(&error))
    }

    /// Makes the call, several times if that may help.
    pub(crate) async fn reply(&self, transport: &Transport, retry: &RetryPolicy) -> Result<Reply, Error> {
        let mut made = 0;
        loop {
            let error = match transport.exchange(self.request(transport)?, self.answer_max).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            made += 1;
            let Some(wait) = retry.wait(made, &error, fastrand::f64()) else { return Err(error) };
            tokio::time::sleep(wait).await;
        }
    }

    fn request(&self, transport: &Transport) -> Result<Request<Full<Bytes>>, Error> {
        let uri = format!("{}{}", transport.base(), self.target);
        let mut request = Request::builder().method(self.method.clone()).uri(&uri);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        // Names were encoded and headers checked; what is left is an address of many kilobytes.
        let refuse =
            |_| Error::InvalidArgument { field: "address", value: uri.clone(), expected: "a shorter one" };
        request.body(Full::new(self.body.clone())).map_err(refuse)
    }
}

/// A part of a path or a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded_whatever_it_holds() {
        let call = Call::get("/v1/queues").query("filter", "labels.a = \"ä&b\"").query_flag("x", false);
        assert_eq!(call.target, "/v1/queues?filter=labels.a%20%3D%20%22%C3%A4%26b%22");
        assert_eq!(call.query_flag("y", true).target.rsplit_once('&').map(|(_, last)| last), Some("y=true"));
    }

    #[test]
    fn a_change_has_one_key_and_a_given_one_takes_its_place() {
        let call = Call::change(Method::POST, "/");
        assert_eq!(call.headers.len(), 1);
        let keyed = call.clone().key("mine").expect("a key");
        assert_eq!(keyed.headers, [(IDEMPOTENCY_KEY, HeaderValue::from_static("mine"))]);
        assert!(call.key("a\nb").is_err());
        assert!(Call::harmless("/").headers.is_empty());
    }
}
