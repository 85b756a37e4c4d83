//! Every bound on input, by name.
//!
//! A bound that is broken refuses the whole call and stores nothing; only sizes of pages are clamped, because a client
//! that asks for more gets all of it on further pages. Relations between bounds are asserted at compile time below.

use std::time::Duration;

/// Bytes of one annotation's value.
pub const ANNOTATION_VALUE_BYTES_MAX: usize = 4_096;
/// Entries in `meta.annotations`.
pub const ANNOTATIONS_MAX: usize = 64;
/// Bytes of one attribute's name. CloudEvents advises 20; some extensions in use are longer.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 64;
/// Bytes of one attribute's value, other than `id`.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 4_096;
/// Multiplier of the backoff, in thousandths.
pub const BACKOFF_FACTOR_THOUSANDTHS_MAX: u32 = 100_000;
/// Bounds of the random factor of the backoff, in thousandths.
pub const BACKOFF_JITTER_THOUSANDTHS_MAX: u32 = 10_000;
/// Longest wait that a backoff may compute.
pub const BACKOFF_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Bytes of a body sent in binary mode.
pub const BINARY_BODY_BYTES_MAX: usize = 100 << 20;
/// Bytes of a JSON call.
pub const CALL_BYTES_MAX: usize = 1 << 20;
/// Messages of one queue leased at once, as set by `concurrency_max`.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// Dead letters on one page.
pub const DEAD_LETTERS_PAGE_MAX: u32 = 100;
/// Delay of a send or a nack, and a queue's default delay.
pub const DELAY_MAX: Duration = Duration::from_secs(12 * 3_600);
/// Bytes of the id of a deployment: those of its triggers are longer by a hyphen and a number.
pub const DEPLOYMENT_ID_BYTES_MAX: usize = 250;
/// Bytes of `meta.display_name`.
pub const DISPLAY_NAME_BYTES_MAX: usize = 128;
/// Bytes of an event's `id`.
pub const EVENT_ID_BYTES_MAX: usize = 1_024;
/// Bytes of one event in a JSON form, counted as sent, spaces and escapes included.
pub const EVENT_JSON_BYTES_MAX: usize = 256 << 10;
/// Events in one call; in a settle call those of all its sends.
pub const EVENTS_PER_CALL_MAX: usize = 100;
/// Extension attributes of one event.
pub const EXTENSIONS_MAX: usize = 64;
/// Bytes of a list's `filter`.
pub const FILTER_BYTES_MAX: usize = 1_024;
/// Terms of a list's `filter`.
pub const FILTER_TERMS_MAX: usize = 16;
/// How long finished messages are kept.
pub const FINISHED_RETENTION_MAX: Duration = Duration::from_secs(14 * 86_400);
/// Bytes of an id inside a resource name.
pub const ID_BYTES_MAX: usize = 63;
/// Levels of arrays and objects in the JSON data of an event. Parsers stop at their own depths; a lease answer adds four
/// levels to this one.
pub const JSON_DEPTH_MAX: usize = 60;
/// Bytes of a label's or an annotation's key.
pub const LABEL_KEY_BYTES_MAX: usize = 63;
/// Bytes of a label's value.
pub const LABEL_VALUE_BYTES_MAX: usize = 63;
/// Entries in `meta.labels`.
pub const LABELS_MAX: usize = 64;
/// Messages of one queue that may be leased at once, as set by `leased_max`.
pub const LEASED_MAX: u32 = 1_000_000;
/// Bytes of contents in one lease answer, if it holds more than one message: what does not fit stays in the queue. Data of more
/// than 256 KiB is not in the answer, it is named by `data_url`.
pub const LEASE_ANSWER_BYTES_MAX: usize = 8 << 20;
/// Messages in one lease call.
pub const LEASE_MESSAGES_MAX: u32 = 100;
/// Leases in one ack, nack or extend call, and in one settle call together.
pub const LEASES_PER_CALL_MAX: usize = 100;
/// Lost leases in a row that a queue may tolerate.
pub const LOST_IN_A_ROW_MAX: u32 = 100;
/// Deliveries of one message.
pub const MAX_DELIVERIES_MAX: u32 = 100;
/// Bytes of a message id.
pub const MESSAGE_ID_BYTES_MAX: usize = 128;
/// Messages that one replay or redrive names.
pub const MESSAGE_IDS_PER_CALL_MAX: usize = 100;
/// Entries on a page of a list unless the call says.
pub const PAGE_SIZE_DEFAULT: u32 = 50;
/// Bytes of a page token.
pub const PAGE_TOKEN_BYTES_MAX: usize = 512;
/// Messages of one peek unless the call says.
pub const PEEK_MESSAGES_DEFAULT: u32 = 10;
/// Messages of one peek.
pub const PEEK_MESSAGES_MAX: u32 = 100;
/// Pushes of one trigger that are remembered one by one.
pub const PUSHES_KEPT_MAX: usize = 100;
/// Queues on one page.
pub const QUEUES_PAGE_MAX: u32 = 1_000;
/// Shortest retention of a queue.
pub const RETENTION_MIN: Duration = Duration::from_secs(60);
/// Longest retention of a queue.
pub const RETENTION_MAX: Duration = Duration::from_secs(14 * 86_400);
/// How long a secret goes on signing once it is replaced, unless the call says.
pub const SECRET_GRACE_DEFAULT: Duration = Duration::from_secs(86_400);
/// How long it does at most.
pub const SECRET_GRACE_MAX: Duration = Duration::from_secs(30 * 86_400);
/// Characters of an offending value that an error repeats.
pub const SHOWN_VALUE_CHARS_MAX: usize = 100;
/// Bytes of a trigger's target.
pub const TARGET_BYTES_MAX: usize = 2_048;
/// Bytes of the id of a topic, a group, a partition or a trigger.
pub const TOPIC_ID_BYTES_MAX: usize = 255;
/// Deliveries of one message, as set by a trigger.
pub const TRIGGER_DELIVERIES_MAX: u32 = 1_000_000;
/// Shortest wait of a message whose push failed.
pub const TRIGGER_RETRY_AFTER_MIN: Duration = Duration::from_millis(1);
/// Longest wait of such a message, and longest initial delay of a trigger.
pub const TRIGGER_WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Triggers of an environment, and so of a deployment.
pub const TRIGGERS_MAX: usize = 1_000;
/// Shortest time to live of a message.
pub const TTL_MIN: Duration = Duration::from_secs(1);
/// Longest time to live of a message.
pub const TTL_MAX: Duration = RETENTION_MAX;
/// Paths in one `update_mask`.
pub const UPDATE_MASK_PATHS_MAX: usize = 32;
/// Bytes of the body of a batch that is sent over Vercel's wire.
pub const VERCEL_BATCH_BYTES_MAX: usize = 8 << 20;
/// Messages of such a batch.
pub const VERCEL_BATCH_MESSAGES_MAX: usize = 100;
/// Bytes of a key of the runtime cache.
pub const VERCEL_CACHE_KEY_BYTES_MAX: usize = 1_024;
/// Bytes of a tag of the runtime cache.
pub const VERCEL_CACHE_TAG_BYTES_MAX: usize = 256;
/// Tags of one value of the runtime cache, and of one call that removes by tags.
pub const VERCEL_CACHE_TAGS_MAX: usize = 128;
/// Longest time to live of a value of the runtime cache; one without any lives until it has to go.
pub const VERCEL_CACHE_TTL_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Shortest time to live of such a value.
pub const VERCEL_CACHE_TTL_MIN: Duration = Duration::from_secs(1);
/// Bytes of a value of the runtime cache.
pub const VERCEL_CACHE_VALUE_BYTES_MAX: usize = 2 << 20;
/// Longest delay over Vercel's wire.
pub const VERCEL_DELAY_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Characters of an idempotency key over Vercel's wire.
pub const VERCEL_KEY_CHARS_MAX: usize = 256;
/// Bytes of the name of a topic, a consumer group or a deployment over Vercel's wire.
pub const VERCEL_NAME_BYTES_MAX: usize = 255;
/// Bytes of the headers of one part of a batch.
pub const VERCEL_PART_HEADER_BYTES_MAX: usize = 64 << 10;
/// Headers of one part of a batch.
pub const VERCEL_PART_HEADERS_MAX: usize = 64;
/// Messages of one receive.
pub const VERCEL_RECEIVE_MESSAGES_MAX: u32 = 10;
/// Bytes of contents in the answer to a receive, if it holds more than one message: what does not fit stays.
pub const VERCEL_RECEIVE_BYTES_MAX: u64 = 8 << 20;
/// How long a message lives that was sent over Vercel's wire, unless told.
pub const VERCEL_RETENTION_DEFAULT: Duration = Duration::from_secs(86_400);
/// Longest life of a message that is sent over Vercel's wire.
pub const VERCEL_RETENTION_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Shortest life of such a message.
pub const VERCEL_RETENTION_MIN: Duration = Duration::from_secs(60);
/// Bytes of the body that changes a lease over Vercel's wire.
pub const VERCEL_VISIBILITY_BODY_BYTES_MAX: usize = 64 << 10;
/// Lease of a receive over Vercel's wire, unless told.
pub const VERCEL_VISIBILITY_DEFAULT: Duration = Duration::from_secs(60);
/// Longest lease over Vercel's wire.
pub const VERCEL_VISIBILITY_MAX: Duration = Duration::from_secs(3_600);
/// Shortest visibility timeout.
pub const VISIBILITY_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Longest visibility timeout.
pub const VISIBILITY_TIMEOUT_MAX: Duration = Duration::from_secs(12 * 3_600);
/// Longest wait of a lease call for messages, and longest time that it fills up a batch.
pub const WAIT_MAX: Duration = Duration::from_secs(20);

