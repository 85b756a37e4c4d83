//! JSON that every ordinary parser takes.
//!
//! Syntax allows more than parsers do: nesting without end, escapes that stand for no character, numbers that no float
//! holds. Data goes out as it came in, amid the messages of others, so one such value would make a whole answer
//! unreadable.

use crate::input_error::Fault;
use crate::limits::JSON_DEPTH_MAX;

/// Checks JSON text whose syntax is known to be valid. One pass over the bytes, without recursion.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    let expected = format!("json nested at most {JSON_DEPTH_MAX} deep");
                    return Err(Fault::beyond(JSON_DEPTH_MAX, expected));
                }
                at += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b'"' => at = end_of_string(bytes, at + 1)?,
            b'-' | b'0'..=b'9' => {
                let length = bytes[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                if !text[at..at + length].parse::<f64>().is_ok_and(f64::is_finite) {
                    return Err(Fault::new("numbers within the range of a 64-bit float"));
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || b"+-.eE".contains(&byte)
}

/// Where the string ends that begins at `at`, behind its first quote. Refuses halves of surrogate pairs.
fn end_of_string(bytes: &[u8], mut at: usize) -> Result<usize, Fault> {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => match (escaped_unit(bytes, at), escaped_unit(bytes, at + 6)) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
                (Some(0xd800..=0xdfff), _) => return Err(Fault::new("strings without lone surrogates")),
                (Some(_), _) => at += 6,
                (None, _) => at += 2,
            },
            _ => at += 1,
        }
    }
    Ok(at)
}

/// The code unit of `\uXXXX`, if that is what stands here.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> [String; 2] {
        [("[", "]"), ("{\"[\":", "}")].map(|(open, close)| {
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            format!("{open}0{close}")
        })
    }

    #[test]
    fn nesting_is_taken_to_its_limit_and_refused_beyond() {
        for text in nested(JSON_DEPTH_MAX) {
            assert_eq!(check(&text), Ok(()));
            assert_eq!(check(&format!("[{}]", vec!["[[]]"; 1_000].join(","))), Ok(()));
        }
        for text in nested(JSON_DEPTH_MAX + 1).into_iter().chain(nested(5_000)) {
            assert_eq!(check(&text).expect_err("too deep").limit.as_deref(), Some("60"));
        }
    }

    #[test]
    fn every_escape_stands_for_a_character() {
        for text in [
            r#""\ud83d\ude00""#,
            r#""\uD83D\uDE00\\ud800""#,
            r#""\\\ud7ff\ue000\"[""#,
            r#"{"\u0000":"é\n"}"#,
            r#""\\""#,
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ude00\ud83d""#,
            r#""\ud83d\ud83d\ude00""#,
            r#""\ud83dx\ude00""#,
            r#"{"\uDBFF":1}"#,
            r#"["\\\ud83d\n"]"#,
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_number_is_in_the_range_of_a_float() {
        let long = "9".repeat(308);
        for text in ["0", "-0.0", "1e308", "-1.5E+10", "1e-999", "0e999", "[1,2]", &long, r#""1e999""#] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let longer = "9".repeat(310);
        for text in ["1e999", "-1e999", "[1,2e400]", r#"{"a":1E+309}"#, &longer] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
