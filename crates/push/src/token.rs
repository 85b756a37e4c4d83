//! The credential that goes with a push, for the calls that its handler makes: a JSON Web Token (HS256) over a secret of the
//! environment.
//!
//! It names what was pushed; what it is good for is decided by who verifies it. Vercel's Python client takes a token
//! from the push only if it has three parts and ends more than 15 minutes from now.
//!
//! Invariant: only tokens whose header is, byte for byte, the one written here are verified, so no other algorithm can be asked
//! for, and nothing that is signed as a push (it begins with a message's id) can pass for a token.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use millpond_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::signature::Secret;

/// How long a token is good beyond what it is made for.
pub const TOKEN_MARGIN: Duration = Duration::from_secs(3_600);
/// Bytes of a token that is looked at.
pub const TOKEN_BYTES_MAX: usize = 4_096;

/// `{"alg":"HS256","typ":"JWT"}`.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
const ISSUER: &str = "millpond";

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The environment's name.
    pub environment: String,
    /// The topic's id.
    pub topic: String,
    /// The group's id.
    pub group: String,
    /// The message's id.
    pub message: String,
    /// When it was made; whole seconds.
    pub issued_at: Timestamp,
    /// When it ends; whole seconds.
    pub expires_at: Timestamp,
}

/// Claims as they are written.
#[derive(Serialize, Deserialize)]
struct Payload<'a> {
    iss: &'a str,
    iat: i64,
    exp: i64,
    env: String,
    topic: String,
    group: String,
    message: String,
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Its time is over.
    #[error("the token has ended")]
    Expired,
    /// It is none of ours, or damaged.
    #[error("the token is none that this server makes")]
    Foreign,
    /// No secret in use has signed it.
    #[error("the token was not signed with a secret of this environment")]
    WrongSignature,
}

/// A token for a push whose lease lasts until `until`. It is good for [`TOKEN_MARGIN`] after that, and at least for as long
/// from now on.
#[must_use]
pub fn mint(secret: &Secret, push: &PushNames<'_>, until: Timestamp, now: Timestamp) -> String {
    let seconds = |time: Timestamp| time.as_millis().div_euclid(1_000);
    let payload = Payload {
        iss: ISSUER,
        iat: seconds(now),
        exp: seconds(until.max(now).plus(TOKEN_MARGIN)),
        env: push.environment.to_owned(),
        topic: push.topic.to_owned(),
        group: push.group.to_owned(),
        message: push.message.to_owned(),
    };
    let payload = serde_json::to_vec(&payload).expect("strings and numbers are JSON");
    let mut token = format!("{HEADER}.{}", URL_SAFE_NO_PAD.encode(payload));
    let code = secret.mac().chain_update(&token).finalize().into_bytes();
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(code, &mut token);
    token
}

/// What a push is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushNames<'a> {
    /// The environment's name.
    pub environment: &'a str,
    /// The topic's id.
    pub topic: &'a str,
    /// The group's id.
    pub group: &'a str,
    /// The message's id.
    pub message: &'a str,
}

/// Whether this looks like a token that was made here, so that it is to be verified and is no other kind of credential. Nothing of
/// it is to be believed.
#[must_use]
pub fn is_ours(token: &str) -> bool {
    Parts::of(token).is_some()
}

/// What a token says, if one of these secrets has signed it and its time is not over.
pub fn verify(token: &str, secrets: &[Secret], now: Timestamp) -> Result<Claims, TokenError> {
    let parts = Parts::of(token).ok_or(TokenError::Foreign)?;
    let signed = |secret: &Secret| secret.mac().chain_update(parts.signed).verify_slice(&parts.code).is_ok();
    if !secrets.iter().any(signed) {
        return Err(TokenError::WrongSignature);
    }
    if parts.claims.expires_at <= now {
        return Err(TokenError::Expired);
    }
    Ok(parts.claims)
}

/// A token taken apart.
struct Parts<'t> {
    signed: &'t str,
    code: Vec<u8>,
    claims: Claims,
}

