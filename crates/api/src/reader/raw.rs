//! JSON text taken apart by one level, borrowed, each part left as text.
//!
//! The only place that speaks serde. Collections are counted to the end but kept only up to a bound, so a
//! body of a million tiny items costs no memory before it is refused.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

type Fields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// The first `kept_max` fields of an object, and how many it has.
pub(super) fn fields<'a>(
    raw: &'a RawValue,
    kept_max: usize,
) -> Result<(Fields<'a>, usize), serde_json::Error> {
    serde_json::Deserializer::from_str(raw.get()).deserialize_map(FieldsVisitor { kept_max })
}

/// The first `kept_max` items of an array, and how many it has.
pub(super) fn items(raw: &RawValue, kept_max: usize) -> Result<(Vec<&RawValue>, usize), serde_json::Error> {
    serde_json::Deserializer::from_str(raw.get()).deserialize_seq(ItemsVisitor { kept_max })
}

/// A string, decoded; none if an escape in it stands for no character.
pub(super) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// A non-negative JSON number with up to three decimals and no exponent, in thousandths.
pub(super) fn thousandths(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if decimals.len() > 3 || !digits(whole) || !digits(decimals) {
        return None;
    }
    let thousandths = format!("{decimals:0<3}").parse::<u32>().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1_000)?.checked_add(thousandths)
}

struct FieldsVisitor {
    kept_max: usize,
}

impl<'a> Visitor<'a> for FieldsVisitor {
    type Value = (Fields<'a>, usize);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while fields.len() < self.kept_max {
            let Some(Text(name)) = map.next_key()? else { return Ok(counted(fields, 0)) };
            fields.push((name, map.next_value()?));
        }
        let mut more = 0;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            more += 1;
        }
        Ok(counted(fields, more))
    }
}

struct ItemsVisitor {
    kept_max: usize,
}

impl<'a> Visitor<'a> for ItemsVisitor {
    type Value = (Vec<&'a RawValue>, usize);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.kept_max {
            let Some(item) = seq.next_element()? else { return Ok(counted(items, 0)) };
            items.push(item);
        }
        let mut more = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        Ok(counted(items, more))
    }
}

fn counted<T>(kept: Vec<T>, more: usize) -> (Vec<T>, usize) {
    let count = kept.len() + more;
    (kept, count)
}

/// A string that borrows where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}
