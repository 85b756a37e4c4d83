//! Takes in what was written beside the owner: a page of the intake, in its order and as a whole. Nobody waits for an answer, so
//! nothing is refused: what cannot be done is passed over, and a message that cannot be sent is kept as cancelled, with the reason
//! (design-holes A13). Quotas and room in the store concern no message that is committed already.
//!
//! A settlement wins over everything but an ack by the holder, also when its lease is over by now: its key was stored before the owner
//! could claim it (design-holes A5).

use std::sync::Arc;
use std::time::Duration;

use crate::apply::Stop;
use crate::apply::retry::{Ended, take_place};
use crate::apply::send::{Form, check_message, new_row};
use crate::apply::settle::longest_hold;
use crate::change::{Claim, LeaseKey, RowKey};
use crate::command::{CreateQueue, LeaseRef, MessageRef, Start};
use crate::external::{External, ExternalAction, ExternalCommand, ExternalSend, ExternalSettle};
use crate::id::{QueueNumber, Sequence};
use crate::limits;
use crate::outcome::Outcome;
use crate::planted;
use crate::remembered::{Remembered, SentIds};
use crate::row::{DeadLetter, DeadReason, DedupKey, DedupRow, DeliveryState, Role};
use crate::spec::QueueSpec;
use crate::stamp::Stamp;
use crate::state::Core;
use crate::time::Timestamp;

/// A message that was refused can be looked up for so long at least.
const REFUSED_RETENTION_MIN: Duration = Duration::from_secs(24 * 3600);

impl Core {
    pub(super) fn take_external(&mut self, page: &[External], stamp: &Stamp) -> Result<Outcome, Stop> {
        let missing: Vec<_> = self.rows_of_external(page).filter(|key| self.lacks(key)).collect();
        if !missing.is_empty() {
            return Err(Stop::Needs(missing));
        }
        let claims: Vec<_> = page.iter().filter_map(|external| self.claim_for(external, stamp.now)).collect();
        let unknown: Vec<_> = claims.into_iter().filter(|key| !self.claims.knows(*key)).collect();
        if !unknown.is_empty() {
            return Err(Stop::Needs(unknown.into_iter().map(RowKey::Claim).collect()));
        }
        for External { id, command } in page {
            if !planted!(IntakeNotMarked) {
                self.batch.external_taken.push(*id);
            }
            match command {
                ExternalCommand::Send(send) => self.take_send(send, stamp),
                ExternalCommand::Settle(settle) => self.take_settlement(settle, stamp),
                ExternalCommand::Extend { queue, lease, by } => {
                    self.take_extension(queue, lease, *by, stamp.now);
                }
                ExternalCommand::Cancel(wanted) => self.take_cancel(wanted, stamp.now),
                ExternalCommand::AllowSettle { queue } => self.allow_settle(queue, stamp.now),
            }
        }
        Ok(Outcome::Done)
    }

    /// Rows that a page needs, whether memory has them or not; claims come after these.
    pub(super) fn rows_of_external<'a>(&'a self, page: &'a [External]) -> impl Iterator<Item = RowKey> + 'a {
        page.iter().filter_map(|external| match &external.command {
            ExternalCommand::Send(send) => {
                let key = self.dedup_key_of(&send.destination(), send.key.as_deref()?)?;
                Some(RowKey::Dedup(key))
            }
            ExternalCommand::Settle(ExternalSettle { lease, .. }) | ExternalCommand::Extend { lease, .. } => {
                Some(RowKey::Delivery(lease.delivery))
            }
            ExternalCommand::Cancel(wanted) => Some(RowKey::Delivery(wanted.message.sequence)),
            ExternalCommand::AllowSettle { .. } => None,
        })
    }

    /// The claim that a cancellation of a leased message needs.
    fn claim_for(&self, external: &External, now: Timestamp) -> Option<LeaseKey> {
        let ExternalCommand::Cancel(MessageRef { queue, message }) = &external.command else { return None };
        let row = self.shown(self.number_of(queue)?, *message, now)?;
        self.claim_needed(row)
    }

