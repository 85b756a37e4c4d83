//! From a batch in memory to one [`ChangeSet`], and from a durable commit to what memory may forget.

use std::sync::Arc;

use crate::change::{ChangeSet, DeliveryChange, LeaseKey};
use crate::id::{CommitSequence, QueueNumber};
use crate::outcome::Effect;
use crate::planted;
use crate::row::{DeliveryRow, MessageRow, RunRow};
use crate::state::queue::Part;
use crate::state::rows::{Resident, Rows};
use crate::state::{Batch, Core, WantedScan};

/// Messages that memory keeps at the end of a log: groups that keep up read there, others read pages.
const TAIL_ENTRIES: usize = 1_000;

/// Remembered calls, or their absence, that memory keeps although no commit changed them.
const LOOKED_UP_KEYS_MAX: usize = 4_096;

impl Core {
    /// Ends the batch: what its commands changed, each row once and in its last state, or `None` if they changed
    /// nothing. The rows stay in memory until [`Core::durable`].
    pub fn seal(&mut self) -> Option<ChangeSet> {
        self.cut_windows();
        let effects = std::mem::take(&mut self.batch.effects);
        let scans = std::mem::take(&mut self.batch.scans);
        let claims_wanted = std::mem::take(&mut self.batch.claims_wanted);
        let rest = Batch { effects, scans, claims_wanted, ..Batch::default() };
        let batch = std::mem::replace(&mut self.batch, rest);
        let commit = self.next_commit();
        let mut changes = ChangeSet { commit, ..ChangeSet::default() };
        self.seal_rows(&batch, &mut changes);
        self.seal_queues(batch.queues, &mut changes);
        for key in batch.dedup {
            let Some(resident) = self.dedup.get_mut(&key) else { continue };
            resident.touched = false;
            match &resident.row {
                Some(_) if planted!(DedupRowLost) => {}
                Some(row) => changes.dedup_put.push(row.clone()),
                None => changes.dedup_removed.push(key.clone()),
            }
            self.dedup_unsettled.push_back((commit, key));
        }
        changes.queues_removed = batch.queues_removed;
        changes.chunks = batch.chunks;
        changes.chunks_removed = batch.chunks_removed;
        self.seal_uploads(batch.uploads, &mut changes);
        changes.segments_cleared = batch.logs_cleared;
        changes.runs_removed = batch.runs_removed.into_iter().collect();
        let run = |((cursor, first), last)| RunRow { cursor, first, last };
        changes.runs_put = batch.runs_put.into_iter().map(run).collect();
        changes.copies = batch.copies.into_iter().filter(|copy| self.rows.live(copy.to).is_some()).collect();
        for id in batch.triggers {
            match self.triggers.get(&id) {
                Some(row) => changes.triggers_put.push(row.clone()),
                None => changes.triggers_removed.push(id),
            }
        }
        changes.external_taken = batch.external_taken;
        changes.claims_removed = batch.claims_removed;
        changes.secret = batch.secret_touched.then(|| self.secret.clone());
        self.rows.looked_up.clear();
        self.claims.end_batch();
        // Also without a commit: sweeps and stale settles bring rows that change nothing.
        self.evict_cached();
        self.evict_looked_up();
        if changes.row_count() == 0 && !batch.environment_touched {
            return None;
        }
        changes.environment = self.environment.clone();
        self.sealed = commit;
        #[cfg(feature = "planted-faults")]
        self.finish_moves();
        Some(changes)
    }

    fn seal_rows(&mut self, batch: &Batch, changes: &mut ChangeSet) {
        for (sequence, content, chunks) in &batch.messages {
            if self.rows.live(*sequence).is_some() {
                let content = Arc::clone(content);
                changes.messages.push(MessageRow { sequence: *sequence, content, chunks: *chunks });
            }
        }
        for &sequence in &batch.rows {
            let Some(resident) = self.rows.map.get_mut(&sequence) else { continue };
            resident.touched = false;
            match (&resident.row, resident.stored) {
                (Some(row), false) => {
                    changes.deliveries.push(DeliveryChange::Insert(row.clone()));
                    resident.stored = true;
                }
                (Some(row), true) => changes.deliveries.push(DeliveryChange::Update(row.clone())),
                (None, true) => {
                    changes.deliveries.push(DeliveryChange::Remove(sequence));
                    resident.stored = false;
                }
                // Came and went within the batch: the store never hears of it.
                (None, false) => {}
            }
            self.rows.unsettled.push_back((changes.commit, sequence));
        }
    }

    fn seal_queues(&mut self, touched: Vec<QueueNumber>, changes: &mut ChangeSet) {
        let pace = self.mark_pace();
        changes.low_water.extend(self.sweeps.moved_marks(self.wide_mark_pace()));
        for number in touched {
            let Some(queue) = self.queues.get_mut(&number) else { continue };
            if let Some(seen) = queue.consumer_seen_at {
                queue.counters.consumer_seen_at = seen;
            }
            if std::mem::take(&mut queue.row_touched) {
                changes.queues_put.push(queue.row.clone());
            }
            if std::mem::take(&mut queue.counters_touched) {
                changes.counters.push(queue.counters);
            }
            changes.low_water.extend(queue.moved_marks(pace));
            if let Some(log) = queue.log_mut() {
                let (put, removed) = log.take_touched(number);
                changes.segments_put.extend(put);
                changes.segments_removed.extend(removed);
            }
        }
    }

