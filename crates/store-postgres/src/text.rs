//! Any text as what PostgreSQL can store: it has no U+0000. Persisted.
//!
//! U+10FFFF, which no text should hold, announces: followed by `0` it stands for U+0000, twice for itself.

use std::borrow::Cow;

const MARK: char = '\u{10FFFF}';

/// As it is stored.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => stored.extend([MARK, '0']),
            MARK => stored.extend([MARK, MARK]),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// As it was given; `None`: it was not stored by [`stored`].
pub(crate) fn given(stored: String) -> Option<String> {
    if !stored.contains(MARK) {
        return Some(stored);
    }
    let mut given = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        match character {
            MARK => given.push(match characters.next()? {
                '0' => '\0',
                MARK => MARK,
                _ => return None,
            }),
            other => given.push(other),
        }
    }
    Some(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_comes_back_and_plain_text_is_stored_as_it_is() {
        for text in ["", "emails", "ü\\0", "a\0b", "\u{10FFFF}", "\0\u{10FFFF}0\u{10FFFF}\u{10FFFF}\0"] {
            let stored = stored(text);
            assert!(!stored.contains('\0'));
            assert_eq!(stored == text, !text.contains(['\0', '\u{10FFFF}']));
            assert_eq!(given(stored.into_owned()).as_deref(), Some(text));
        }
        assert_eq!(given("\u{10FFFF}1".to_owned()), None);
        assert_eq!(given("a\u{10FFFF}".to_owned()), None);
    }
}
