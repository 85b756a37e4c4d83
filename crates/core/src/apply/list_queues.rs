//! Shows queues, topics, or what belongs to a topic, in the order of their ids, a page at a time.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use crate::apply::Stop;
use crate::apply::create_queue::check_range;
use crate::command::Listed;
use crate::id::QueueNumber;
use crate::limits;
use crate::outcome::{Outcome, Rejection};
use crate::row::Role;
use crate::stamp::Stamp;
use crate::state::{Core, QueueState};

impl Core {
    pub(super) fn list_queues(
        &self,
        listed: &Listed,
        after: Option<&str>,
        descending: bool,
        limit: usize,
        stamp: &Stamp,
    ) -> Result<Outcome, Stop> {
        check_range("page_size", limit, 1, limits::LISTED_QUEUES_MAX)?;
        let ids = self.ids_of(listed)?;
        let after = after.map_or(Unbounded, Excluded);
        if descending {
            let behind = ids.range::<str, _>((Unbounded, after)).rev();
            return Ok(self.page_of_queues(behind.map(|(_, number)| *number), limit, stamp));
        }
        let behind = ids.range::<str, _>((after, Unbounded));
        Ok(self.page_of_queues(behind.map(|(_, number)| *number), limit, stamp))
    }

    fn ids_of(&self, listed: &Listed) -> Result<&BTreeMap<Box<str>, QueueNumber>, Rejection> {
        let family = |topic: &str| {
            let number = self.existing(topic)?;
            let known = self.queues.get(&number).filter(|queue| queue.row.role == Role::Topic);
            let log = known.and_then(QueueState::log);
            log.map(|log| &log.family)
                .ok_or_else(|| Rejection::Unsuited { name: topic.into(), wanted: "a topic" })
        };
        match listed {
            Listed::Queues => Ok(&self.names),
            Listed::Topics => Ok(&self.topics),
            Listed::Groups(topic) => Ok(&family(topic)?.groups),
            Listed::Partitions(topic) => Ok(&family(topic)?.partitions),
        }
    }

    fn page_of_queues(
        &self,
        mut behind: impl Iterator<Item = QueueNumber>,
        limit: usize,
        stamp: &Stamp,
    ) -> Outcome {
        let page = behind.by_ref().take(limit);
        let views = page.filter_map(|number| self.view_of(number, stamp)).collect();
        Outcome::Queues { views, more: behind.next().is_some() }
    }
}
