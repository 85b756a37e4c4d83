//! Rows as lines. Codes and texts within are those that stores persist (`millpond_store::persisted`); bytes are base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millpond_core::id::{LeaseGeneration, LogNumber, QueueNumber, Sequence, Uid};
use millpond_core::remembered::{Remembered, SentIds};
use millpond_core::row::{
    ChunkRow, CountersRow, Data, DeadLetter, DedupKey, DedupRow, DeliveryRow, MessageContent, MessageRow,
    QueueRow, RunRow, SecretRow, SegmentRow, TriggerRow, UploadRow,
};
use millpond_core::time::Timestamp;
use millpond_store::StoredRow;
use millpond_store::persisted::{
    LIVE_BYTES, answer_from_text, answer_to_text, data_kind_code, data_kind_of, dead_reason_code,
    dead_reason_of, hold_code, hold_of, live_from_bytes, live_to_bytes, queue_spec_from_text,
    queue_spec_to_text, role_columns, role_of, state_code, state_of, trigger_spec_from_text,
    trigger_spec_to_text,
};
use serde::{Deserialize, Serialize};

/// A row.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowLine {
    Queue(Box<QueueLine>),
    Segment(SegmentLine),
    Run(RunLine),
    Trigger(Box<TriggerLine>),
    Secret(SecretLine),
    Dedup(Box<DedupLine>),
    Chunk(ChunkLine),
    Upload(UploadLine),
    Delivery(Box<DeliveryLine>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueLine {
    number: u32,
    role: (i64, Option<u32>, Option<u32>, Option<i64>),
    name: Box<str>,
    uid: String,
    generation: u64,
    revision: u64,
    created_at_ms: i64,
    updated_at_ms: i64,
    annotations: Box<str>,
    spec: String,
    paused_at_ms: Option<i64>,
    purged_through: u64,
    dead_purged_through: u64,
    deleted: bool,
    sweep_owed: bool,
    #[serde(default)]
    settled_by_sql: bool,
    counters: Option<CountersLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountersLine {
    ready: u64,
    delayed: u64,
    leased: u64,
    dead: u64,
    completed: u64,
    cancelled: u64,
    waiting_bytes: u64,
    leased_bytes: u64,
    dead_bytes: u64,
    finished_bytes: u64,
    total_sent: u64,
    total_delivered: u64,
    total_undone: u64,
    total_acked: u64,
    total_dead: u64,
    total_expired: u64,
    consumer_seen_at_ms: i64,
    position: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentLine {
    log: u32,
    index: u64,
    live: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunLine {
    cursor: u32,
    first: u64,
    last: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerLine {
    id: Box<str>,
    number: u64,
    uid: String,
    created_at_ms: i64,
    deployment: Option<Box<str>>,
    topic: Box<str>,
    group: Box<str>,
    target: Box<str>,
    spec: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretLine {
    current: Box<str>,
    previous: Option<(Box<str>, i64)>,
    since_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DedupLine {
    queue: Option<u32>,
    key: Box<str>,
    digest: String,
    sent: Option<SentLine>,
    answer: Option<String>,
    expires_at_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SentLine {
    sent_at_ms: i64,
    first_sequence: u64,
    count: u32,
    nonce_seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChunkLine {
    sequence: u64,
    number: u32,
    data: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UploadLine {
    sequence: u64,
    chunks: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeliveryLine {
    sequence: u64,
    message: u64,
    queue: u32,
    chunks: u32,
    nonce: u64,
    sent_at_ms: i64,
    size_bytes: u64,
    entered: u64,
    state: i64,
    priority: i32,
    retried: bool,
    order_at_ms: i64,
    due_at_ms: i64,
    leased_at_ms: i64,
    expires_at_ms: i64,
    lease_generation: u64,
    hold: i64,
    delivery_count: u32,
    failure_count: u32,
    lost_lease_count: u32,
    dead_letter: Option<DeadLetterLine>,
    content: Option<ContentLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterLine {
    at_ms: i64,
    reason: i64,
    queue: Box<str>,
}

/// What was sent: with its data, or with the length of what is in chunks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContentLine {
    attributes: Box<str>,
    data_kind: i64,
    data: Option<String>,
    data_bytes: u64,
    chunks: u32,
}

impl From<StoredRow> for RowLine {
    fn from(row: StoredRow) -> Self {
        match row {
            StoredRow::Queue(row, counters) => Self::Queue(Box::new(queue_line(*row, counters.as_deref()))),
            StoredRow::Segment(row) => Self::Segment(SegmentLine {
                log: row.log.0,
                index: row.index,
                live: STANDARD.encode(live_to_bytes(&row.live)),
            }),
            StoredRow::Run(row) => {
                Self::Run(RunLine { cursor: row.cursor.0, first: row.first.0, last: row.last.0 })
            }
            StoredRow::Trigger(row) => Self::Trigger(Box::new(trigger_line(*row))),
            StoredRow::Secret(row) => Self::Secret(SecretLine {
                current: row.current,
                previous: row.previous.map(|(secret, until)| (secret, until.as_millis())),
                since_ms: row.since.as_millis(),
            }),
            StoredRow::Dedup(row) => Self::Dedup(Box::new(dedup_line(*row))),
            StoredRow::Chunk(row) => Self::Chunk(ChunkLine {
                sequence: row.sequence.0,
                number: row.number,
                data: STANDARD.encode(&row.data),
            }),
            StoredRow::Upload(row) => {
                Self::Upload(UploadLine { sequence: row.sequence.0, chunks: row.chunks })
            }
            StoredRow::Delivery(row, message) => {
                Self::Delivery(Box::new(delivery_line(*row, message.as_ref())))
            }
        }
    }
}

impl RowLine {
    /// The row; the error names the field that no version of this program can have written.
    pub(crate) fn row(self) -> Result<StoredRow, &'static str> {
        Ok(match self {
            Self::Queue(line) => {
                let (row, counters) = queue(*line)?;
                StoredRow::Queue(Box::new(row), counters.map(Box::new))
            }
            Self::Segment(line) => StoredRow::Segment(Box::new(SegmentRow {
                log: QueueNumber(line.log),
                index: line.index,
                live: live(&line.live).ok_or("live")?,
            })),
            Self::Run(line) => StoredRow::Run(RunRow {
                cursor: QueueNumber(line.cursor),
                first: LogNumber(line.first),
                last: LogNumber(line.last),
            }),
            Self::Trigger(line) => StoredRow::Trigger(Box::new(trigger(*line)?)),
            Self::Secret(line) => StoredRow::Secret(SecretRow {
                current: line.current,
                previous: line.previous.map(|(secret, until)| (secret, Timestamp::from_millis(until))),
                since: Timestamp::from_millis(line.since_ms),
            }),
            Self::Dedup(line) => StoredRow::Dedup(Box::new(dedup(*line)?)),
            Self::Chunk(line) => StoredRow::Chunk(ChunkRow {
                sequence: Sequence(line.sequence),
                number: line.number,
                data: STANDARD.decode(&line.data).map_err(|_| "data")?.into(),
            }),
            Self::Upload(line) => {
                StoredRow::Upload(UploadRow { sequence: Sequence(line.sequence), chunks: line.chunks })
            }
            Self::Delivery(line) => {
                let (row, message) = delivery(*line)?;
                StoredRow::Delivery(Box::new(row), message)
            }
        })
    }
}

fn queue_line(row: QueueRow, counters: Option<&CountersRow>) -> QueueLine {
    QueueLine {
        number: row.number.0,
        role: role_columns(row.role),
        name: row.name,
        uid: hex(row.uid.0),
        generation: row.generation,
        revision: row.revision,
        created_at_ms: row.created_at.as_millis(),
        updated_at_ms: row.updated_at.as_millis(),
        annotations: row.annotations,
        spec: queue_spec_to_text(&row.spec),
        paused_at_ms: row.paused_at.map(Timestamp::as_millis),
        purged_through: row.purged_through.0,
        dead_purged_through: row.dead_purged_through.0,
        deleted: row.deleted,
        sweep_owed: row.sweep_owed,
        settled_by_sql: row.settled_by_sql,
        counters: counters.map(counters_line),
    }
}

fn queue(line: QueueLine) -> Result<(QueueRow, Option<CountersRow>), &'static str> {
    let number = QueueNumber(line.number);
    let row = QueueRow {
        number,
        role: role_of(line.role).ok_or("role")?,
        name: line.name,
        uid: Uid(unhex(&line.uid).ok_or("uid")?),
        generation: line.generation,
        revision: line.revision,
        created_at: Timestamp::from_millis(line.created_at_ms),
        updated_at: Timestamp::from_millis(line.updated_at_ms),
        annotations: line.annotations,
        spec: queue_spec_from_text(&line.spec).ok_or("spec")?,
        paused_at: line.paused_at_ms.map(Timestamp::from_millis),
        purged_through: Sequence(line.purged_through),
        dead_purged_through: Sequence(line.dead_purged_through),
        deleted: line.deleted,
        sweep_owed: line.sweep_owed,
        settled_by_sql: line.settled_by_sql,
    };
    Ok((row, line.counters.map(|line| counters(number, &line))))
}

fn counters_line(row: &CountersRow) -> CountersLine {
    CountersLine {
        ready: row.ready,
        delayed: row.delayed,
        leased: row.leased,
        dead: row.dead,
        completed: row.completed,
        cancelled: row.cancelled,
        waiting_bytes: row.waiting_bytes,
        leased_bytes: row.leased_bytes,
        dead_bytes: row.dead_bytes,
        finished_bytes: row.finished_bytes,
        total_sent: row.total_sent,
        total_delivered: row.total_delivered,
        total_undone: row.total_undone,
        total_acked: row.total_acked,
        total_dead: row.total_dead,
        total_expired: row.total_expired,
        consumer_seen_at_ms: row.consumer_seen_at.as_millis(),
        position: row.position.0,
    }
}

fn counters(queue: QueueNumber, line: &CountersLine) -> CountersRow {
    CountersRow {
        queue,
        ready: line.ready,
        delayed: line.delayed,
        leased: line.leased,
        dead: line.dead,
        completed: line.completed,
        cancelled: line.cancelled,
        waiting_bytes: line.waiting_bytes,
        leased_bytes: line.leased_bytes,
        dead_bytes: line.dead_bytes,
        finished_bytes: line.finished_bytes,
        total_sent: line.total_sent,
        total_delivered: line.total_delivered,
        total_undone: line.total_undone,
        total_acked: line.total_acked,
        total_dead: line.total_dead,
        total_expired: line.total_expired,
        consumer_seen_at: Timestamp::from_millis(line.consumer_seen_at_ms),
        position: LogNumber(line.position),
    }
}

fn trigger_line(row: TriggerRow) -> TriggerLine {
    TriggerLine {
        id: row.id,
        number: row.number,
        uid: hex(row.uid.0),
        created_at_ms: row.created_at.as_millis(),
        deployment: row.deployment,
        topic: row.topic,
        group: row.group,
        target: row.target,
        spec: trigger_spec_to_text(&row.spec),
    }
}

fn trigger(line: TriggerLine) -> Result<TriggerRow, &'static str> {
    Ok(TriggerRow {
        id: line.id,
        number: line.number,
        uid: Uid(unhex(&line.uid).ok_or("uid")?),
        created_at: Timestamp::from_millis(line.created_at_ms),
        deployment: line.deployment,
        topic: line.topic,
        group: line.group,
        target: line.target,
        spec: trigger_spec_from_text(&line.spec).ok_or("spec")?,
    })
}

fn dedup_line(row: DedupRow) -> DedupLine {
    let sent = match &row.answer {
        Remembered::Sent(sent) => Some(SentLine {
            sent_at_ms: sent.sent_at.as_millis(),
            first_sequence: sent.first_sequence.0,
            count: sent.count,
            nonce_seed: sent.nonce_seed,
        }),
        _ => None,
    };
    DedupLine {
        queue: row.key.queue.map(|queue| queue.0),
        digest: hex(row.digest),
        sent,
        answer: answer_to_text(&row.answer),
        expires_at_ms: row.expires_at.as_millis(),
        key: row.key.key,
    }
}

fn dedup(line: DedupLine) -> Result<DedupRow, &'static str> {
    let answer = match (line.sent, line.answer) {
        (Some(sent), None) => Remembered::Sent(SentIds {
            sent_at: Timestamp::from_millis(sent.sent_at_ms),
            first_sequence: Sequence(sent.first_sequence),
            count: sent.count,
            nonce_seed: sent.nonce_seed,
        }),
        (None, Some(text)) => answer_from_text(&text).ok_or("answer")?,
        _ => return Err("answer"),
    };
    Ok(DedupRow {
        key: DedupKey { queue: line.queue.map(QueueNumber), key: line.key },
        digest: unhex(&line.digest).ok_or("digest")?,
        answer,
        expires_at: Timestamp::from_millis(line.expires_at_ms),
    })
}

fn delivery_line(row: DeliveryRow, message: Option<&MessageRow>) -> DeliveryLine {
    DeliveryLine {
        sequence: row.sequence.0,
        message: row.message.0,
        queue: row.queue.0,
        chunks: row.chunks,
        nonce: row.nonce,
        sent_at_ms: row.sent_at.as_millis(),
        size_bytes: row.size_bytes,
        entered: row.entered.0,
        state: state_code(row.state),
        priority: row.priority,
        retried: row.retried,
        order_at_ms: row.order_at.as_millis(),
        due_at_ms: row.due_at.as_millis(),
        leased_at_ms: row.leased_at.as_millis(),
        expires_at_ms: row.expires_at.as_millis(),
        lease_generation: row.lease_generation.0,
        hold: hold_code(row.hold),
        delivery_count: row.delivery_count,
        failure_count: row.failure_count,
        lost_lease_count: row.lost_lease_count,
        dead_letter: row.dead_letter.map(|dead| DeadLetterLine {
            at_ms: dead.at.as_millis(),
            reason: dead_reason_code(dead.reason),
            queue: dead.queue,
        }),
        content: message.map(content_line),
    }
}

fn content_line(message: &MessageRow) -> ContentLine {
    let content = &message.content;
    let data = match &content.data {
        Data::Whole(data) => Some(STANDARD.encode(data)),
        Data::Chunked { .. } => None,
    };
    ContentLine {
        attributes: content.attributes.clone(),
        data_kind: data_kind_code(content.data_kind),
        data,
        data_bytes: content.data.size_bytes(),
        chunks: message.chunks,
    }
}

fn delivery(line: DeliveryLine) -> Result<(DeliveryRow, Option<MessageRow>), &'static str> {
    let sequence = Sequence(line.sequence);
    let dead_letter = match line.dead_letter {
        None => None,
        Some(dead) => Some(Box::new(DeadLetter {
            at: Timestamp::from_millis(dead.at_ms),
            reason: dead_reason_of(dead.reason).ok_or("reason")?,
            queue: dead.queue,
        })),
    };
    let message = line.content.map(|line| content(sequence, line)).transpose()?;
    let row = DeliveryRow {
        sequence,
        message: Sequence(line.message),
        queue: QueueNumber(line.queue),
        chunks: line.chunks,
        nonce: line.nonce,
        sent_at: Timestamp::from_millis(line.sent_at_ms),
        size_bytes: line.size_bytes,
        entered: Sequence(line.entered),
        state: state_of(line.state).ok_or("state")?,
        priority: line.priority,
        retried: line.retried,
        order_at: Timestamp::from_millis(line.order_at_ms),
        due_at: Timestamp::from_millis(line.due_at_ms),
        leased_at: Timestamp::from_millis(line.leased_at_ms),
        expires_at: Timestamp::from_millis(line.expires_at_ms),
        lease_generation: LeaseGeneration(line.lease_generation),
        hold: hold_of(line.hold).ok_or("hold")?,
        delivery_count: line.delivery_count,
        failure_count: line.failure_count,
        lost_lease_count: line.lost_lease_count,
        dead_letter,
    };
    Ok((row, message))
}

fn content(sequence: Sequence, line: ContentLine) -> Result<MessageRow, &'static str> {
    let data = match line.data {
        Some(data) => Data::Whole(STANDARD.decode(data).map_err(|_| "data")?.into()),
        None => Data::Chunked { bytes: line.data_bytes },
    };
    let data_kind = data_kind_of(line.data_kind).ok_or("data_kind")?;
    let content = MessageContent { attributes: line.attributes, data_kind, data };
    Ok(MessageRow { sequence, content: content.into(), chunks: line.chunks })
}

fn live(text: &str) -> Option<[u64; SegmentRow::WORDS]> {
    let bytes: [u8; LIVE_BYTES] = STANDARD.decode(text).ok()?.try_into().ok()?;
    Some(live_from_bytes(&bytes))
}

fn hex(number: u128) -> String {
    format!("{number:032x}")
}

fn unhex(text: &str) -> Option<u128> {
    (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok())?
}
