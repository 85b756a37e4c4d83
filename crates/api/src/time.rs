//! RFC 3339 times from and to Unix milliseconds.
//!
//! Written out instead of taken from a crate: the two directions are forty lines of well-known calendar
//! arithmetic, and every crate for it costs more to compile than all of this one.
//!
//! Leap seconds (`:60`) are read as the second that follows, which is how Unix time counts them. Finer than
//! milliseconds is cut off.

use crate::input_error::Fault;

const DAY: i64 = 86_400_000;

/// The first moment that can be written: `0000-01-01T00:00:00Z`.
pub const MILLIS_MIN: i64 = -62_167_219_200_000;
/// The last moment that can be written: `9999-12-31T23:59:59.999Z`.
pub const MILLIS_MAX: i64 = 253_402_300_799_999;

/// Reads an RFC 3339 time as milliseconds since 1970, before which they are negative.
pub fn parse(text: &str) -> Result<i64, Fault> {
    let millis = parse_fields(text.as_bytes()).filter(|millis| (MILLIS_MIN..=MILLIS_MAX).contains(millis));
    millis.ok_or_else(|| Fault::new("an rfc 3339 time like 2026-10-07T12:30:00Z"))
}

/// Writes milliseconds since 1970 in UTC, with three decimals unless they are zero.
///
/// Beyond the years 0000 to 9999, which RFC 3339 can't write, the nearest moment is written.
pub fn render(millis: i64) -> String {
    let millis = millis.clamp(MILLIS_MIN, MILLIS_MAX);
    let (year, month, day) = date_of(millis.div_euclid(DAY));
    let of_day = millis.rem_euclid(DAY);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    match of_day % 1_000 {
        0 => format!("{date}Z"),
        decimals => format!("{date}.{decimals:03}Z"),
    }
}

/// The same with three decimals always, as some parsers want them.
pub fn render_millis(millis: i64) -> String {
    let mut text = render(millis);
    if millis.clamp(MILLIS_MIN, MILLIS_MAX).rem_euclid(1_000) == 0 {
        text.truncate(text.len() - 1);
        text.push_str(".000Z");
    }
    text
}

fn parse_fields(text: &[u8]) -> Option<i64> {
    let (date_time, rest) = text.split_at_checked(19)?;
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| date_time[*at] != *mark) || !matches!(date_time[10], b'T' | b't') {
        return None;
    }
    let number = |from: usize, to: usize| digits(&date_time[from..to]);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (decimals, zone) = split_decimals(rest)?;
    let seconds = day_of(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some((seconds - offset_seconds(zone)?) * 1_000 + decimals)
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter()
        .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

/// The milliseconds of an optional fraction, and what follows it.
fn split_decimals(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(fraction) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (decimals, zone) = fraction.split_at(length);
    if decimals.is_empty() {
        return None;
    }
    let mut first_three = [b'0'; 3];
    for (place, digit) in first_three.iter_mut().zip(decimals) {
        *place = *digit;
    }
    Some((digits(&first_three)?, zone))
}

fn offset_seconds(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match zone {
        b"Z" | b"z" => return Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => (*sign, digits(&[*h1, *h2])?, digits(&[*m1, *m2])?),
        _ => return None,
    };
    let seconds = hours * 3_600 + minutes * 60;
    (hours <= 23 && minutes <= 59).then_some(if sign == b'-' { -seconds } else { seconds })
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01. Years are counted from March, so that the leap day is a year's last.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`day_of`].
fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = (shifted_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments_are_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-10-07T12:30:00.5+02:00", 1_791_369_000_500),
            ("2026-10-07t10:30:00.500999z", 1_791_369_000_500),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("0000-01-01T00:00:00Z", MILLIS_MIN),
            ("9999-12-31T23:59:59.999Z", MILLIS_MAX),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026-10-07",
            "2026-10-07T12:30:00",
            "2026-10-07 12:30:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-10-07T24:00:00Z",
            "2026-10-07T12:60:00Z",
            "2026-10-07T12:30:61Z",
            "2026-10-07T12:30:00.Z",
            "2026-10-07T12:30:00+24:00",
            "2026-10-07T12:30:00+0200",
            "2026-10-07T12:30:00ZZ",
            "+026-10-07T12:30:00Z",
            "0000-01-01T00:00:00+00:01",
            "٢٠٢٦-10-07T12:30:00Z",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn three_decimals_are_written_where_they_are_wanted() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_010, "1970-01-01T00:00:01.010Z"),
        ] {
            assert_eq!(render_millis(millis), text);
        }
        assert_eq!(render_millis(i64::MIN), "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn beyond_what_can_be_written_the_nearest_is_written() {
        assert_eq!(render(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(render(i64::MIN), "0000-01-01T00:00:00Z");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in MILLIS_MIN..=MILLIS_MAX) {
            prop_assert_eq!(parse(&render(millis)), Ok(millis));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
