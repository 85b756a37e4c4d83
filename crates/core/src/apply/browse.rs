//! Looks at a page of a queue's messages in one state (`state/browsing.rs`). Checks in order: queue, number, times, place.

use crate::apply::Stop;
use crate::command::{Browse, Cursor};
use crate::limits;
use crate::outcome::{Outcome, Rejection};
use crate::row::DeliveryState;
use crate::state::{Browsing, Core};

impl Core {
    pub(super) fn browse(&mut self, browse: &Browse) -> Result<Outcome, Stop> {
        let number = self.existing(&browse.queue)?;
        if self.queues.get(&number).is_some_and(|queue| queue.group().is_some()) {
            return Err(
                Rejection::Unsuited { name: browse.queue.clone(), wanted: "a queue or a topic" }.into()
            );
        }
        check_browse(browse)?;
        self.read_on(browse.waiter, Browsing::new(number, browse.clone()), browse.limit);
        Ok(Outcome::Waiting)
    }
}

fn check_browse(browse: &Browse) -> Result<(), Rejection> {
    if browse.limit == 0 || browse.limit > limits::BROWSE_MESSAGES_MAX {
        let limit = format!("1 to {}", limits::BROWSE_MESSAGES_MAX);
        return Err(Rejection::out_of_range("max_messages", browse.limit, limit));
    }
    let is_ready = browse.state == DeliveryState::Ready;
    for (field, time) in [("start_time", browse.from), ("end_time", browse.until)] {
        if let Some(time) = time.filter(|_| is_ready) {
            let limit = "none: ready messages are not ordered by time";
            return Err(Rejection::out_of_range(field, time.as_millis(), limit));
        }
    }
    if let (Some(from), Some(until)) = (browse.from, browse.until)
        && from >= until
    {
        return Err(Rejection::out_of_range("start_time", from.as_millis(), "before end_time"));
    }
    let fits = match browse.after {
        None => true,
        Some(Cursor::Ready(_)) => is_ready,
        Some(Cursor::Due(_)) => !is_ready,
    };
    if fits {
        return Ok(());
    }
    let limit = format!("a place among messages that are {:?}", browse.state).to_lowercase();
    Err(Rejection::out_of_range("page_token", "a place in another order", limit))
}
