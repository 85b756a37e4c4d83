//! Headers of calls: their names, their defaults and their bounds. `header` of a call looks one up by its name in lower
//! case.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::path::check_name;
use crate::input_error::{Fault, InputError};
use crate::limits::{
    VERCEL_DELAY_MAX, VERCEL_KEY_CHARS_MAX, VERCEL_RECEIVE_MESSAGES_MAX, VERCEL_RETENTION_DEFAULT,
    VERCEL_RETENTION_MAX, VERCEL_RETENTION_MIN, VERCEL_VISIBILITY_DEFAULT, VERCEL_VISIBILITY_MAX,
};
use crate::time;

const CURSOR_FALLBACK: &str = "Vqs-Cursor-Fallback";
const DELAY: &str = "Vqs-Delay-Seconds";
const DEPLOYMENT: &str = "Vqs-Deployment-Id";
const IDEMPOTENCY_KEY: &str = "Vqs-Idempotency-Key";
const MAX_CONCURRENCY: &str = "Vqs-Max-Concurrency";
const MAX_MESSAGES: &str = "Vqs-Max-Messages";
const RETENTION: &str = "Vqs-Retention-Seconds";
const VISIBILITY: &str = "Vqs-Visibility-Timeout-Seconds";

/// What a send says of its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendOptions<'h> {
    /// How long it stays hidden; `None`: as the topic says.
    pub delay: Option<Duration>,
    /// A second send under this key is a duplicate. Any bytes.
    pub key: Option<&'h [u8]>,
    /// How long it lives.
    pub time_to_live: Duration,
}

impl<'h> SendOptions<'h> {
    /// Reads the headers of a send, or of a part of a batch.
    pub fn read(header: impl Fn(&str) -> Option<&'h [u8]>) -> Result<Self, InputError> {
        let retention = VERCEL_RETENTION_MIN.as_secs()..=VERCEL_RETENTION_MAX.as_secs();
        let retention = number(&header, RETENTION, retention)?.unwrap_or(VERCEL_RETENTION_DEFAULT.as_secs());
        let delay = number(&header, DELAY, 0..=VERCEL_DELAY_MAX.as_secs())?;
        if let Some(delay) = delay.filter(|delay| *delay > retention) {
            let expected = format!("at most the {retention} seconds that the message lives");
            return Err(Fault::beyond(retention, expected).at(DELAY, &delay.to_string()));
        }
        let key = header("vqs-idempotency-key").filter(|key| !key.is_empty());
        if let Some(long) = key.filter(|key| characters(key) > VERCEL_KEY_CHARS_MAX) {
            let expected = format!("at most {VERCEL_KEY_CHARS_MAX} characters");
            let shown = String::from_utf8_lossy(long);
            return Err(Fault::beyond(VERCEL_KEY_CHARS_MAX, expected).at(IDEMPOTENCY_KEY, &shown));
        }
        let delay = delay.map(Duration::from_secs);
        Ok(Self { delay, key, time_to_live: Duration::from_secs(retention) })
    }
}

/// Characters of a header's value, which is UTF-8 or, as HTTP had it once, one byte a character.
fn characters(value: &[u8]) -> usize {
    std::str::from_utf8(value).map_or(value.len(), |text| text.chars().count())
}

/// What messages are answered in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// `application/x-ndjson`.
    Lines,
    /// `multipart/mixed`.
    Parts,
}

/// Where a group begins that is made by being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorFallback {
    /// At the oldest message.
    Earliest,
    /// Behind all that is there.
    Latest,
}

/// What a receive asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// In what the messages are wanted.
    pub form: AnswerForm,
    /// At most this many.
    pub max_messages: u32,
    /// How long they are leased; `None`: they are only looked at.
    pub visibility: Option<Duration>,
    /// Nothing if the group has this many in flight.
    pub max_concurrency: Option<u32>,
    /// Where the group begins if it is new.
    pub cursor_fallback: CursorFallback,
}

