//! Durations as ProtoJSON writes them: `"30s"`, `"1.5s"`.
//!
//! Whole milliseconds only: times are stored in milliseconds, so what is accepted is kept exactly. Anything
//! finer, negative or beyond ProtoJSON's own range is refused, never rounded.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::input_error::Fault;

/// The longest duration that ProtoJSON allows: 10,000 years.
pub const DURATION_MAX: Duration = Duration::from_secs(315_576_000_000);

/// Reads `"30s"` or `"1.5s"`: digits, up to three decimals, `s`.
pub fn parse(text: &str) -> Result<Duration, Fault> {
    let shape = || Fault::new("a duration in seconds like 30s or 1.5s with at most three decimals");
    let number = text.strip_suffix('s').ok_or_else(shape)?;
    let (seconds, decimals) = match number.split_once('.') {
        Some((_, "")) => return Err(shape()),
        Some(parts) => parts,
        None => (number, ""),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || decimals.len() > 3 || !digits(seconds) || !digits(decimals) {
        return Err(shape());
    }
    let beyond = || Fault::beyond(render(DURATION_MAX), format!("a duration up to {}", render(DURATION_MAX)));
    let seconds: u64 = seconds.parse().map_err(|_| beyond())?;
    let milliseconds: u64 = format!("{decimals:0<3}").parse().map_err(|_| shape())?;
    let whole = Duration::from_secs(seconds).checked_add(Duration::from_millis(milliseconds));
    whole.filter(|duration| *duration <= DURATION_MAX).ok_or_else(beyond)
}

/// Reads a duration that must lie in a range, both ends included.
pub fn parse_within(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, Fault> {
    let duration = parse(text)?;
    if range.contains(&duration) {
        return Ok(duration);
    }
    let [least, most] = [range.start(), range.end()].map(|bound| render(*bound));
    let expected = format!("a duration from {least} to {most}");
    Err(Fault::beyond(if duration < *range.start() { least } else { most }, expected))
}

/// Writes `30s`, or `1.500s` where there are milliseconds; what is finer than those is cut off.
pub fn render(duration: Duration) -> String {
    match (duration.as_secs(), duration.subsec_millis()) {
        (seconds, 0) => format!("{seconds}s"),
        (seconds, milliseconds) => format!("{seconds}.{milliseconds:03}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seconds_with_up_to_three_decimals_are_read() {
        for (text, milliseconds) in
            [("0s", 0), ("30s", 30_000), ("1.5s", 1_500), ("0.001s", 1), ("007s", 7_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse("315576000000s"), Ok(DURATION_MAX));
    }

    #[test]
    fn other_notations_are_refused() {
        let bad = [
            "", "s", "30", "30S", "30 s", " 30s", "-1s", "+1s", "1.s", ".5s", "1.5.5s", "1e3s", "30ms", "٣s",
        ];
        for text in bad {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn four_decimals_and_overflow_are_refused() {
        assert!(parse("1.0000s").is_err());
        assert!(parse("315576000000.001s").is_err());
        assert!(parse("18446744073709551616s").is_err());
        assert!(parse("18446744073709551615.999s").is_err());
    }

    #[test]
    fn a_range_includes_its_ends_and_names_the_end_it_broke() {
        let range = || Duration::from_secs(1)..=Duration::from_secs(43_200);
        assert!(parse_within("1s", range()).is_ok());
        assert!(parse_within("43200s", range()).is_ok());
        let low = parse_within("0.999s", range()).expect_err("too short");
        assert_eq!(low.limit.as_deref(), Some("1s"));
        let high = parse_within("43200.001s", range()).expect_err("too long");
        assert_eq!(high.limit.as_deref(), Some("43200s"));
        assert_eq!(high.expected, "a duration from 1s to 43200s");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(milliseconds in 0u64..=315_576_000_000_000) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse(&render(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
