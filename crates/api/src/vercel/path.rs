//! Paths: what stands before `/api/v3/topic/` is the deployment's own and says at most which region is meant; each segment
//! behind it is percent-encoded by itself, so that a slash inside of one does not part it.

use crate::event::binary::percent_decode;
use crate::input_error::{Fault, InputError};
use crate::limits::VERCEL_NAME_BYTES_MAX;

/// What parts a path's prefix from what it names.
const MARK: &str = "/api/v3/topic/";

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Send many messages.
    Batch,
    /// Acknowledge or change a lease.
    Lease,
    /// Take messages.
    Receive,
    /// Take the message of this id.
    ReceiveById,
    /// Send one message.
    Send,
    /// Change a lease; another spelling.
    Visibility,
}

impl Endpoint {
    /// Methods that it takes, as they stand in `Allow`.
    pub fn allow(self) -> &'static str {
        match self {
            Endpoint::Batch | Endpoint::Receive | Endpoint::ReceiveById | Endpoint::Send => "POST",
            Endpoint::Lease => "DELETE, PATCH",
            Endpoint::Visibility => "PATCH",
        }
    }
}

/// A path in its parts, none of them decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'p> {
    /// What stands before, without its last slash.
    prefix: &'p str,
    /// What is asked for; `None`: there is no such thing.
    pub endpoint: Option<Endpoint>,
    topic: &'p str,
    group: &'p str,
    id: &'p str,
}

/// What a path names, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The topic's name.
    pub topic: String,
    /// The consumer group's name; empty where there is none.
    pub group: String,
    /// A message id or a receipt handle, whatever it may be; empty where there is none.
    pub id: String,
}

impl<'p> Place<'p> {
    /// A path of this wire; `None`: of another.
    pub fn of(path: &'p str) -> Option<Self> {
        let (prefix, rest) = path.split_once(MARK)?;
        let mut segments = [""; 7];
        let mut count = 0;
        for segment in rest.split('/') {
            if let Some(slot) = segments.get_mut(count) {
                *slot = segment;
            }
            count += 1;
        }
        let place = |endpoint, group, id| Place { prefix, endpoint, topic: segments[0], group, id };
        let [_, first, group, kind, id, last, _] = segments;
        Some(match (count, first, kind, last) {
            (1, ..) => place(Some(Endpoint::Send), "", ""),
            (2, "batch", ..) => place(Some(Endpoint::Batch), "", ""),
            (3, "consumer", ..) => place(Some(Endpoint::Receive), group, ""),
            (5, "consumer", "id", _) => place(Some(Endpoint::ReceiveById), group, id),
            (5, "consumer", "lease", _) => place(Some(Endpoint::Lease), group, id),
            (6, "consumer", "lease", "visibility") => place(Some(Endpoint::Visibility), group, id),
            _ => place(None, "", ""),
        })
    }

    /// The region that the prefix names: its last two segments are `r` and the region.
    pub fn region(&self) -> Option<&'p str> {
        let (before, region) = self.prefix.rsplit_once('/')?;
        before.ends_with("/r").then_some(region)
    }

    /// What the path names.
    pub fn names(&self) -> Result<Names, InputError> {
        let topic = decoded("topic", self.topic)?;
        check_name("topic", &topic)?;
        let group = decoded("consumer", self.group)?;
        if !matches!(self.endpoint, None | Some(Endpoint::Batch | Endpoint::Send)) {
            check_name("consumer", &group)?;
        }
        Ok(Names { topic, group, id: decoded("id", self.id)? })
    }
}

/// A segment, its percent-encoding undone.
pub(super) fn decoded(field: &str, segment: &str) -> Result<String, InputError> {
    String::from_utf8(percent_decode(segment.as_bytes()))
        .map_err(|_| Fault::new("percent-encoded utf-8").at(field, segment))
}

