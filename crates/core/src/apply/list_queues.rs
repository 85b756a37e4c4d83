//! Shows queues in the order of their names, a page at a time.

use std::ops::Bound::{Excluded, Unbounded};

use crate::apply::Stop;
use crate::apply::create_queue::check_range;
use crate::id::QueueNumber;
use crate::limits;
use crate::outcome::Outcome;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn list_queues(
        &self,
        after: Option<&str>,
        descending: bool,
        limit: usize,
        stamp: &Stamp,
    ) -> Result<Outcome, Stop> {
        check_range("page_size", limit, 1, limits::LISTED_QUEUES_MAX)?;
        let after = after.map_or(Unbounded, Excluded);
        if descending {
            let behind = self.names.range::<str, _>((Unbounded, after)).rev();
            return Ok(self.page_of_queues(behind.map(|(_, number)| *number), limit, stamp));
        }
        let behind = self.names.range::<str, _>((after, Unbounded));
        Ok(self.page_of_queues(behind.map(|(_, number)| *number), limit, stamp))
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
