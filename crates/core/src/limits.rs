//! Every bound that the core enforces, by name; relations between them are checked when it is compiled.

use std::time::Duration;

/// Longest lease, and longest total hold of a lease that is extended.
pub const LEASE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Shortest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// Most messages that one lease call grants.
pub const LEASE_MESSAGES_MAX: u32 = 100;
/// Longest wait of a lease call on an empty queue, and of an upload for its turn.
pub const WAIT_MAX: Duration = Duration::from_secs(20);
/// Default bound on leases held at once per queue.
pub const LEASED_DEFAULT: u32 = 100_000;
/// Highest bound on leases held at once per queue.
pub const LEASED_MAX: u32 = 1_000_000;
/// Most messages of one send.
pub const SEND_MESSAGES_MAX: usize = 100;
/// Most messages of one page of a browse.
pub const BROWSE_MESSAGES_MAX: usize = 1_000;
/// Most messages that one call moves or revives: all of them are rows of one commit.
pub const MOVE_MESSAGES_MAX: usize = 1_000;
/// Most settlements of one settle.
pub const SETTLEMENTS_MAX: usize = 100;
/// Longest delay of a send or a nack.
pub const DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Highest attempt limit.
pub const ATTEMPTS_MAX: u32 = 100;
/// Shortest retention.
pub const RETENTION_MIN: Duration = Duration::from_secs(60);
/// Retention of a queue that names none.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(4 * 24 * 3600);
/// Retention of a topic that names none; its messages may ask for less.
pub const TOPIC_RETENTION_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest retention, also of finished messages.
pub const RETENTION_MAX: Duration = Duration::from_secs(14 * 24 * 3600);
/// Longest time for which an idempotency key is remembered.
pub const IDEMPOTENCY_WINDOW_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Longest backoff.
pub const BACKOFF_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most queues of one page of a list.
pub const LISTED_QUEUES_MAX: usize = 1_000;
/// Longest queue name, in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// Longest id of a topic, a group or a partition, in bytes.
pub const TOPIC_NAME_BYTES_MAX: usize = 255;
/// For so long an ack of a group's lease can be repeated (design-holes B1).
pub const ACK_REMEMBERED_FOR: Duration = Duration::from_secs(10 * 60);
/// A group that nobody has read for so long, or for the topic's retention if that is longer, is removed (design-holes A8).
pub const GROUP_UNUSED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most triggers of an environment, and of one call.
pub const TRIGGERS_MAX: usize = 1_000;
/// Longest retry time and start delay of a trigger.
pub const TRIGGER_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shortest retry time of a trigger.
pub const RETRY_AFTER_MIN: Duration = Duration::from_millis(1);
/// Longest target of a trigger, in bytes.
pub const TARGET_BYTES_MAX: usize = 2_048;
/// Highest limit of a trigger's deliveries.
pub const PUSH_DELIVERIES_MAX: u32 = 1_000_000;
/// Longest time for which a secret goes on signing after it was replaced.
pub const SECRET_GRACE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Most bytes of a queue's annotations.
pub const ANNOTATIONS_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of a message's attributes, as stored.
pub const ATTRIBUTES_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes of data that live in their message's row; more are in chunks.
pub const DATA_INLINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a chunk, and most bytes of data that one command carries; more come as an upload.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// Most bytes of one message's data.
pub const DATA_BYTES_MAX: u64 = 100 << 20;
/// An upload without a new chunk for so long is given up.
pub const UPLOAD_STALL_MAX: Duration = Duration::from_secs(60);
/// Longest chain of dead-letter queues that is followed when one is looked for a cycle.
pub const DEAD_LETTER_CHAIN_MAX: usize = 16;

const _: () = assert!(LEASE_MIN.as_millis() < LEASE_MAX.as_millis());
const _: () = assert!(RETENTION_DEFAULT.as_millis() <= RETENTION_MAX.as_millis());
const _: () = assert!(LEASED_DEFAULT <= LEASED_MAX);
const _: () = assert!(DATA_INLINE_BYTES_MAX < CHUNK_BYTES && (CHUNK_BYTES as u64) < DATA_BYTES_MAX);
// A page of dead letters is revived or moved by one call.
const _: () = assert!(BROWSE_MESSAGES_MAX <= MOVE_MESSAGES_MAX);

/// Bounds that a deployment may change; `Default` is what the documents state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreSettings {
    /// Entries that a window holds at the front of an order. Range 1 to 1,000,000.
    pub window_entries: usize,
    /// Delivery rows that memory keeps beyond its windows, of leases granted lately.
    pub cached_rows: usize,
    /// Due rows worked off in one batch: ends of leases, ends of delays, expiries, sweeps.
    pub due_per_batch: usize,
    /// The same while commands wait: what is due may not make others wait for long (design-holes B19).
    pub due_per_busy_batch: usize,
    /// Live remembered calls, sends among them; beyond it calls with a new key are refused.
    pub dedup_keys: u64,
    /// Messages in the environment, in any state; beyond it sends are refused.
    pub messages: u64,
    /// Bytes of their contents, attributes and data; beyond it sends are refused.
    pub bytes: u64,
    /// Bytes of the contents of one page that is looked at with its contents; one message comes in any case.
    pub browse_bytes: u64,
    /// Queues in the environment.
    pub queues: usize,
    /// Topics in the environment.
    pub topics: usize,
    /// Groups of one topic.
    pub groups: usize,
    /// Partitions of one topic that hold messages.
    pub partitions: usize,
    /// Triggers in the environment. Not above [`TRIGGERS_MAX`].
    pub triggers: usize,
    /// Runs of messages that one group took by id out of one log.
    pub runs: usize,
    /// Acks that each group remembers for [`ACK_REMEMBERED_FOR`].
    pub remembered_acks: usize,
    /// Waiting lease calls in the environment.
    pub waiters: usize,
    /// Bytes of data that live in their message's row. Not above `chunk_bytes`.
    pub inline_bytes: usize,
    /// Bytes of a chunk. The same for the whole life of an environment: only tests choose another.
    pub chunk_bytes: usize,
    /// Uploads under way, and such that wait to begin.
    pub uploads: usize,
    /// Bytes of uploads under way.
    pub upload_bytes: u64,
    /// Chunks of nobody that one batch removes; a quarter of it while commands wait.
    pub chunks_per_batch: u32,
}

impl Default for CoreSettings {
    fn default() -> Self {
        Self {
            window_entries: 10_000,
            cached_rows: 200_000,
            due_per_batch: 1_000,
            due_per_busy_batch: 25,
            dedup_keys: 10_000_000,
            messages: u64::MAX,
            bytes: u64::MAX,
            browse_bytes: 8 * 1024 * 1024,
            queues: 20_000,
            topics: 20_000,
            groups: 4_000,
            partitions: 1_000,
            triggers: TRIGGERS_MAX,
            runs: 10_000,
            remembered_acks: 100_000,
            waiters: 20_000,
            inline_bytes: DATA_INLINE_BYTES_MAX,
            chunk_bytes: CHUNK_BYTES,
            uploads: 64,
            upload_bytes: 256 << 20,
            chunks_per_batch: 16,
        }
    }
}
