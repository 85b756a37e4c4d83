//! Puts messages into a queue, all or none. Checks in order: queue, room in the store, number of messages, each message,
//! idempotency key, key seen before, number of keys, the environment's quotas.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::apply::Stop;
use crate::apply::create_queue::check_duration;
use crate::apply::idempotency::check_key;
use crate::apply::retry::take_place;
use crate::change::RowKey;
use crate::command::{NewMessage, Send};
use crate::id::{LeaseGeneration, QueueNumber, Sequence};
use crate::limits::{self, CoreSettings};
use crate::outcome::{Outcome, Rejection, Sent, show_duration};
use crate::remembered::{Remembered, SentIds};
use crate::row::{Data, DedupKey, DedupRow, DeliveryRow, DeliveryState, Hold, QueueRow, Role};
use crate::stamp::{Stamp, mix, nonce};
use crate::state::{Core, QueueState, Totals};
use crate::time::Timestamp;
use std::time::Duration;

/// A send that passed its checks.
pub(super) enum SendPlan<'a> {
    /// The same key was sent before.
    Repeated(Sent),
    /// It has to be done.
    Fresh { queue: QueueNumber, send: &'a Send },
}

/// How the data of a message comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Chunk by chunk from now on; how much it is may not be known.
    Announced,
    /// Chunk by chunk, all of it before now.
    Uploaded,
    /// With the command.
    Whole,
}

impl Core {
    pub(super) fn send(&mut self, send: &Send, stamp: &Stamp) -> Result<Outcome, Stop> {
        let plan = self.plan_send(send, Form::Whole, stamp)?;
        self.check_quotas(std::slice::from_ref(&plan), Totals::default())?;
        Ok(Outcome::Sent(self.carry_out_send(plan, stamp)))
    }

