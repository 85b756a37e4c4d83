//! Topics of triggers: one by its name, or all whose names begin in a way.

/// Bytes that a name can have.
const NAME_BYTES_MAX: usize = 255;
/// What a name has to be.
pub(super) const NAME: &str = "1 to 255 of A-Z, a-z, 0-9, _ and -";

/// Whether this is a name of a topic, group or deployment.
pub(super) fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// Whether this is a name of a topic, or the beginning of names with `*` behind it.
pub(super) fn is_pattern(text: &str) -> bool {
    text == "*" || is_name(text.strip_suffix('*').unwrap_or(text))
}

/// Whether there can be a topic that both stand for.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    match (one.strip_suffix('*'), other.strip_suffix('*')) {
        (None, None) => one == other,
        (Some(prefix), None) => other.starts_with(prefix),
        (None, Some(prefix)) => one.starts_with(prefix),
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_at_the_very_end_or_nowhere() {
        for pattern in ["orders", "user-*", "*", "a_B-9", "__wkf_step_*"] {
            assert!(is_pattern(pattern), "{pattern}");
        }
        for pattern in ["", "a*b", "*-user", "**", "a**", "a.b", "a b", "\u{fc}", "a/*"] {
            assert!(!is_pattern(pattern), "{pattern}");
        }
        assert!(is_pattern(&"x".repeat(255)) && !is_pattern(&"x".repeat(256)));
    }

    #[test]
    fn patterns_overlap_where_a_topic_could_match_both() {
        for (one, other, wanted) in [
            ("a", "a", true),
            ("a", "b", false),
            ("*", "a", true),
            ("*", "*", true),
            ("user-*", "user-new", true),
            ("user-*", "user", false),
            ("user-*", "us*", true),
            ("user-*", "users*", false),
        ] {
            assert_eq!((overlap(one, other), overlap(other, one)), (wanted, wanted), "{one} {other}");
        }
    }
}
