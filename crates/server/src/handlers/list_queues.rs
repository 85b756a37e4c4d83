//! Listing queues, topics, groups and partitions, a page at a time.
//!
//! The core knows names and their order; labels are text to it, so a filter is applied here, over as many of the core's
//! pages as one call may look at.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use millpond_api::name::Kind;
use millpond_api::queue::{LIST_PARAMETERS, ListQueuesRequest, Queue, render_queues};
use millpond_core::command::Listed;
use millpond_core::limits::LISTED_QUEUES_MAX;
use millpond_core::outcome::QueueView;
use millpond_core::{Command, Outcome};

use super::{json, unexpected};
use crate::app::App;
use crate::convert::queue;
use crate::error::ApiError;
use crate::extract::{Place, Query};

/// Pages of the core that one call looks at. A filter that takes few of many queues gets short pages.
const PAGES_LOOKED_AT_MAX: usize = 5;

pub(crate) async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let query = Query::of(request.uri(), LIST_PARAMETERS)?;
    let place = Place::of(&app, request.uri().path())?;
    let (listed, parent) = match place.kind {
        Kind::Queue => (Listed::Queues, None),
        Kind::Topic => (Listed::Topics, None),
        Kind::Group => (Listed::Groups(place.topic()?), Some(place.topic()?)),
        Kind::Partition => (Listed::Partitions(place.topic()?), Some(place.topic()?)),
    };
    let environment = &place.environment.text;
    let parent = parent.map_or_else(|| environment.clone(), |topic| format!("{environment}/{topic}"));
    let list = ListQueuesRequest::parse(place.kind, &parent, |name| query.text(name))?;
    let mut page = Page { queues: Vec::new(), after: list.after.clone(), more: true };
    for _ in 0..PAGES_LOOKED_AT_MAX {
        page.extend(&app, &place, &listed, &list).await?;
        if !page.more || page.wants(&list) == 0 {
            break;
        }
    }
    let token = page.after.filter(|_| page.more).map(|id| list.token_after(&id)).unwrap_or_default();
    Ok(json(render_queues(place.kind, &page.queues, &token)))
}

/// A page in the making.
struct Page {
    queues: Vec<Queue>,
    /// The last queue that was looked at.
    after: Option<String>,
    /// Others lie behind it.
    more: bool,
}

impl Page {
    /// How many queues it still lacks.
    fn wants(&self, list: &ListQueuesRequest) -> usize {
        usize::try_from(list.page_size).unwrap_or(usize::MAX).saturating_sub(self.queues.len())
    }

    /// Looks at one page of the core's.
    async fn extend(
        &mut self,
        app: &App,
        place: &Place<'_>,
        listed: &Listed,
        list: &ListQueuesRequest,
    ) -> Result<(), ApiError> {
        let limit = if list.filter.is_empty() { self.wants(list) } else { LISTED_QUEUES_MAX };
        let after = self.after.as_deref().map(Into::into);
        let command =
            Command::ListQueues { listed: listed.clone(), after, descending: list.descending, limit };
        let (views, more) = match app.submit(&place.environment, command).await?.outcome {
            Outcome::Queues { views, more } => (views, more),
            other => return Err(unexpected(&other)),
        };
        let mut rest = views.iter();
        for view in rest.by_ref() {
            self.take(view, place, list)?;
            if self.wants(list) == 0 {
                break;
            }
        }
        self.more = more || rest.next().is_some();
        Ok(())
    }

    fn take(
        &mut self,
        view: &QueueView,
        place: &Place<'_>,
        list: &ListQueuesRequest,
    ) -> Result<(), ApiError> {
        let queue = queue::from_view(view, place.name_of(&view.queue.name)?);
        self.after = Some(queue.name.id().to_owned());
        if list.filter.takes(&queue.name, &queue.meta.labels, view.queue.paused_at.is_some()) {
            self.queues.push(queue);
        }
        Ok(())
    }
}