    /// Cuts the windows of the queues that the batch touched back to their size.
    fn cut_windows(&mut self) {
        let entries = self.settings.window_entries;
        let settled = self.rows.settled;
        for number in &self.batch.queues {
            let Some(queue) = self.queues.get_mut(number) else { continue };
            let mut cut = Vec::new();
            let tail = entries.min(TAIL_ENTRIES);
            if let Part::Log(log) = &mut queue.part
                && log.tail_len() > tail.saturating_mul(2)
            {
                let rows = &self.rows;
                let unsettled = |sequence| {
                    rows.get(sequence).is_some_and(|row: &Resident| row.touched || row.changed_in > settled)
                };
                cut.extend(log.trim(tail, unsettled));
            }
            if queue.ready.len() > entries.saturating_mul(2) {
                cut.extend(queue.ready.trim(entries).into_iter().map(|key| key.sequence));
            }
            for window in [&mut queue.delayed, &mut queue.leased] {
                if window.len() > entries.saturating_mul(2) {
                    cut.extend(window.trim(entries).into_iter().map(|key| key.sequence));
                }
            }
            for sequence in cut {
                let Some(resident) = self.rows.map.get(&sequence) else { continue };
                let Some(row) = &resident.row else { continue };
                if resident.touched || resident.changed_in > settled {
                    queue.keep_aside(row);
                } else if Rows::worth_caching(row) {
                    self.rows.cache(sequence);
                } else if !resident.cached {
                    self.rows.forget(sequence);
                }
            }
        }
    }

    /// What the engine has to do once the batch is durable.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.batch.effects)
    }

    /// Pages that memory asks for; each is to be answered by [`Core::absorb`].
    pub fn take_scans(&mut self) -> Vec<WantedScan> {
        std::mem::take(&mut self.batch.scans)
    }

    /// Claims on leases that ran out; the answers are to be absorbed as rows.
    pub fn take_claims(&mut self) -> Vec<LeaseKey> {
        std::mem::take(&mut self.batch.claims_wanted)
    }

    /// Everything up to `settled` is durable, and no read is under way that might not see it: rows changed up to
    /// there may leave memory.
    pub fn durable(&mut self, settled: CommitSequence) {
        if settled <= self.rows.settled {
            return;
        }
        self.rows.settled = settled;
        while let Some(&(commit, sequence)) = self.rows.unsettled.front() {
            if commit > settled {
                break;
            }
            self.rows.unsettled.pop_front();
            let Some(resident) = self.rows.map.get(&sequence) else { continue };
            if resident.touched || resident.changed_in > settled {
                continue;
            }
            let Some(row) = &resident.row else {
                self.rows.forget(sequence);
                continue;
            };
            if let Some(queue) = self.queues.get_mut(&row.queue) {
                if queue.holds(row) {
                    continue;
                }
                queue.forget_aside(row);
            }
            if Rows::worth_caching(row) {
                self.rows.cache(sequence);
            } else if !resident.cached {
                self.rows.forget(sequence);
            }
        }
        self.sweeps.settle(settled);
        self.settle_dedup(settled);
        self.settle_uploads(settled);
        self.evict_cached();
    }

    /// Keeps the cache of rows within its bound.
    fn evict_cached(&mut self) {
        if self.rows.cached_len() > self.settings.cached_rows {
            let queues = &self.queues;
            let held = |row: &DeliveryRow| queues.get(&row.queue).is_some_and(|queue| queue.holds(row));
            self.rows.evict(self.settings.cached_rows, held);
        }
    }

    /// Lets go of keys that were only looked up, the oldest first: in an environment where nothing is committed nothing else
    /// does.
    fn evict_looked_up(&mut self) {
        while self.dedup_unsettled.len() > LOOKED_UP_KEYS_MAX
            && let Some((_, key)) = self.dedup_unsettled.front()
            && self.dedup.get(key).is_none_or(super::ResidentDedup::is_clean)
        {
            self.dedup.remove(key);
            self.dedup_unsettled.pop_front();
        }
    }

    fn settle_dedup(&mut self, settled: CommitSequence) {
        while let Some((commit, key)) = self.dedup_unsettled.front() {
            if *commit > settled {
                break;
            }
            let stays =
                self.dedup.get(key).is_some_and(|resident| resident.touched || resident.changed_in > settled);
            if !stays {
                self.dedup.remove(key);
            }
            self.dedup_unsettled.pop_front();
        }
    }

    /// A remembered call is written or forgotten.
    pub(crate) fn touch_dedup(&mut self, key: crate::row::DedupKey, row: Option<crate::row::DedupRow>) {
        let changed_in = self.next_commit();
        if row.is_none() {
            self.sweeps.note_dedup_left(self.wide_mark_pace());
        }
        let resident = self.dedup.entry(key.clone()).or_insert_with(|| super::ResidentDedup {
            row: None,
            changed_in,
            touched: false,
        });
        resident.row = row;
        resident.changed_in = changed_in;
        if !resident.touched {
            resident.touched = true;
            self.batch.dedup.push(key);
        }
    }

    /// A remembered call that a read brought, or its absence; kept until the next commit is durable.
    pub(crate) fn admit_dedup(&mut self, key: crate::row::DedupKey, row: Option<crate::row::DedupRow>) {
        if self.dedup.contains_key(&key) {
            return;
        }
        let next = self.next_commit();
        self.dedup_unsettled.push_back((next, key.clone()));
        self.dedup
            .insert(key, super::ResidentDedup { row, changed_in: CommitSequence::default(), touched: false });
    }
}