    /// Whether the environment may hold what these sends bring. `freed` leaves in the same commit.
    pub(super) fn check_quotas(&self, plans: &[SendPlan<'_>], freed: Totals) -> Result<(), Rejection> {
        let mut held = self.totals;
        held.remove(freed);
        let mut more = Totals::default();
        let mut keys = BTreeSet::new();
        for plan in plans {
            let SendPlan::Fresh { queue, send } = plan else { continue };
            // The second send of one key in a settle is answered like the first.
            if send.idempotency.as_ref().is_some_and(|own| !keys.insert((*queue, &own.key))) {
                continue;
            }
            send.messages.iter().for_each(|message| more.add(Totals::of_content(&message.content)));
        }
        self.check_room(held, more)
    }

    /// Whether the environment may hold so much more than what it holds.
    pub(super) fn check_room(&self, held: Totals, more: Totals) -> Result<(), Rejection> {
        let exceeds = |held: u64, more: u64, limit: u64| more > 0 && held.saturating_add(more) > limit;
        let CoreSettings { messages, bytes, .. } = self.settings;
        if exceeds(held.messages, more.messages, messages) {
            let (held, more) = (held.messages, more.messages);
            return Err(Rejection::MessageLimit { held, more, limit: messages });
        }
        if exceeds(held.bytes, more.bytes, bytes) {
            return Err(Rejection::ByteLimit { held: held.bytes, more: more.bytes, limit: bytes });
        }
        Ok(())
    }

    pub(super) fn dedup_key(&self, send: &Send) -> Option<DedupKey> {
        self.dedup_key_of(&send.queue, &send.idempotency.as_ref()?.key)
    }

    pub(super) fn dedup_key_of(&self, queue: &str, key: &str) -> Option<DedupKey> {
        let queue = self.number_of(queue)?;
        Some(DedupKey { queue: Some(queue), key: key.into() })
    }

    /// The remembered send that memory would have to know.
    pub(super) fn missing_for_send(&self, send: &Send) -> Option<RowKey> {
        let key = self.dedup_key(send)?;
        (!self.dedup.contains_key(&key)).then_some(RowKey::Dedup(key))
    }

    /// Checks a send; changes nothing.
    pub(super) fn plan_send<'a>(
        &self,
        send: &'a Send,
        form: Form,
        stamp: &Stamp,
    ) -> Result<SendPlan<'a>, Stop> {
        let queue = self.destination(&send.queue)?;
        if self.space_low {
            return Err(Rejection::StorageFull.into());
        }
        let count = send.messages.len();
        let most = if form == Form::Whole { limits::SEND_MESSAGES_MAX } else { 1 };
        if count == 0 || count > most {
            let limit = format!("1 to {most}");
            return Err(Rejection::out_of_range("events", count, limit).into());
        }
        for message in &send.messages {
            check_message(message, &queue.row, &self.settings, form)?;
        }
        if let Some(repeated) = self.find_repeated(send, stamp)? {
            return Ok(SendPlan::Repeated(repeated));
        }
        Ok(SendPlan::Fresh { queue: queue.number(), send })
    }

    /// What a name names, if it can be sent to.
    pub(super) fn destination(&self, name: &str) -> Result<&QueueState, Rejection> {
        let queue = self.queue_named(name);
        let queue = queue.ok_or_else(|| Rejection::QueueNotFound { name: name.into() })?;
        match queue.row.role {
            Role::Queue | Role::Topic | Role::Partition { .. } => Ok(queue),
            Role::Group { .. } | Role::Cursor { .. } => {
                Err(Rejection::Unsuited { name: name.into(), wanted: "a queue, a topic or a partition" })
            }
        }
    }

    fn find_repeated(&self, send: &Send, stamp: &Stamp) -> Result<Option<Sent>, Stop> {
        let Some(idempotency) = &send.idempotency else { return Ok(None) };
        check_key(&idempotency.key)?;
        let Some(key) = self.dedup_key(send) else { return Ok(None) };
        let Some(row) = self.remembered(&key, idempotency.digest, stamp)? else { return Ok(None) };
        let Remembered::Sent(sent) = &row.answer else { return Ok(None) };
        Ok(Some(Sent { ids: sent.ids(), repeated: true }))
    }

    /// Does what was planned. Cannot fail.
    pub(super) fn carry_out_send(&mut self, plan: SendPlan<'_>, stamp: &Stamp) -> Sent {
        let (number, send) = match plan {
            SendPlan::Repeated(sent) => return sent,
            SendPlan::Fresh { queue, send } => (queue, send),
        };
        // Two sends of one settle may carry the same key.
        if let Ok(Some(repeated)) = self.find_repeated(send, stamp) {
            return repeated;
        }
        let first = self.environment.next_sequence;
        let seed = mix(stamp.entropy ^ first.0);
        let mut ids = Vec::with_capacity(send.messages.len());
        for message in &send.messages {
            let sequence = self.draw_sequence();
            let Some(queue) = self.queues.get_mut(&number) else { continue };
            let mut row = new_row(message, queue, sequence, nonce(seed, sequence.0), stamp.now);
            row.chunks = u32::from(message.content.data.held().len() > self.settings.inline_bytes);
            queue.note_sent(stamp.now);
            ids.push(row.message_id());
            self.batch.messages.push((sequence, Arc::clone(&message.content), row.chunks));
            self.write_row(row);
        }
        self.remember_send(number, send, first, seed, stamp.now);
        Sent { ids, repeated: false }
    }

    pub(super) fn remember_send(
        &mut self,
        number: QueueNumber,
        send: &Send,
        first: Sequence,
        seed: u64,
        now: Timestamp,
    ) {
        let Some(idempotency) = &send.idempotency else { return };
        let own = send.messages.iter().filter_map(|message| message.time_to_live).min();
        let window = self.idempotency_window(number, own);
        let sent = SentIds {
            sent_at: now,
            first_sequence: first,
            count: u32::try_from(send.messages.len()).unwrap_or(u32::MAX),
            nonce_seed: seed,
        };
        self.remember(DedupRow {
            key: DedupKey { queue: Some(number), key: idempotency.key.clone() },
            digest: idempotency.digest,
            answer: Remembered::Sent(sent),
            expires_at: now.plus(window),
        });
    }

    /// How long a send is remembered whose messages live so long, if they say so.
    pub(super) fn idempotency_window(&self, number: QueueNumber, own: Option<Duration>) -> Duration {
        let queue = self.queues.get(&number);
        let retention = queue.and_then(|queue| queue.row.spec.retention);
        // On a topic each message may have a retention of its own.
        let own = own.filter(|_| queue.is_some_and(|queue| queue.row.role.is_log()));
        let shortest = [retention, own, Some(limits::IDEMPOTENCY_WINDOW_MAX)];
        shortest.into_iter().flatten().min().unwrap_or(limits::IDEMPOTENCY_WINDOW_MAX)
    }
}

