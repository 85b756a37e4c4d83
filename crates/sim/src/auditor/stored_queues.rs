//! Queues, topics and what belongs to topics, against what is stored of them.

use millpond_core::id::{QueueNumber, Sequence};
use millpond_core::row::{QueueRow, Role};
use millpond_core::time::Timestamp;
use millpond_store::MemoryDump;

use crate::auditor::doubt::Doubt;
use crate::auditor::{Auditor, QueueModel, Verdict, demand};
use crate::names::{Kind, kind_of};

/// A queue's row as it counts: a partition has the policies of its topic.
fn with_policies(row: &QueueRow, dump: &MemoryDump) -> QueueRow {
    let mut row = row.clone();
    if let Role::Partition { topic } = row.role
        && let Some(topic) = dump.queues.iter().find(|other| other.number == topic)
    {
        row.spec = topic.spec.clone();
    }
    row
}

impl Auditor {
    pub(super) fn compare_queues(&mut self, dump: &MemoryDump, doubt: &Doubt<'_>, index: u64) -> Verdict {
        let names: Vec<_> = self.names.iter().map(|(name, number)| (name.clone(), *number)).collect();
        for (name, number) in names {
            let row = dump.queues.iter().find(|row| row.number == number && !row.deleted);
            if let Some(row) = row {
                self.compare_queue(&with_policies(row, dump), doubt, index)?;
                continue;
            }
            let unused = self.unused_go && matches!(kind_of(&name), Kind::Group | Kind::Partition);
            let unused = unused && !self.is_fed(&name);
            demand!(doubt.is_about_name(&name) || unused, "queue {name} is not stored any more");
            // It may have been changed before it was deleted.
            if let Some(queue) = self.queues.get_mut(&number) {
                doubt.updates_of(&name).for_each(|update| queue.may_have_had(&update.spec, index));
            }
            self.deleted(&name, index);
        }
        let named = || dump.queues.iter().filter(|row| !row.role.is_cursor());
        for row in named().filter(|row| !row.deleted && !self.names.contains_key(&row.name)) {
            let known = doubt.is_about_name(&row.name) || doubt.may_be_made(&row.name);
            demand!(known, "queue {} is stored and was never made", row.name);
        }
        let new = named().filter(|row| !self.queues.contains_key(&row.number));
        for row in new.collect::<Vec<_>>() {
            self.queues.insert(row.number, QueueModel::new(&with_policies(row, dump), index));
            self.name_changes.insert(row.name.clone(), index);
            if row.deleted {
                self.queues.entry(row.number).and_modify(|queue| queue.alive = false);
            } else {
                self.names.insert(row.name.clone(), row.number);
            }
        }
        Ok(())
    }

    fn compare_queue(&mut self, row: &QueueRow, doubt: &Doubt<'_>, index: u64) -> Verdict {
        let (name, number) = (&row.name, row.number);
        let doubtful = doubt.is_about_name(name);
        let Some(queue) = self.queues.get_mut(&number) else { return Ok(()) };
        let paused = row.paused_at.is_some();
        demand!(doubtful || queue.paused == paused, "queue {name} is stored with paused: {paused}");
        demand!(
            row.purged_through >= queue.purged_through,
            "a purge of {name} is not stored: {} below {}",
            row.purged_through,
            queue.purged_through
        );
        demand!(
            row.dead_purged_through >= queue.dead_purged_through,
            "a purge of dead letters of {name} is not stored: {} below {}",
            row.dead_purged_through,
            queue.dead_purged_through
        );
        queue.paused = paused;
        let mut updates = doubt.updates_of(name).peekable();
        demand!(
            updates.peek().is_some() || (queue.spec == row.spec && queue.annotations == row.annotations),
            "queue {name} is stored with policies that it was not given"
        );
        for update in updates {
            queue.may_have_had(&update.spec, index);
        }
        queue.take_over(row, index);
        if row.dead_purged_through > queue.dead_purged_through {
            queue.dead_purged_through = row.dead_purged_through;
            if doubtful {
                queue.dead_emptied = index;
            }
        }
        if row.purged_through > queue.purged_through {
            queue.purged_through = row.purged_through;
            if doubtful {
                queue.emptied = index;
                self.purged_unseen(number, row.purged_through);
            }
        }
        Ok(())
    }

    fn purged_unseen(&mut self, number: QueueNumber, through: Sequence) {
        for message in self.messages.values_mut() {
            if message.queue == number && !message.moved && message.id.sequence <= through {
                message.purged.get_or_insert(Timestamp::NEVER);
            }
        }
    }
}