    fn take_send(&mut self, send: &ExternalSend, stamp: &Stamp) {
        let name = send.destination();
        let number = match self.destination_of(send, &name, stamp) {
            Ok(number) => number,
            Err(reason) => return self.keep_refused(send, name, reason, QueueNumber::NONE, stamp),
        };
        if self.is_duplicate(number, send, stamp.now) {
            return self.keep_refused(send, name, DeadReason::Deduplicated, number, stamp);
        }
        let message = send.message;
        let entered = self.draw_sequence();
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let mut row = new_row(&send.content, queue, message.sequence, message.nonce, stamp.now);
        row.sent_at = message.sent_at;
        row.entered = entered;
        row.chunks = u32::from(send.content.content.data.held().len() > self.settings.inline_bytes);
        // Its delay began when it was sent, its life begins now: nobody shall lose what nobody could see.
        let delay = send.content.delay.unwrap_or(queue.row.spec.delay);
        let visible_at = send.visible_at.unwrap_or_else(|| message.sent_at.plus(delay));
        let waits = visible_at > stamp.now && (send.visible_at.is_some() || !delay.is_zero());
        row.due_at = if waits { visible_at } else { stamp.now };
        row.state = if waits { DeliveryState::Delayed } else { DeliveryState::Ready };
        take_place(&mut row, &queue.row.spec);
        queue.note_sent(stamp.now);
        self.batch.messages.push((message.sequence, Arc::clone(&send.content.content), row.chunks));
        self.write_row(row);
        self.remember_external(number, send, stamp.now);
    }

    /// What takes a message; a partition that there is not is made.
    fn destination_of(
        &mut self,
        send: &ExternalSend,
        name: &str,
        stamp: &Stamp,
    ) -> Result<QueueNumber, DeadReason> {
        if send.partition.is_some() && self.number_of(&send.queue).is_some() && self.number_of(name).is_none()
        {
            let create = CreateQueue {
                name: name.into(),
                start: Start::default(),
                spec: QueueSpec::topic(),
                annotations: "{}".into(),
                validate_only: false,
            };
            self.create_queue(&create, stamp).map_err(|_| DeadReason::Refused)?;
        }
        let queue = self.queue_named(name).ok_or(DeadReason::QueueDeleted)?;
        if !matches!(queue.row.role, Role::Queue | Role::Topic | Role::Partition { .. }) {
            return Err(DeadReason::Refused);
        }
        check_message(&send.content, &queue.row, &self.settings, Form::Whole)
            .map_err(|_| DeadReason::Refused)?;
        // As with a delay: nobody would ever see it.
        let life = [queue.row.spec.retention, send.content.time_to_live].into_iter().flatten().min();
        if life.zip(send.visible_at).is_some_and(|(life, visible_at)| visible_at >= stamp.now.plus(life)) {
            return Err(DeadReason::Refused);
        }
        Ok(queue.number())
    }

    fn is_duplicate(&self, number: QueueNumber, send: &ExternalSend, now: Timestamp) -> bool {
        let Some(key) = &send.key else { return false };
        let known = self.dedup.get(&DedupKey { queue: Some(number), key: key.clone() });
        known.and_then(|known| known.row.as_ref()).is_some_and(|row| row.expires_at > now)
    }

    fn remember_external(&mut self, number: QueueNumber, send: &ExternalSend, now: Timestamp) {
        let Some(key) = &send.key else { return };
        let window = self.idempotency_window(number, send.content.time_to_live);
        self.remember(DedupRow {
            key: DedupKey { queue: Some(number), key: key.clone() },
            digest: 0,
            answer: Remembered::Sent(SentIds::of_external(send.message)),
            expires_at: now.plus(window),
        });
    }

    /// A message that nobody will ever get. It is in no queue, so that it counts nowhere, and its sender can look it up.
    fn keep_refused(
        &mut self,
        send: &ExternalSend,
        name: Box<str>,
        reason: DeadReason,
        number: QueueNumber,
        stamp: &Stamp,
    ) {
        let keep = self.queues.get(&number).map(|queue| queue.row.spec.finished_retention);
        let entered = self.draw_sequence();
        let message = send.message;
        let mut row = crate::row::DeliveryRow::refused(message, &send.content, entered);
        row.chunks = u32::from(send.content.content.data.held().len() > self.settings.inline_bytes);
        row.due_at = stamp.now;
        row.order_at = stamp.now;
        row.expires_at = stamp.now.plus(keep.unwrap_or_default().max(REFUSED_RETENTION_MIN));
        row.dead_letter = Some(Box::new(DeadLetter { at: stamp.now, reason, queue: name }));
        self.batch.messages.push((message.sequence, Arc::clone(&send.content.content), row.chunks));
        self.write_row(row);
    }