pub(super) fn check_message(
    message: &NewMessage,
    queue: &QueueRow,
    settings: &CoreSettings,
    form: Form,
) -> Result<(), Rejection> {
    let (spec, is_log) = (&queue.spec, queue.role.is_log());
    if is_log && message.priority != 0 {
        return Err(Rejection::out_of_range("priority", message.priority, "0: a topic has no priorities"));
    }
    let attributes = message.content.attributes.len();
    if attributes > limits::ATTRIBUTES_BYTES_MAX {
        let limit = format!("{} bytes", limits::ATTRIBUTES_BYTES_MAX);
        return Err(Rejection::out_of_range("attributes", format!("{attributes} bytes"), limit));
    }
    check_data(&message.content.data, settings, form)?;
    if let Some(delay) = message.delay {
        check_duration("delay", delay, Duration::ZERO, limits::DELAY_MAX)?;
    }
    if let Some(life) = message.time_to_live {
        check_duration("ttl", life, limits::LEASE_MIN, limits::RETENTION_MAX)?;
    }
    let delay = message.delay.unwrap_or(spec.delay);
    let life = [spec.retention, message.time_to_live].into_iter().flatten().min();
    // A topic takes a message that nobody will ever see, as the clients that it serves expect.
    if let Some(life) = life
        && (delay > life || delay == life && !is_log)
        && !delay.is_zero()
    {
        let limit = format!("below {}, how long the message lives", show_duration(life));
        return Err(Rejection::out_of_range("delay", show_duration(delay), limit));
    }
    Ok(())
}

/// What fits into one chunk is sent whole, so that data in many chunks is always more than a reader gets at once.
fn check_data(data: &Data, settings: &CoreSettings, form: Form) -> Result<(), Rejection> {
    let chunk = u64::try_from(settings.chunk_bytes).unwrap_or(u64::MAX);
    let bytes = data.size_bytes();
    let fits = match (data, form) {
        (Data::Whole(_), Form::Whole) => bytes <= chunk,
        (Data::Chunked { .. }, Form::Announced) if bytes == 0 => true,
        (Data::Chunked { .. }, Form::Announced | Form::Uploaded) => {
            (chunk + 1..=limits::DATA_BYTES_MAX).contains(&bytes)
        }
        (Data::Whole(_), Form::Announced | Form::Uploaded) | (Data::Chunked { .. }, Form::Whole) => false,
    };
    if fits {
        return Ok(());
    }
    let limit = match form {
        Form::Whole => format!("{chunk} bytes, given whole"),
        Form::Announced | Form::Uploaded => {
            format!("{} to {} bytes in chunks", chunk + 1, limits::DATA_BYTES_MAX)
        }
    };
    Err(Rejection::out_of_range("data", format!("{bytes} bytes"), limit))
}

pub(super) fn new_row(
    message: &NewMessage,
    queue: &QueueState,
    sequence: Sequence,
    nonce: u64,
    now: Timestamp,
) -> DeliveryRow {
    let spec = &queue.row.spec;
    let delay = message.delay.unwrap_or(spec.delay);
    let visible_at = now.plus(delay);
    let life = [spec.retention, message.time_to_live].into_iter().flatten().min();
    let mut row = DeliveryRow {
        sequence,
        message: sequence,
        queue: queue.number(),
        chunks: 0,
        nonce,
        sent_at: now,
        size_bytes: Totals::of_content(&message.content).bytes,
        entered: sequence,
        state: if delay.is_zero() { DeliveryState::Ready } else { DeliveryState::Delayed },
        priority: message.priority,
        retried: false,
        order_at: now,
        due_at: visible_at,
        leased_at: Timestamp::ZERO,
        expires_at: life.map_or(Timestamp::NEVER, |life| now.plus(life)),
        lease_generation: LeaseGeneration::default(),
        hold: Hold::Granted,
        delivery_count: 0,
        failure_count: 0,
        lost_lease_count: 0,
        dead_letter: None,
    };
    take_place(&mut row, spec);
    row
}
