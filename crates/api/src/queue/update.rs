//! Changing a queue: what a call names, and what is to become of it.
//!
//! Without an `update_mask` a call changes what its body names, down to the parts of `backoff` and `lost_lease`; a null puts
//! the default back. With one it changes exactly what the mask names, as a whole: what the body does not give gets its
//! default, and what the body gives beyond the mask is passed over.

use std::collections::BTreeMap;

use super::read::{QueueBody, SPEC_NAMES, spec_names};
use crate::input_error::{Fault, InputError};
use crate::limits::UPDATE_MASK_PATHS_MAX;
use crate::name::Kind;
use crate::reader::Node;

const FIELD: &str = "update_mask";

/// What becomes of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It is not named and stays.
    Kept,
    /// What is given of it replaces what there is.
    Parts,
    /// It is replaced; what is not given gets its default.
    Whole,
}

/// What an update names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateMask {
    spec: BTreeMap<&'static str, Naming>,
    /// `meta.annotations`.
    pub annotations: bool,
    /// `meta.display_name`.
    pub display_name: bool,
    /// `meta.labels`.
    pub labels: bool,
}

/// A change of a queue, or a queue to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUpdate {
    /// What is given.
    pub body: QueueBody,
    /// What of it counts.
    pub mask: UpdateMask,
}

impl QueueUpdate {
    /// Reads a body, and the `update_mask` of the query if there is one.
    pub fn parse(kind: Kind, body: &[u8], mask: Option<&str>) -> Result<QueueUpdate, InputError> {
        let root = Node::optional_root(body)?;
        let body = QueueBody::read(kind, &root)?;
        let mask = match mask {
            Some(text) => UpdateMask::parse(kind, text)?,
            None => UpdateMask::of_body(kind, &root)?,
        };
        Ok(QueueUpdate { body, mask })
    }
}

impl UpdateMask {
    /// Reads `spec`, `spec.FIELD`, `meta.annotations`, `meta.display_name`, `meta.labels`, joined by commas.
    pub fn parse(kind: Kind, text: &str) -> Result<UpdateMask, InputError> {
        let mut mask = UpdateMask::default();
        for (at, path) in text.split(',').enumerate() {
            if at == UPDATE_MASK_PATHS_MAX {
                let expected = format!("at most {UPDATE_MASK_PATHS_MAX} paths");
                return Err(Fault::beyond(UPDATE_MASK_PATHS_MAX, expected).at(FIELD, text));
            }
            let known = mask.name(kind, path.trim());
            known.ok_or_else(|| Fault::new(format!("paths such as {}", paths(kind))).at(FIELD, path))?;
        }
        Ok(mask)
    }

    /// What becomes of this field of `spec`.
    pub fn of(&self, field: &str) -> Naming {
        debug_assert!(SPEC_NAMES.contains(&field), "{field} is no field of spec");
        self.spec.get(field).copied().unwrap_or(Naming::Kept)
    }

    /// Names a path; none if there is no such path.
    fn name(&mut self, kind: Kind, path: &str) -> Option<()> {
        let names = spec_names(kind);
        match path {
            "meta.annotations" => self.annotations = true,
            "meta.display_name" => self.display_name = true,
            "meta.labels" => self.labels = true,
            "spec" => self.spec.extend(names.iter().map(|name| (*name, Naming::Whole))),
            path => {
                let field = path.strip_prefix("spec.")?;
                let name = names.iter().find(|name| **name == field)?;
                self.spec.insert(*name, Naming::Whole);
            }
        }
        Some(())
    }

