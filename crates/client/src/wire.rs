//! ProtoJSON's habits: durations as `"30s"`, 64-bit numbers as strings, times in RFC 3339.
//!
//! What the server adds later does not break an older client: unknown fields are passed over when they are read.

use std::time::Duration;

/// Seconds with up to three decimals and an `s`. Finer than a millisecond is cut off, as the server refuses it.
pub(crate) fn render_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if millis == 0 {
        return format!("{seconds}s");
    }
    let text = format!("{seconds}.{millis:03}");
    format!("{}s", text.trim_end_matches('0'))
}

/// Reads what [`render_duration`] writes.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let (seconds, decimals) = number.split_once('.').unwrap_or((number, ""));
    if decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = format!("{decimals:0<9}").parse().ok()?;
    Some(Duration::new(seconds.parse().ok()?, nanoseconds))
}

/// For optional durations: `#[serde(with = "wire::duration")]`.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(super::render_duration).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let expected = "a duration in seconds like 30s or 1.5s";
        let refuse = || de::Error::invalid_value(de::Unexpected::Str(&text), &expected);
        super::parse_duration(&text).map(Some).ok_or_else(refuse)
    }
}

/// For durations that are always there: `#[serde(with = "wire::some_duration")]`.
pub(crate) mod some_duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::render_duration(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        super::duration::deserialize(deserializer)?.ok_or_else(|| de::Error::custom("a duration is null"))
    }
}

/// For times: `#[serde(with = "wire::time")]`.
pub(crate) mod time {
    use std::time::{Duration, SystemTime};

    use serde::{Deserialize, Deserializer, Serializer, de};

    /// The last moment that can be written: the end of the year 9999.
    const SECONDS_MAX: u64 = 253_402_300_799;

    /// In UTC, with three decimals unless they are zero; what cannot be written is written as the nearest that can.
    pub(crate) fn render(time: SystemTime) -> String {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = SystemTime::UNIX_EPOCH + since.min(Duration::from_secs(SECONDS_MAX));
        match since.subsec_millis() {
            0 => humantime::format_rfc3339_seconds(time).to_string(),
            _ => humantime::format_rfc3339_millis(time).to_string(),
        }
    }

    pub(super) fn parse<E: de::Error>(text: &str) -> Result<SystemTime, E> {
        let refuse = |_| E::invalid_value(de::Unexpected::Str(text), &"an RFC 3339 time in UTC");
        humantime::parse_rfc3339(text).map_err(refuse)
    }

    pub(crate) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&render(*time))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }
}

/// For optional times: `#[serde(default, with = "wire::optional_time")]`.
pub(crate) mod optional_time {
    use std::time::SystemTime;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(super::time::render).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::time::parse(&text)).transpose()
    }
}

/// For 64-bit numbers: `#[serde(with = "wire::number")]`. Plain numbers are read too.
pub(crate) mod number {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Number(u64),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Number(number) => Ok(number),
            Form::Text(text) => {
                let refuse = |_| de::Error::invalid_value(de::Unexpected::Str(&text), &"a number");
                text.parse().map_err(refuse)
            }
        }
    }
}

/// For optional 64-bit numbers: `#[serde(default, with = "wire::optional_number")]`.
pub(crate) mod optional_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    struct Present(#[serde(with = "super::number")] u64);

    pub(crate) fn serialize<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        number.map(|number| number.to_string()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<Present>::deserialize(deserializer)?.map(|Present(number)| number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_server_writes_them() {
        let at = |millis| time::render(std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(1_791_375_000_250), "2026-10-07T12:10:00.250Z");
        assert_eq!(at(u64::from(u32::MAX) * 1_000_000), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn durations_are_written_as_the_server_reads_them_and_read_back() {
        for (millis, text) in [(0, "0s"), (30_000, "30s"), (1_500, "1.5s"), (20, "0.02s"), (1_001, "1.001s")]
        {
            let duration = Duration::from_millis(millis);
            assert_eq!(render_duration(duration), text);
            assert_eq!(parse_duration(text), Some(duration));
        }
        assert_eq!(render_duration(Duration::from_micros(1_500)), "0.001s");
        for text in ["", "s", "1", "1m", "-1s", "1.s5", "1.0000000001s", "1e3s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