impl<'t> Parts<'t> {
    fn of(token: &'t str) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, code) = token.rsplit_once('.')?;
        let payload = signed.strip_prefix(HEADER)?.strip_prefix('.')?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let payload: Payload<'_> = serde_json::from_slice(&payload).ok()?;
        if payload.iss != ISSUER {
            return None;
        }
        let time = |seconds: i64| seconds.checked_mul(1_000).map(Timestamp::from_millis);
        let claims = Claims {
            environment: payload.env,
            topic: payload.topic,
            group: payload.group,
            message: payload.message,
            issued_at: time(payload.iat)?,
            expires_at: time(payload.exp)?,
        };
        Some(Self { signed, code: URL_SAFE_NO_PAD.decode(code).ok()?, claims })
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_500);
    const NAMES: PushNames<'_> = PushNames {
        environment: "orgs/default/projects/default/envs/default",
        topic: "orders",
        group: "mailer",
        message: "msg_01KC9Z1V0G00000004Q3HRAZRX",
    };

    fn secret(byte: u8) -> Secret {
        Secret::from_bytes(&[byte; 32]).expect("a legal length")
    }

    fn minted(until: Timestamp) -> String {
        mint(&secret(1), &NAMES, until, NOW)
    }

    fn after(seconds: u64) -> Timestamp {
        NOW.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_token_says_what_was_pushed_to_whom_and_until_when() {
        let claims = verify(&minted(after(300)), &[secret(1)], NOW).expect("it was just made");
        let expected = Claims {
            environment: NAMES.environment.to_owned(),
            topic: "orders".to_owned(),
            group: "mailer".to_owned(),
            message: NAMES.message.to_owned(),
            issued_at: Timestamp::from_millis(1_800_000_000_000),
            expires_at: Timestamp::from_millis(1_800_003_900_000),
        };
        assert_eq!(claims, expected);
    }

    #[test]
    fn a_token_ends_an_hour_after_the_lease_or_after_now_if_that_is_later() {
        for (until, end) in [(after(300), 3_900), (after(0), 3_600), (Timestamp::ZERO, 3_600)] {
            let token = minted(until);
            let last = after(end - 1);
            assert!(verify(&token, &[secret(1)], last).is_ok());
            assert_eq!(verify(&token, &[secret(1)], after(end)), Err(TokenError::Expired));
        }
    }

    #[test]
    fn any_secret_in_use_verifies_and_no_other() {
        let token = minted(after(0));
        assert!(verify(&token, &[secret(2), secret(1)], NOW).is_ok());
        for secrets in [&[][..], &[secret(2)], &[secret(2), secret(3)]] {
            assert_eq!(verify(&token, secrets, NOW), Err(TokenError::WrongSignature));
            assert!(is_ours(&token));
        }
    }

    #[test]
    fn a_token_of_others_is_none_of_ours() {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let payload = |text: &str| format!("{HEADER}.{}.c2ln", encode(text));
        let own = r#"{"iss":"millpond","iat":1,"exp":2,"env":"e","topic":"t","group":"g","message":"m"}"#;
        assert!(is_ours(&payload(own)));
        let other_header = format!("{}.{}.c2ln", encode(r#"{"alg":"none","typ":"JWT"}"#), encode(own));
        for token in [
            "",
            "..",
            "vc-dev-token",
            "a.b.c",
            HEADER,
            &format!("{HEADER}."),
            &other_header,
            &payload(&own.replace("millpond", "https://oidc.vercel.com")),
            &payload(&own.replace(r#""exp":2"#, r#""exp":9223372036854775807"#)),
            &payload(&own.replace(r#""exp":2,"#, "")),
            &payload("{}"),
            &format!("{}=", payload(own)),
            &format!("{}.c2ln", payload(own)),
            &format!("{HEADER}.{}.c2ln", encode(&own.replace('e', &"e".repeat(TOKEN_BYTES_MAX)))),
        ] {
            assert!(!is_ours(token), "{token}");
            assert_eq!(verify(token, &[secret(1)], NOW), Err(TokenError::Foreign), "{token}");
        }
    }

    /// What `get_token_payload` and `is_expired` of vercel_oidc 0.10.0 ask of a token before the client uses it.
    #[test]
    fn the_python_client_can_read_a_token_and_finds_it_good_for_more_than_15_minutes() {
        for until in [Timestamp::ZERO, after(300), after(43_200)] {
            let token = minted(until);
            let parts: Vec<_> = token.split('.').collect();
            assert_eq!(parts.len(), 3);
            let text = parts[1].replace('-', "+").replace('_', "/");
            let padded = format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
            let payload = STANDARD.decode(padded).expect("padded base64");
            let payload: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
            let end = payload["exp"].as_i64().expect("a number") * 1_000;
            assert!(end > NOW.as_millis() + 15 * 60 * 1_000, "{payload}");
        }
    }

    proptest! {
        #[test]
        fn a_token_that_was_changed_anywhere_is_not_taken(at: prop::sample::Index, byte in "[A-Za-z0-9_.-]") {
            let token = minted(after(300));
            let at = at.index(token.len());
            let mut changed = token.clone();
            changed.replace_range(at..=at, &byte);
            prop_assume!(changed != token);
            prop_assert!(verify(&changed, &[secret(1)], NOW).is_err(), "{}", changed);
        }

        #[test]
        fn any_text_is_judged(token: String, payload: String) {
            let _ = verify(&token, &[secret(1)], NOW);
            let token = format!("{HEADER}.{}.", URL_SAFE_NO_PAD.encode(payload));
            let _ = verify(&token, &[secret(1)], NOW);
        }
    }
}
