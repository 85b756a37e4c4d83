//! Signatures of pushes as Standard Webhooks 1.0 has them: HMAC-SHA256 over `id.timestamp.body`, one for each secret.
//!
//! What is signed are the id of the message, the time of the push and its body, nothing else of its headers.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use millpond_api::Fault;
use millpond_core::time::Timestamp;
use sha2::Sha256;

/// The message: the same in every push of it.
pub const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
/// When the push was made, in Unix seconds.
pub const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// `v1,` and the signature in base64, one for each secret, between blanks.
pub const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Bytes of a secret at least.
pub const SECRET_BYTES_MIN: usize = 24;
/// Bytes of a secret at most.
pub const SECRET_BYTES_MAX: usize = 64;

/// What a secret's text begins with.
const SECRET_PREFIX: &str = "whsec_";

/// What pushes are signed with. It is shown by [`Secret::reveal`] alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Of these bytes, [`SECRET_BYTES_MIN`] to [`SECRET_BYTES_MAX`] of chance.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Fault> {
        if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            return Ok(Self(bytes.into()));
        }
        let expected = format!("a secret of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes");
        let limit = if bytes.len() < SECRET_BYTES_MIN { SECRET_BYTES_MIN } else { SECRET_BYTES_MAX };
        Err(Fault::beyond(limit, expected))
    }

    /// Reads `whsec_` and base64. The fault says nothing of the text.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let bytes = text.strip_prefix(SECRET_PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
        Self::from_bytes(&bytes.ok_or_else(|| Fault::new("a secret of whsec_ and base64"))?)
    }

    /// The text that [`Secret::parse`] reads, for those who check signatures.
    #[must_use]
    pub fn reveal(&self) -> String {
        let mut text = SECRET_PREFIX.to_owned();
        STANDARD.encode_string(&self.0, &mut text);
        text
    }

    /// A new one, of 32 random bytes.
    ///
    /// # Errors
    /// The system has no random bytes to give.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.into()))
    }

    /// A code over what is put into it.
    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("a key may have any length")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Adds the headers that vouch for a push of the message `id` with this body. Both secrets sign after a rotation, so that
/// either vouches; without any, nothing is added.
///
/// The id is the server's own and has neither blanks nor a full stop; one that cannot stand in a header is not vouched for.
pub fn sign(headers: &mut HeaderMap, secrets: &[Secret], id: &str, now: Timestamp, body: &[u8]) {
    let seconds = now.as_millis().div_euclid(1_000).to_string();
    let signatures: Vec<String> =
        secrets.iter().map(|secret| signature(secret, id, &seconds, body)).collect();
    let values =
        [(WEBHOOK_ID, id), (WEBHOOK_TIMESTAMP, &seconds), (WEBHOOK_SIGNATURE, &signatures.join(" "))];
    if signatures.is_empty() || HeaderValue::from_str(id).is_err() {
        return;
    }
    for (name, value) in values {
        headers.insert(name, HeaderValue::from_str(value).expect("ascii without control characters"));
    }
}

fn signature(secret: &Secret, id: &str, seconds: &str, body: &[u8]) -> String {
    let mut mac = secret.mac();
    for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
        mac.update(part);
    }
    let mut text = "v1,".to_owned();
    STANDARD.encode_string(mac.finalize().into_bytes(), &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::parse(text).expect("a secret")
    }

    fn signed(secrets: &[Secret], id: &str, seconds: i64, body: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        sign(&mut headers, secrets, id, Timestamp::from_millis(seconds * 1_000 + 999), body.as_bytes());
        let text =
            |name| headers.get(&name).map(|value: &HeaderValue| value.to_str().expect("ascii").to_owned());
        [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE].into_iter().filter_map(text).collect()
    }

    /// The vector that every reference library of Standard Webhooks tests itself with.
    #[test]
    fn the_vector_of_the_reference_libraries_is_signed_alike() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let headers =
            signed(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(headers, ["msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", expected]);
    }

    #[test]
    fn every_secret_signs_and_none_does_not() {
        let (old, new) = (secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Secret(vec![7; 32].into()));
        let one = |secret: &Secret| signed(std::slice::from_ref(secret), "msg_1", 1, "").remove(2);
        let both = signed(&[new.clone(), old.clone()], "msg_1", 1, "").remove(2);
        assert_eq!(both, format!("{} {}", one(&new), one(&old)));
        assert!(signed(&[], "msg_1", 1, "").is_empty());
        assert!(signed(&[old], "msg\n1", 1, "").is_empty());
    }

    #[test]
    fn a_secret_has_24_to_64_bytes_and_survives_its_text_form() {
        for bytes in [SECRET_BYTES_MIN, 32, SECRET_BYTES_MAX] {
            let made = Secret::from_bytes(&vec![0xa5; bytes]).expect("a legal length");
            assert_eq!(Secret::parse(&made.reveal()), Ok(made));
        }
        for (bytes, limit) in [(0, "24"), (SECRET_BYTES_MIN - 1, "24"), (SECRET_BYTES_MAX + 1, "64")] {
            let fault = Secret::from_bytes(&vec![1; bytes]).expect_err("an illegal length");
            assert_eq!(fault.limit.as_deref(), Some(limit));
        }
        for text in
            ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_%%%%", "WHSEC_MfKQ9r8GKYqrTwjUPD8I"]
        {
            assert!(Secret::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_secret_is_not_shown_by_chance() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        assert_eq!(format!("{secret:?} {:?}", [&secret]), "Secret(…) [Secret(…)]");
        let fault = Secret::parse("whsec_not base64 at all").expect_err("no secret");
        assert!(!fault.expected.contains("not base64"), "{fault:?}");
    }
}