    fn take_settlement(&mut self, settle: &ExternalSettle, stamp: &Stamp) {
        let LeaseRef { delivery, message, generation } = settle.lease;
        let held = self.rows.live(delivery).is_some_and(|row| {
            row.state == DeliveryState::Leased
                && row.message_id() == message
                && row.lease_generation == generation
                && self.queues.get(&row.queue).is_some_and(|queue| !queue.row.deleted)
        });
        if held {
            match &settle.action {
                ExternalAction::Complete { .. } => self.ack(delivery, stamp.now),
                ExternalAction::Fail { delay, .. } => {
                    let delay = delay.map(|delay| delay.min(limits::DELAY_MAX));
                    self.end_attempt(delivery, Ended::Nacked(delay), stamp);
                }
            }
        }
        self.end_claim(LeaseKey { delivery, generation });
    }

    /// Nobody is there to be told of a limit: the lease then lasts as long as it may.
    fn take_extension(&mut self, queue: &str, lease: &LeaseRef, by: Duration, now: Timestamp) {
        let Some(number) = self.number_of(queue) else { return };
        let Some(row) = self.held(lease, number, now) else { return };
        let by = by.min(longest_hold(row).since(now));
        if (limits::LEASE_MIN..=limits::LEASE_MAX).contains(&by) {
            self.extend(lease.delivery, Some(by), now);
        }
    }

    fn take_cancel(&mut self, wanted: &MessageRef, now: Timestamp) {
        let sequence = wanted.message.sequence;
        let row = self.number_of(&wanted.queue).and_then(|number| self.shown(number, wanted.message, now));
        let Some(row) = row else { return };
        let finished = matches!(row.state, DeliveryState::Completed | DeliveryState::Cancelled);
        let claimed = row.state != DeliveryState::Leased
            || matches!(self.claims.get(LeaseKey::of(row)), None | Some(Claim::Free));
        let Some(queue) = self.queues.get(&row.queue) else { return };
        // Groups may be reading what is in a log.
        if finished || !claimed || queue.row.role.is_log() {
            return;
        }
        let (number, keep) = (row.queue, queue.row.spec.finished_retention);
        let dead_letter =
            DeadLetter { at: now, reason: DeadReason::Cancelled, queue: queue.row.name.clone() };
        let mut row = row.clone();
        if keep.is_zero() {
            self.erase_row(sequence, true);
        } else {
            row.state = DeliveryState::Cancelled;
            row.due_at = now;
            row.expires_at = now.plus(keep);
            row.dead_letter = Some(Box::new(dead_letter));
            self.write_row(row);
        }
        self.batch.stirred.push(number);
    }

    fn allow_settle(&mut self, name: &str, now: Timestamp) {
        let Some(number) = self.number_of(name) else { return };
        let Some(queue) = self.queues.get_mut(&number) else { return };
        if queue.row.settled_by_sql || !matches!(queue.row.role, Role::Queue | Role::Group { .. }) {
            return;
        }
        queue.row.settled_by_sql = true;
        queue.row.revision += 1;
        queue.row.updated_at = now;
        self.touch_queue(number);
    }

    /// A message that was refused when it was taken in, as whoever sent it there looks for it.
    pub(super) fn refused(&self, wanted: &MessageRef, now: Timestamp) -> Option<&crate::row::DeliveryRow> {
        let row = self.rows.live(wanted.message.sequence)?;
        let sent_to = &row.dead_letter.as_ref()?.queue;
        let rest = sent_to.strip_prefix(&*wanted.queue)?;
        let fits = rest.is_empty() || rest.starts_with("/partitions/");
        let found = row.queue == QueueNumber::NONE && row.message_id() == wanted.message;
        (found && fits && row.expires_at > now).then_some(row)
    }
}

impl crate::row::DeliveryRow {
    /// What is kept of a message that no queue takes.
    fn refused(
        message: crate::id::MessageId,
        content: &crate::command::NewMessage,
        entered: Sequence,
    ) -> Self {
        Self {
            sequence: message.sequence,
            message: message.sequence,
            queue: QueueNumber::NONE,
            chunks: 0,
            nonce: message.nonce,
            sent_at: message.sent_at,
            size_bytes: crate::state::Totals::of_content(&content.content).bytes,
            entered,
            state: DeliveryState::Cancelled,
            priority: content.priority,
            retried: false,
            order_at: Timestamp::ZERO,
            due_at: Timestamp::ZERO,
            leased_at: Timestamp::ZERO,
            expires_at: Timestamp::NEVER,
            lease_generation: crate::id::LeaseGeneration::default(),
            hold: crate::row::Hold::Granted,
            delivery_count: 0,
            failure_count: 0,
            lost_lease_count: 0,
            dead_letter: None,
        }
    }
}