/// Whether something can be the name of a topic, a consumer group or a deployment.
pub(super) fn check_name(field: &str, name: &str) -> Result<(), InputError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=VERCEL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal) {
        return Ok(());
    }
    let expected = format!("1 to {VERCEL_NAME_BYTES_MAX} letters, digits, - and _");
    Err(Fault::beyond(VERCEL_NAME_BYTES_MAX, expected).at(field, name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endpoint(path: &str) -> Option<Endpoint> {
        Place::of(path).expect("it is of this wire").endpoint
    }

    #[test]
    fn a_path_has_its_endpoint_whatever_stands_before_it() {
        for prefix in ["", "/r/iad1", "/_svc/_queues", "/v1/queues", "//"] {
            for (rest, expected) in [
                ("t", Some(Endpoint::Send)),
                ("batch", Some(Endpoint::Send)),
                ("t/batch", Some(Endpoint::Batch)),
                ("t/consumer/g", Some(Endpoint::Receive)),
                ("t/consumer/g/id/m", Some(Endpoint::ReceiveById)),
                ("t/consumer/g/lease/h", Some(Endpoint::Lease)),
                ("t/consumer/g/lease/h/visibility", Some(Endpoint::Visibility)),
                ("", Some(Endpoint::Send)),
                ("t/", None),
                ("t/batch/", None),
                ("t/consumer", None),
                ("t/consumers/g", None),
                ("t/consumer/g/id", None),
                ("t/consumer/g/id/m/x", None),
                ("t/consumer/g/ids/m", None),
                ("t/consumer/g/lease/h/x", None),
                ("t/consumer/g/lease/h/visibility/x", None),
                ("t/consumer/g/lease/h/visibility/x/y", None),
                ("t/x/g/lease/h", None),
            ] {
                assert_eq!(endpoint(&format!("{prefix}/api/v3/topic/{rest}")), expected, "{prefix} {rest}");
            }
        }
        for path in ["/", "/api/v3/topic", "/api/v3/topics/t", "/api/v2/topic/t", "/api%2Fv3/topic/t"] {
            assert_eq!(Place::of(path), None, "{path}");
        }
        assert_eq!(endpoint("/api/v3/topic/api/batch"), Some(Endpoint::Batch));
    }

    #[test]
    fn segments_are_decoded_after_they_were_parted() {
        let names = |path: &str| Place::of(path).expect("it is of this wire").names();
        let found = names("/api/v3/topic/my%2Dtopic/consumer/g%5f/lease/a%2Fb%21").expect("names");
        assert_eq!((&*found.topic, &*found.group, &*found.id), ("my-topic", "g_", "a/b!"));
        let long = "t".repeat(VERCEL_NAME_BYTES_MAX);
        assert!(names(&format!("/api/v3/topic/{long}")).is_ok());
        for (path, field) in [
            ("/api/v3/topic/", "topic"),
            (&format!("/api/v3/topic/{long}t"), "topic"),
            ("/api/v3/topic/a.b", "topic"),
            ("/api/v3/topic/a%2Fb/batch", "topic"),
            ("/api/v3/topic/t/consumer/", "consumer"),
            ("/api/v3/topic/t/consumer/g%20", "consumer"),
            ("/api/v3/topic/%ff", "topic"),
            ("/api/v3/topic/t/consumer/g/id/%ff", "id"),
        ] {
            let error = names(path).expect_err(path);
            assert_eq!(error.field.as_deref(), Some(field), "{path}");
        }
    }

    #[test]
    fn a_region_is_the_last_of_the_prefix_behind_an_r() {
        for (path, region) in [
            ("/r/iad1/api/v3/topic/t", Some("iad1")),
            ("/x/r/fra1/api/v3/topic/t", Some("fra1")),
            ("/r//api/v3/topic/t", Some("")),
            ("/iad1/api/v3/topic/t", None),
            ("/r/iad1/x/api/v3/topic/t", None),
            ("/bar/iad1/api/v3/topic/t", None),
            ("r/iad1/api/v3/topic/t", None),
            ("/api/v3/topic/t", None),
        ] {
            assert_eq!(Place::of(path).expect("it is of this wire").region(), region, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_told_apart_without_fail(prefix in "[/ra-z%]{0,12}", rest in "[/a-z%0-9]{0,60}") {
            let path = format!("{prefix}/api/v3/topic/{rest}");
            let place = Place::of(&path).expect("it is of this wire");
            let _ = (place.region(), place.names());
        }
    }
}
