//! Looks at the queues, a page at a time.

use millpond_core::command::Listed;
use millpond_core::limits::LISTED_QUEUES_MAX;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};
use crate::names::{Kind, id_of, kind_of, topic_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let listed = match scene.random.below(10) {
        0..5 => Listed::Queues,
        5..7 => Listed::Topics,
        7..9 => Listed::Groups(scene.topic_to_list()),
        _ => Listed::Partitions(scene.topic_to_list()),
    };
    // By id, not by name.
    let after = if scene.random.chance(600) { Some(id_of(&scene.anything()).into()) } else { None };
    let limit = match scene.random.below(20) {
        0 => 0,
        1 => LISTED_QUEUES_MAX + 1,
        2 => LISTED_QUEUES_MAX,
        _ => scene.random.size(1, 6),
    };
    Command::ListQueues { listed, after, descending: scene.random.chance(300), limit }
}

/// What was asked for.
pub(super) struct Page<'a> {
    pub(super) listed: &'a Listed,
    pub(super) after: Option<&'a str>,
    pub(super) descending: bool,
    pub(super) limit: usize,
}

impl Page<'_> {
    /// The topic whose parts are listed.
    fn topic(&self) -> Option<&str> {
        match self.listed {
            Listed::Groups(topic) | Listed::Partitions(topic) => Some(topic),
            Listed::Queues | Listed::Topics => None,
        }
    }

    fn kind(&self) -> Kind {
        match self.listed {
            Listed::Groups(_) => Kind::Group,
            Listed::Partitions(_) => Kind::Partition,
            Listed::Queues => Kind::Queue,
            Listed::Topics => Kind::Topic,
        }
    }
}

pub(super) fn predict(auditor: &mut Auditor, page: &Page<'_>, answered: &Answered<'_>) -> Verdict {
    let &Page { after, descending, limit, .. } = page;
    let topic = page.topic();
    let known = topic.is_none_or(|topic| auditor.queue(topic).is_some());
    let valid = (1..=LISTED_QUEUES_MAX).contains(&limit);
    match answered.outcome {
        Outcome::Queues { views, more } => {
            demand!(topic.is_none_or(|topic| kind_of(topic) == Kind::Topic), "{:?} was given", page.listed);
            demand!(valid && known, "a list of {limit} of {:?} was given", page.listed);
            let alike = |name: &str| kind_of(name) == page.kind() && topic_of(name) == topic;
            let mut known: Vec<_> = auditor.names.keys().filter(|name| alike(name)).cloned().collect();
            if descending {
                known.reverse();
            }
            known.retain(|name| {
                let id = id_of(name);
                after.is_none_or(|after| if descending { *id < *after } else { *id > *after })
            });
            demand!(
                *more == (known.len() > limit),
                "{} of {} queues, more: {more}",
                views.len(),
                known.len()
            );
            known.truncate(limit);
            let names: Vec<_> = views.iter().map(|view| view.queue.name.clone()).collect();
            demand!(names == known, "listed {names:?}, known {known:?}");
            views.iter().try_for_each(|view| auditor.shown(&view.queue))
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!valid, "{field} of a list of {limit} queues was refused");
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueNotFound { name }) => {
            demand!(topic == Some(&**name) && !known, "{name} was not found");
            Ok(())
        }
        Outcome::Rejected(Rejection::Unsuited { name, .. }) => {
            demand!(topic == Some(&**name) && kind_of(name) != Kind::Topic, "{name} is called no topic");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