    /// What a body names. It has been read before, so that every name in it is known.
    fn of_body(kind: Kind, root: &Node<'_, '_>) -> Result<UpdateMask, InputError> {
        let mut mask = UpdateMask::default();
        for (member, node) in root.map(usize::MAX)?.rest() {
            if node.is_null() || !matches!(member, "meta" | "spec") {
                continue;
            }
            for (field, value) in node.map(usize::MAX)?.rest() {
                let setting = spec_names(kind).iter().find(|name| member == "spec" && **name == field);
                match setting {
                    Some(name) => {
                        let naming = if value.is_null() { Naming::Whole } else { Naming::Parts };
                        mask.spec.insert(*name, naming);
                    }
                    // What the server sets, and the etag, are not among the paths.
                    None => drop(mask.name(kind, &format!("{member}.{field}"))),
                }
            }
        }
        Ok(mask)
    }
}

fn paths(kind: Kind) -> String {
    let spec = spec_names(kind).iter().map(|name| format!("spec.{name}"));
    let meta = ["meta.annotations", "meta.display_name", "meta.labels", "spec"].map(str::to_owned);
    meta.into_iter().chain(spec).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;
    use proptest::prelude::*;

    fn update(body: &str, mask: Option<&str>) -> QueueUpdate {
        QueueUpdate::parse(Kind::Queue, body.as_bytes(), mask).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn without_a_mask_the_body_names_what_it_changes() {
        let body = r#"{"name":null,"uid":"u","meta":{"etag":"e","labels":{},"annotations":null},"status":{"paused":true},
            "spec":{"delay":"1s","concurrency_max":null,"backoff":{"initial":"1s"}}}"#;
        let QueueUpdate { mask, .. } = update(body, None);
        assert_eq!((mask.labels, mask.annotations, mask.display_name), (true, true, false));
        assert_eq!(mask.of("delay"), Naming::Parts);
        assert_eq!(mask.of("backoff"), Naming::Parts);
        assert_eq!(mask.of("concurrency_max"), Naming::Whole);
        assert_eq!(mask.of("retention"), Naming::Kept);
        for nothing in ["", "{}", r#"{"spec":{},"meta":{}}"#, r#"{"spec":null,"meta":null,"status":null}"#] {
            assert_eq!(update(nothing, None).mask, UpdateMask::default(), "{nothing}");
        }
    }

    #[test]
    fn a_mask_names_wholes_whatever_the_body_names() {
        let QueueUpdate { mask, body } =
            update(r#"{"spec":{"delay":"1s"}}"#, Some("spec.backoff, meta.display_name"));
        assert_eq!((mask.of("backoff"), mask.of("delay")), (Naming::Whole, Naming::Kept));
        assert!(mask.display_name && !mask.labels && body.spec.delay.is_some());
        let QueueUpdate { mask, .. } = update("", Some("spec,spec.delay,meta.labels,meta.annotations"));
        assert!(SPEC_NAMES.iter().all(|name| mask.of(name) == Naming::Whole));
        assert!(mask.labels && mask.annotations);
    }

    #[test]
    fn paths_that_are_none_are_refused() {
        for text in [
            "",
            "*",
            "meta",
            "meta.etag",
            "spec.",
            "spec.foo",
            "spec.backoff.initial",
            "status",
            "spec,,",
            "Spec",
        ] {
            let error = UpdateMask::parse(Kind::Queue, text).expect_err(text);
            assert_eq!(
                (error.code, error.field.as_deref()),
                (ErrorCode::InvalidField, Some(FIELD)),
                "{text}"
            );
        }
        let most = vec!["spec"; UPDATE_MASK_PATHS_MAX].join(",");
        assert!(UpdateMask::parse(Kind::Queue, &most).is_ok());
        let error = UpdateMask::parse(Kind::Queue, &format!("{most},spec")).expect_err("one too many");
        assert_eq!(error.limit.as_deref(), Some("32"));
    }

    proptest! {
        #[test]
        fn any_mask_is_answered(text in r"(spec|meta|\.|,|labels|delay|backoff| |\*){0,8}", noise in ".{0,40}") {
            let _ = (UpdateMask::parse(Kind::Queue, &text), UpdateMask::parse(Kind::Queue, &noise));
            let _ = QueueUpdate::parse(Kind::Queue, noise.as_bytes(), Some(&text));
        }
    }
}
