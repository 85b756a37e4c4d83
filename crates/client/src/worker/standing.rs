//! How what a worker takes from is going, queue or group.

use std::time::Duration;

use crate::client::Client;
use crate::error::{Error, ErrorCode};
use crate::request::NewGroup;
use crate::source::{GroupReader, Source};
use crate::topic::Group;

/// What a worker asks about.
pub(super) struct Standing {
    pub(super) visibility_timeout: Option<Duration>,
    /// Messages that are still to be done.
    pub(super) unfinished_count: u64,
    pub(super) paused: bool,
}

impl Standing {
    pub(super) async fn of(client: &Client, source: &Source) -> Result<Self, Error> {
        match source {
            Source::Queue(queue) => {
                let queue = client.get_queue(queue).await?;
                Ok(Self {
                    visibility_timeout: queue.spec.visibility_timeout,
                    unfinished_count: queue.status.unfinished_count(),
                    paused: queue.status.paused,
                })
            }
            Source::Group(reader) => {
                let group = group_of(client, reader).await?;
                Ok(Self {
                    visibility_timeout: group.spec.visibility_timeout,
                    unfinished_count: group.status.unfinished_count(),
                    paused: group.status.paused,
                })
            }
        }
    }
}

/// The group, made if it is not there: so its timeout is known before its first lease.
async fn group_of(client: &Client, reader: &GroupReader) -> Result<Group, Error> {
    let GroupReader { topic, group, start, .. } = reader;
    match client.get_group(topic, group).await {
        Err(error) if error.code() == Some(&ErrorCode::GroupNotFound) => {}
        answer => return answer,
    }
    match client.create_group(topic, &NewGroup::named(group), *start).await {
        Err(error) if error.code() == Some(&ErrorCode::GroupAlreadyExists) => {
            client.get_group(topic, group).await
        }
        answer => answer,
    }
}
