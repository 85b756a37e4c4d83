//! What a call may do that comes with the token of a push: what handlers of pushes need, which is to take messages by their ids,
//! to settle them, and to send, all in the push's environment. Not in the push's group alone: Vercel's client for Python keeps one
//! token for its process, whichever push it came with. Any other credential says nothing: the server knows no keys.

use axum::http::header::AUTHORIZATION;
use millpond_api::ErrorCode;
use millpond_api::vercel::path::Endpoint;
use millpond_push::token;

use super::{Call, Refusal};
use crate::app::App;

pub(super) async fn check(app: &App, call: &Call<'_>, endpoint: Endpoint) -> Result<(), Refusal> {
    let Some(pushes) = &app.pushes else { return Ok(()) };
    let value = call.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = value.and_then(bearer).filter(|token| token::is_ours(token)) else { return Ok(()) };
    let environment = &call.environment.text;
    let claims = pushes.verify(environment, token).await.map_err(|error| {
        Refusal::new(ErrorCode::CredentialInvalid, 401, format!("the token of the call is not good: {error}"))
    })?;
    if endpoint != Endpoint::Receive && claims.environment == **environment {
        return Ok(());
    }
    let text = "the token of a push is for taking messages by their ids, settling them and sending, in its environment";
    Err(Refusal::new(ErrorCode::CredentialScope, 403, text))
}

/// The scheme is not case-sensitive (RFC 9110, section 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