impl ReceiveOptions {
    /// Reads the headers of a receive.
    pub fn read<'h>(header: impl Fn(&str) -> Option<&'h [u8]>) -> Result<Self, InputError> {
        let one = Self::read_by_id(&header)?;
        let max_messages = number(&header, MAX_MESSAGES, 1..=VERCEL_RECEIVE_MESSAGES_MAX.into())?;
        let cursor_fallback = match header("vqs-cursor-fallback") {
            None | Some(b"earliest") => CursorFallback::Earliest,
            Some(b"latest") => CursorFallback::Latest,
            Some(other) => {
                let shown = String::from_utf8_lossy(other);
                return Err(Fault::new("earliest or latest").at(CURSOR_FALLBACK, &shown));
            }
        };
        let max_messages = max_messages.and_then(|most| u32::try_from(most).ok());
        Ok(Self { max_messages: max_messages.unwrap_or(one.max_messages), cursor_fallback, ..one })
    }

    /// Reads the headers of a receive by id, which is of one message and says nothing about where to begin.
    pub fn read_by_id<'h>(header: impl Fn(&str) -> Option<&'h [u8]>) -> Result<Self, InputError> {
        let form = answer_form(header("accept"))?;
        let visibility = number(&header, VISIBILITY, 0..=VERCEL_VISIBILITY_MAX.as_secs())?;
        let visibility = Duration::from_secs(visibility.unwrap_or(VERCEL_VISIBILITY_DEFAULT.as_secs()));
        let max_concurrency = number(&header, MAX_CONCURRENCY, 1..=NUMBER_MAX)?;
        Ok(Self {
            form,
            max_messages: 1,
            visibility: (!visibility.is_zero()).then_some(visibility),
            max_concurrency: max_concurrency.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
            cursor_fallback: CursorFallback::Earliest,
        })
    }
}

/// The deployment that a call is about.
pub fn deployment<'h>(header: impl Fn(&str) -> Option<&'h [u8]>) -> Result<Option<&'h str>, InputError> {
    let Some(value) = header("vqs-deployment-id") else { return Ok(None) };
    let text = std::str::from_utf8(value).unwrap_or_default();
    check_name(DEPLOYMENT, text)?;
    Ok(Some(text))
}

/// When the client asked, by its own clock, in Unix milliseconds. What is no time says nothing.
pub fn client_time<'h>(header: impl Fn(&str) -> Option<&'h [u8]>) -> Option<i64> {
    let text = std::str::from_utf8(header("vqs-client-ts")?).ok()?;
    time::parse(text.trim()).ok()
}

/// The form to answer in: parts if both are accepted. A client that takes anything must say what it can read.
fn answer_form(accept: Option<&[u8]>) -> Result<AnswerForm, InputError> {
    let text = String::from_utf8_lossy(accept.unwrap_or_default());
    let accepts = |wanted: &str| {
        text.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
            let refused = |weight: &str| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0);
            named && !parts.any(|parameter| parameter.strip_prefix("q=").is_some_and(refused))
        })
    };
    if accepts("multipart/mixed") {
        Ok(AnswerForm::Parts)
    } else if accepts("application/x-ndjson") {
        Ok(AnswerForm::Lines)
    } else {
        Err(Fault::new("multipart/mixed or application/x-ndjson").at("Accept", &text))
    }
}

/// The highest number for which there is no higher one that a double can't tell from it.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A whole number in a header, within its bounds.
pub(super) fn number<'h>(
    header: impl Fn(&str) -> Option<&'h [u8]>,
    name: &str,
    range: RangeInclusive<u64>,
) -> Result<Option<u64>, InputError> {
    let Some(value) = header(&name.to_ascii_lowercase()) else { return Ok(None) };
    let shown = String::from_utf8_lossy(value);
    let number = decimal(&shown).filter(|number| number.fract() == 0.0);
    let number = number.filter(|number| (0.0..=NUMBER_MAX as f64).contains(number)).map(|whole| whole as u64);
    match number.filter(|number| range.contains(number)) {
        Some(number) => Ok(Some(number)),
        None if *range.end() == NUMBER_MAX => {
            let expected = format!("an integer of {} or more", range.start());
            Err(Fault::beyond(range.start(), expected).at(name, &shown))
        }
        None => {
            let expected = format!("an integer from {} to {}", range.start(), range.end());
            Err(Fault::beyond(range.end(), expected).at(name, &shown))
        }
    }
}