const _: () = {
    assert!(EVENT_JSON_BYTES_MAX >= 64 << 10, "CloudEvents asks intermediaries to carry 64 KiB");
    assert!(EVENT_JSON_BYTES_MAX < CALL_BYTES_MAX);
    assert!(CALL_BYTES_MAX < BINARY_BODY_BYTES_MAX);
    assert!(EXTENSIONS_MAX * ATTRIBUTE_VALUE_BYTES_MAX <= EVENT_JSON_BYTES_MAX);
    assert!(EVENT_ID_BYTES_MAX <= ATTRIBUTE_VALUE_BYTES_MAX);
    assert!(
        LEASE_MESSAGES_MAX as usize <= LEASES_PER_CALL_MAX,
        "what one lease call takes, one ack call ends"
    );
    assert!(PAGE_SIZE_DEFAULT <= DEAD_LETTERS_PAGE_MAX && DEAD_LETTERS_PAGE_MAX <= QUEUES_PAGE_MAX);
    assert!(PEEK_MESSAGES_DEFAULT <= PEEK_MESSAGES_MAX);
    assert!(ID_BYTES_MAX <= TOPIC_ID_BYTES_MAX);
    assert!(TOPIC_ID_BYTES_MAX * 3 / 2 < PAGE_TOKEN_BYTES_MAX, "a token holds an id");
    assert!(TRIGGERS_MAX < 10_000 && DEPLOYMENT_ID_BYTES_MAX + "-9999".len() == TOPIC_ID_BYTES_MAX);
    assert!(SECRET_GRACE_DEFAULT.as_secs() <= SECRET_GRACE_MAX.as_secs());
    assert!(DELAY_MAX.as_secs() < RETENTION_MAX.as_secs());
    assert!(VISIBILITY_TIMEOUT_MAX.as_secs() < RETENTION_MAX.as_secs());
    assert!(VERCEL_BATCH_MESSAGES_MAX <= EVENTS_PER_CALL_MAX);
    assert!(VERCEL_RETENTION_MAX.as_secs() <= RETENTION_MAX.as_secs());
    assert!(VERCEL_VISIBILITY_MAX.as_secs() <= VISIBILITY_TIMEOUT_MAX.as_secs());
};
