//! The runtime cache: keys, tags and times to live. Values are any bytes.

use std::time::Duration;

use super::header::number;
use super::path::decoded;
use crate::input_error::{Fault, InputError};
use crate::limits::{
    VERCEL_CACHE_KEY_BYTES_MAX, VERCEL_CACHE_TAG_BYTES_MAX, VERCEL_CACHE_TAGS_MAX, VERCEL_CACHE_TTL_MAX,
    VERCEL_CACHE_TTL_MIN,
};

/// Whether what is answered may be used; Vercel's client for Node takes a value without it for none.
pub const STATE: &str = "x-vercel-cache-state";
/// The one state there is.
pub const FRESH: &str = "fresh";

/// The query parameter of a removal that names tags.
pub const TAGS: &str = "tags";

const CACHE_TAGS: &str = "X-Vercel-Cache-Tags";
const REVALIDATE: &str = "X-Vercel-Revalidate";

/// What is said of a value that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// By any of them it can be removed.
    pub tags: Vec<String>,
    /// How long it lives; `None`: until it has to go.
    pub time_to_live: Option<Duration>,
}

impl CacheOptions {
    /// Reads the headers of a call that keeps a value.
    pub fn read<'h>(header: impl Fn(&str) -> Option<&'h [u8]>) -> Result<Self, InputError> {
        let range = VERCEL_CACHE_TTL_MIN.as_secs()..=VERCEL_CACHE_TTL_MAX.as_secs();
        let time_to_live = number(&header, REVALIDATE, range)?.map(Duration::from_secs);
        let value = header("x-vercel-cache-tags").unwrap_or_default();
        let text = std::str::from_utf8(value)
            .map_err(|_| Fault::new("utf-8").at(CACHE_TAGS, &String::from_utf8_lossy(value)))?;
        let tags = tags(CACHE_TAGS, text)?;
        Ok(Self { tags, time_to_live })
    }
}

/// The key that a segment of a path is.
pub fn key(segment: &str) -> Result<String, InputError> {
    let key = decoded("key", segment)?;
    if key.len() > VERCEL_CACHE_KEY_BYTES_MAX {
        let expected = format!("at most {VERCEL_CACHE_KEY_BYTES_MAX} bytes");
        return Err(Fault::beyond(VERCEL_CACHE_KEY_BYTES_MAX, expected).at("key", &key));
    }
    Ok(key)
}

/// Tags with commas between; spaces around them, and empty ones, do not count.
pub fn tags(field: &str, text: &str) -> Result<Vec<String>, InputError> {
    let tags: Vec<_> = text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
    if tags.len() > VERCEL_CACHE_TAGS_MAX {
        let expected = format!("at most {VERCEL_CACHE_TAGS_MAX} tags");
        return Err(Fault::beyond(VERCEL_CACHE_TAGS_MAX, expected).at(field, text));
    }
    if let Some(long) = tags.iter().find(|tag| tag.len() > VERCEL_CACHE_TAG_BYTES_MAX) {
        let expected = format!("tags of at most {VERCEL_CACHE_TAG_BYTES_MAX} bytes");
        return Err(Fault::beyond(VERCEL_CACHE_TAG_BYTES_MAX, expected).at(field, long));
    }
    Ok(tags.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &'static [u8])]) -> Result<CacheOptions, InputError> {
        CacheOptions::read(|name| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value))
    }

    #[test]
    fn a_value_has_a_time_and_tags_if_it_is_said() {
        assert_eq!(read(&[]), Ok(CacheOptions { tags: Vec::new(), time_to_live: None }));
        let said = read(&[("x-vercel-revalidate", b"60"), ("x-vercel-cache-tags", b"a, b c,,\xc3\xa4")]);
        let tags = ["a", "b c", "ä"].map(str::to_owned).to_vec();
        assert_eq!(said, Ok(CacheOptions { tags, time_to_live: Some(Duration::from_secs(60)) }));
        for seconds in [&b"1"[..], b"31536000"] {
            assert!(read(&[("x-vercel-revalidate", seconds)]).is_ok());
        }
    }

    #[test]
    fn times_and_tags_have_their_bounds() {
        for seconds in [&b"0"[..], b"31536001", b"-1", b"1.5", b"", b"soon"] {
            let error = read(&[("x-vercel-revalidate", seconds)]).expect_err("no such time");
            assert_eq!(error.field.as_deref(), Some("X-Vercel-Revalidate"));
            assert_eq!(error.limit.as_deref(), Some("31536000"));
        }
        let error = read(&[("x-vercel-cache-tags", b"\xff")]).expect_err("no text");
        assert_eq!(error.field.as_deref(), Some("X-Vercel-Cache-Tags"));
        let long = "t".repeat(VERCEL_CACHE_TAG_BYTES_MAX);
        assert_eq!(tags("tags", &format!("a,{long}")).map(|tags| tags.len()), Ok(2));
        let error = tags("tags", &format!("a,{long}t")).expect_err("a long tag");
        assert_eq!(error.limit.as_deref(), Some("256"));
        let many = "t,".repeat(VERCEL_CACHE_TAGS_MAX);
        assert_eq!(tags("tags", &many).map(|tags| tags.len()), Ok(VERCEL_CACHE_TAGS_MAX));
        let error = tags("tags", &format!("{many}t")).expect_err("many tags");
        assert_eq!(error.limit.as_deref(), Some("128"));
    }

    #[test]
    fn a_key_is_a_segment_without_its_encoding() {
        for (segment, expected) in [
            ("dramatiq-results$92379887", "dramatiq-results$92379887"),
            ("dramatiq-results%2492379887", "dramatiq-results$92379887"),
            ("users%2F1", "users/1"),
            ("%C3%A4+b", "ä+b"),
        ] {
            assert_eq!(key(segment).as_deref(), Ok(expected));
        }
        assert!(key("%ff").is_err());
        let long = "%20".repeat(VERCEL_CACHE_KEY_BYTES_MAX);
        assert_eq!(key(&long).map(|key| key.len()), Ok(VERCEL_CACHE_KEY_BYTES_MAX));
        let error = key(&(long + "k")).expect_err("a long key");
        assert_eq!((error.field.as_deref(), error.limit.as_deref()), (Some("key"), Some("1024")));
    }
}
