//! Receipt handles, and the ids that duplicates are answered with: texts of `A-Z`, `a-z`, `0-9`, `_` and `-` that only this
//! server reads.
//!
//! A handle says all that there is to say about a lease, so nothing is stored for it. Its length keeps it apart from
//! `visibility`, which a path may have in its place.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What a message id begins with; its 26 further characters are what handles carry.
const MESSAGE_PREFIX: &str = "msg_";
const MESSAGE_CHARS: usize = 26;
/// What the id of a duplicate begins with.
const DUPLICATE_PREFIX: &str = "dup_";
const DUPLICATE_DIGITS: usize = 16;
/// Tag of the group, delivery, generation.
const LEASE_BYTES: usize = 4 + 6 + 8;

/// A lease, as its holder gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptHandle {
    /// The message's id.
    pub message_id: String,
    /// Of the group that it was leased to: [`group_tag`].
    pub group_tag: u32,
    /// The delivery. Below 2^48.
    pub delivery: u64,
    /// The lease's generation.
    pub generation: u64,
}

impl ReceiptHandle {
    /// The handle as text. The message id has to be one.
    pub fn render(&self) -> String {
        let mut lease = [0; LEASE_BYTES];
        lease[..4].copy_from_slice(&self.group_tag.to_be_bytes());
        lease[4..10].copy_from_slice(&self.delivery.to_be_bytes()[2..]);
        lease[10..].copy_from_slice(&self.generation.to_be_bytes());
        let mut text = self.message_id.strip_prefix(MESSAGE_PREFIX).unwrap_or_default().to_owned();
        URL_SAFE_NO_PAD.encode_string(lease, &mut text);
        text
    }

    /// Reads a handle. What is none says nothing about why.
    pub fn parse(text: &str) -> Option<Self> {
        let (message, lease) = text.split_at_checked(MESSAGE_CHARS)?;
        let lease: [u8; LEASE_BYTES] = URL_SAFE_NO_PAD.decode(lease).ok()?.try_into().ok()?;
        let mut delivery = [0; 8];
        delivery[2..].copy_from_slice(&lease[4..10]);
        Some(Self {
            message_id: message_id(message)?,
            group_tag: u32::from_be_bytes(lease[..4].try_into().ok()?),
            delivery: u64::from_be_bytes(delivery),
            generation: u64::from_be_bytes(lease[10..].try_into().ok()?),
        })
    }
}

/// Tells groups apart in a handle (FNV-1a). Two names with one tag do no harm: a lease of the other is then one that is not
/// known.
pub fn group_tag(group: &str) -> u32 {
    group.bytes().fold(0x811c_9dc5, |tag: u32, byte| (tag ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The id of a message that was not stored because its key was known: it names the one that was, and is the only one with
/// this `salt`.
pub fn duplicate_id(original: &str, salt: u64) -> String {
    let original = original.strip_prefix(MESSAGE_PREFIX).unwrap_or_default();
    format!("{DUPLICATE_PREFIX}{original}_{salt:0DUPLICATE_DIGITS$x}")
}

/// The id of the message that was stored, if this is the id of a duplicate.
pub fn original_of(id: &str) -> Option<String> {
    let (original, salt) = id.strip_prefix(DUPLICATE_PREFIX)?.split_at_checked(MESSAGE_CHARS)?;
    let salt = salt.strip_prefix('_')?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (salt.len() == DUPLICATE_DIGITS && salt.bytes().all(is_digit)).then(|| message_id(original))?
}

fn message_id(characters: &str) -> Option<String> {
    let legal = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    characters.bytes().all(legal).then(|| format!("{MESSAGE_PREFIX}{characters}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "msg_01KC9Z1V0G00000004Q3HRAZRX";

    fn handle() -> ReceiptHandle {
        ReceiptHandle {
            message_id: ID.to_owned(),
            group_tag: group_tag("mailer"),
            delivery: 7,
            generation: 1,
        }
    }

    #[test]
    fn a_handle_is_50_characters_that_need_no_escape() {
        let text = handle().render();
        assert_eq!(text.len(), 50);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");
        assert_ne!(group_tag("mailer"), group_tag("maile"));
    }

    #[test]
    fn what_is_no_handle_is_none() {
        let text = handle().render();
        for bad in
            ["", "visibility", "x", &text[1..], &text[..49], &format!("{text}A"), &format!("{text}="), ID]
        {
            assert_eq!(ReceiptHandle::parse(bad), None, "{bad}");
        }
        assert_eq!(ReceiptHandle::parse(&text.replacen('0', "é", 1)), None);
        assert_eq!(ReceiptHandle::parse(&text.to_lowercase()), None);
    }

    #[test]
    fn the_id_of_a_duplicate_names_the_original() {
        let id = duplicate_id(ID, 0xab);
        assert_eq!(id, "dup_01KC9Z1V0G00000004Q3HRAZRX_00000000000000ab");
        assert_eq!(original_of(&id).as_deref(), Some(ID));
        for bad in
            [ID, "dup_", "dup_01KC9Z1V0G00000004Q3HRAZRX", &id[..46], &format!("{id}0"), &id.to_uppercase()]
        {
            assert_eq!(original_of(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_handle_survives_its_text_form(
            id in "msg_[0-9A-Z]{26}", group_tag: u32, delivery in 0u64..1 << 48, generation: u64, salt: u64,
        ) {
            let handle = ReceiptHandle { message_id: id.clone(), group_tag, delivery, generation };
            prop_assert_eq!(ReceiptHandle::parse(&handle.render()), Some(handle));
            prop_assert_eq!(original_of(&duplicate_id(&id, salt)), Some(id));
        }

        #[test]
        fn no_text_is_taken_for_a_handle_that_is_written_differently(text in "[0-9A-Za-z_-]{48,52}") {
            if let Some(handle) = ReceiptHandle::parse(&text) {
                prop_assert_eq!(handle.render(), text);
            }
        }

        #[test]
        fn no_text_is_taken_for_a_duplicate_that_is_written_differently(text in "dup_[0-9A-Za-z_]{42,44}") {
            if let Some(original) = original_of(&text) {
                let salt = u64::from_str_radix(&text[31..], 16).expect("hex digits");
                prop_assert_eq!(duplicate_id(&original, salt), text);
            }
        }
    }
}
