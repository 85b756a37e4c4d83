//! Pages of lists: how large one is, and the token that leads to the next.
//!
//! A token holds where its page ended, and a sum over that and over all that makes the list what it is. So it is refused by
//! any other list, and when it was changed. It is no secret: who forges one gets a page that he might have asked for.
//!
//! Invariant: a token has one spelling, and [`read_token`] takes it with exactly the scope it was written with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::ErrorCode;
use crate::input_error::{Fault, InputError};
use crate::limits::{PAGE_SIZE_DEFAULT, PAGE_TOKEN_BYTES_MAX};

/// Changes with what tokens hold, so that those of an older server are refused and not misread.
const VERSION: &str = "1";
const SUM_BYTES: usize = 8;

/// Reads `page_size`: none and zero are the default, and what is above `most` is `most`.
pub fn read_size(text: Option<&str>, most: u32) -> Result<u32, InputError> {
    let Some(text) = text else { return Ok(PAGE_SIZE_DEFAULT.min(most)) };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::new("a whole number, zero for the default").at("page_size", text));
    }
    match text.parse() {
        Ok(0) => Ok(PAGE_SIZE_DEFAULT.min(most)),
        Ok(size) => Ok(most.min(size)),
        // Only digits, so it is too large for the type.
        Err(_) => Ok(most),
    }
}

/// The token for the page behind `position`, in the list that `scope` describes: collection, filter, order, times.
pub fn token(scope: &[&str], position: &str) -> String {
    let mut bytes = sum(scope, position).to_be_bytes().to_vec();
    bytes.extend_from_slice(position.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position that a token holds.
///
/// # Errors
/// `page_token_invalid`, unless [`token`] wrote it for the same scope.
pub fn read_token(scope: &[&str], token: &str) -> Result<String, InputError> {
    let position = (token.len() <= PAGE_TOKEN_BYTES_MAX).then(|| decode(token)).flatten();
    let known = position.filter(|(told, position)| *told == sum(scope, position));
    known.map(|(_, position)| position).ok_or_else(|| refuse(token))
}

/// The refusal of a token whose position is none of this list, whatever its sum says.
pub fn refuse(token: &str) -> InputError {
    let expected = "a token that this list gave for the same filter, order and times";
    let mut error = Fault::new(expected).at("page_token", token);
    error.code = ErrorCode::PageTokenInvalid;
    error
}

fn decode(token: &str) -> Option<(u64, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (told, position) = bytes.split_at_checked(SUM_BYTES)?;
    Some((u64::from_be_bytes(told.try_into().ok()?), String::from_utf8(position.to_vec()).ok()?))
}

/// FNV-1a over the parts, each with its length before it, so that none can run into the next. The same on every machine,
/// unlike the standard library's.
fn sum(scope: &[&str], position: &str) -> u64 {
    let parts = [VERSION].into_iter().chain(scope.iter().copied()).chain([position]);
    let bytes = parts.flat_map(|part| part.len().to_be_bytes().into_iter().chain(part.bytes()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_is_clamped_and_not_refused() {
        for (text, size) in [
            (None, 50),
            (Some("0"), 50),
            (Some("1"), 1),
            (Some("100"), 100),
            (Some("101"), 100),
            (Some("4294967296"), 100),
            (Some("0000000000000000000000007"), 7),
        ] {
            assert_eq!(read_size(text, 100), Ok(size), "{text:?}");
        }
        assert_eq!(read_size(None, 7), Ok(7));
        for text in ["", "-1", "+1", "1.0", "ten", "٣"] {
            let error = read_size(Some(text), 100).expect_err(text);
            assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidField, Some("page_size")));
        }
    }

    #[test]
    fn a_token_belongs_to_one_list() {
        let scope = ["orgs/a/projects/b/envs/c/queues", "paused = true", ""];
        let written = token(&scope, "mail");
        assert_eq!(read_token(&scope, &written).as_deref(), Ok("mail"));
        for other in [
            &["orgs/a/projects/b/envs/d/queues", "paused = true", ""][..],
            &["orgs/a/projects/b/envs/c/queues", "paused = false", ""],
            &["orgs/a/projects/b/envs/c/queues", "paused = true", "name desc"],
            &["orgs/a/projects/b/envs/c/queuesp", "aused = true", ""],
            &["orgs/a/projects/b/envs/c/queues", "paused = true"],
        ] {
            let error = read_token(other, &written).expect_err("another list");
            assert_eq!(
                (error.code, error.field.as_deref()),
                (ErrorCode::PageTokenInvalid, Some("page_token"))
            );
        }
    }

    #[test]
    fn a_token_is_short() {
        let at_limit = "A".repeat(PAGE_TOKEN_BYTES_MAX);
        let beyond = "A".repeat(PAGE_TOKEN_BYTES_MAX + 1);
        for text in ["", "A", "=", &at_limit, &beyond] {
            assert!(read_token(&[], text).is_err(), "{}", text.len());
        }
        let longest = "x".repeat(PAGE_TOKEN_BYTES_MAX / 4 * 3 - SUM_BYTES);
        assert_eq!(read_token(&[], &token(&[], &longest)), Ok(longest.clone()));
        assert!(read_token(&[], &token(&[], &format!("{longest}x"))).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(scope in proptest::collection::vec(".{0,8}", 0..4), position in ".{0,40}") {
            let scope: Vec<_> = scope.iter().map(String::as_str).collect();
            prop_assert_eq!(read_token(&scope, &token(&scope, &position)), Ok(position));
        }

        #[test]
        fn one_character_changed_is_another_token(position in "[a-z]{1,20}", at in any::<proptest::sample::Index>(), letter in "[A-Za-z0-9_-]") {
            let written = token(&["s"], &position);
            let mut changed = written.clone();
            let at = at.index(written.len());
            changed.replace_range(at..=at, &letter);
            prop_assert_eq!(read_token(&["s"], &changed).is_ok(), changed == written);
        }

        #[test]
        fn any_text_is_answered(text in ".{0,60}") {
            let _ = (read_size(Some(&text), 100), read_token(&[], &text));
        }
    }
}