/// A decimal number, with a point or an exponent if it likes: `1e1` and `5.` are whole too, and clients may write them.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    // Rust takes words besides.
    let spelled = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    spelled.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with<'a>(headers: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a [u8]> {
        |name| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_bytes())
    }

    #[test]
    fn numbers_are_decimal_however_they_are_written() {
        for (text, number) in [
            ("60", Some(60.0)),
            (" 60\t", Some(60.0)),
            ("1e1", Some(10.0)),
            ("1E+1", Some(10.0)),
            ("5.", Some(5.0)),
            (".5", Some(0.5)),
            ("60.5", Some(60.5)),
            ("+5", Some(5.0)),
            ("-5", Some(-5.0)),
            ("007", Some(7.0)),
            ("", None),
            ("0x1F", None),
            (".", None),
            ("e1", None),
            ("1e", None),
            ("1_0", None),
            ("1,0", None),
            ("5s", None),
            ("nan", None),
            ("inf", None),
        ] {
            assert_eq!(decimal(text), number, "{text:?}");
        }
        assert_eq!(decimal("1e999"), Some(f64::INFINITY));
    }

    #[test]
    fn a_send_has_defaults_and_bounds() {
        let read = |headers: &[(&str, &str)]| {
            SendOptions::read(with(headers)).map(|options| (options.delay, options.time_to_live.as_secs()))
        };
        assert_eq!(read(&[]), Ok((None, 86_400)));
        let seconds = Duration::from_secs;
        for (retention, delay, expected) in [
            ("60", "0", (seconds(0), 60)),
            ("604800", "604800", (seconds(604_800), 604_800)),
            ("6e1", "5.", (seconds(5), 60)),
            ("60", "60", (seconds(60), 60)),
        ] {
            let headers = [("vqs-retention-seconds", retention), ("vqs-delay-seconds", delay)];
            assert_eq!(read(&headers), Ok((Some(expected.0), expected.1)));
        }
        for (name, value) in [
            ("vqs-retention-seconds", "59"),
            ("vqs-retention-seconds", "604801"),
            ("vqs-retention-seconds", "60.5"),
            ("vqs-retention-seconds", "Infinity"),
            ("vqs-retention-seconds", "1e999"),
            ("vqs-retention-seconds", ""),
            ("vqs-delay-seconds", ""),
            ("vqs-delay-seconds", "-1"),
            ("vqs-delay-seconds", "604801"),
            ("vqs-delay-seconds", "86401"),
        ] {
            let error = read(&[(name, value)]).expect_err(value);
            assert!(error.field.is_some_and(|field| field.eq_ignore_ascii_case(name)), "{name} {value}");
        }
        let error = read(&[("vqs-retention-seconds", "59")]).expect_err("too short");
        assert_eq!(error.detail, "Vqs-Retention-Seconds is 59, expected an integer from 60 to 604800");
    }

    #[test]
    fn a_key_has_256_characters_however_many_bytes() {
        let key = |bytes: &[u8]| {
            SendOptions::read(|name| (name == "vqs-idempotency-key").then_some(bytes))
                .map(|found| found.key.is_some())
        };
        assert_eq!(key(b""), Ok(false));
        for (taken, refused) in [("k".repeat(256), "k".repeat(257)), ("é".repeat(256), "é".repeat(257))] {
            assert_eq!(key(taken.as_bytes()), Ok(true));
            assert!(key(refused.as_bytes()).is_err());
        }
        assert_eq!(key(&[0xff; 256]), Ok(true));
        assert!(key(&[0xff; 257]).is_err());
    }

    #[test]
    fn a_receive_has_defaults_and_bounds() {
        let read = |headers: &[(&str, &str)]| {
            let all: Vec<_> = headers.iter().copied().chain([("accept", "multipart/mixed")]).collect();
            ReceiveOptions::read(with(&all))
        };
        let plain = read(&[]).expect("all is left out");
        let expected = ReceiveOptions {
            form: AnswerForm::Parts,
            max_messages: 1,
            visibility: Some(Duration::from_secs(60)),
            max_concurrency: None,
            cursor_fallback: CursorFallback::Earliest,
        };
        assert_eq!(plain, expected);
        let headers = [
            ("vqs-max-messages", "10"),
            ("vqs-visibility-timeout-seconds", "0"),
            ("vqs-max-concurrency", "9007199254740991"),
            ("vqs-cursor-fallback", "latest"),
        ];
        let full = read(&headers).expect("all is at its bound");
        assert_eq!((full.max_messages, full.visibility, full.max_concurrency), (10, None, Some(u32::MAX)));
        assert_eq!(full.cursor_fallback, CursorFallback::Latest);
        let visible = read(&[("vqs-visibility-timeout-seconds", "3600")]).expect("it is at its bound");
        assert_eq!(visible.visibility, Some(VERCEL_VISIBILITY_MAX));
        for (name, value) in [
            ("vqs-max-messages", "0"),
            ("vqs-max-messages", "11"),
            ("vqs-max-messages", "2.5"),
            ("vqs-visibility-timeout-seconds", "3601"),
            ("vqs-visibility-timeout-seconds", "-1"),
            ("vqs-max-concurrency", "0"),
            ("vqs-max-concurrency", "many"),
            ("vqs-cursor-fallback", "Latest"),
            ("vqs-cursor-fallback", ""),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name} {value}");
        }
        let by_id = [("accept", "multipart/mixed"), ("vqs-max-messages", "x"), ("vqs-cursor-fallback", "x")];
        assert_eq!(ReceiveOptions::read_by_id(with(&by_id)), Ok(expected));
    }

    #[test]
    fn who_asks_says_what_it_can_read() {
        let form = |accept: Option<&str>| answer_form(accept.map(str::as_bytes)).ok();
        for accept in
            ["multipart/mixed", "application/x-ndjson, Multipart/Mixed;q=0.5", "a/b,multipart/mixed"]
        {
            assert_eq!(form(Some(accept)), Some(AnswerForm::Parts), "{accept}");
        }
        for accept in ["application/x-ndjson", "multipart/mixed;q=0,application/x-ndjson;charset=utf-8"] {
            assert_eq!(form(Some(accept)), Some(AnswerForm::Lines), "{accept}");
        }
        for accept in [None, Some(""), Some("*/*"), Some("multipart/*"), Some("application/json")] {
            assert_eq!(form(accept), None, "{accept:?}");
        }
    }

    #[test]
    fn a_deployment_has_a_name_and_a_client_a_clock() {
        assert_eq!(deployment(with(&[])), Ok(None));
        assert_eq!(deployment(with(&[("vqs-deployment-id", "dpl_1-A")])), Ok(Some("dpl_1-A")));
        for name in ["", "dpl 1", "dpl/1", "é"] {
            assert!(deployment(with(&[("vqs-deployment-id", name)])).is_err(), "{name}");
        }
        assert!(deployment(|_| Some(b"\xff")).is_err());
        let asked = |text| client_time(with(&[("vqs-client-ts", text)]));
        assert_eq!(asked("2026-11-30T03:25:23.647Z"), asked("2026-11-30T03:25:23.647199+00:00"));
        assert!(asked("2026-11-30T03:25:23.647Z").is_some());
        assert_eq!((asked("now"), client_time(with(&[]))), (None, None));
    }

    proptest! {
        #[test]
        fn every_number_in_its_bounds_is_read(number in 0u64..=1_000_000) {
            let text = number.to_string();
            let read = super::number(|_| Some(text.as_bytes()), "N", 0..=1_000_000);
            prop_assert_eq!(read, Ok(Some(number)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(value: Vec<u8>) {
            let header = |_: &str| Some(&value[..]);
            let _ = (SendOptions::read(header), ReceiveOptions::read(header), deployment(header), client_time(header));
        }
    }
}
