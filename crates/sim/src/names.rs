//! Names: of queues, of topics, and of what belongs to topics.

/// What a name can stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Queue,
    Topic,
    Group,
    Partition,
}

/// What a name stands for, if it stands for something.
pub(crate) fn kind_of(name: &str) -> Kind {
    match name.split('/').nth(2) {
        Some("groups") => Kind::Group,
        Some(_) => Kind::Partition,
        None if name.contains('/') => Kind::Topic,
        None => Kind::Queue,
    }
}

/// The name of the topic to which a group or a partition belongs.
pub(crate) fn topic_of(name: &str) -> Option<&str> {
    let end = name.match_indices('/').nth(1)?.0;
    name.get(..end)
}

/// The last part of a name.
pub(crate) fn id_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The name of a partition.
pub(crate) fn partition(topic: &str, id: &str) -> Box<str> {
    format!("{topic}/partitions/{id}").into()
}
