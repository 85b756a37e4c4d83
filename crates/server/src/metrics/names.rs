//! Every metric, once: name, how it behaves, what it says. `docs/metrics.md` has the same ones, which a test sees to.

use super::text::Family;
use super::text::Kind::{self, Counter, Gauge, Histogram};

const fn family(name: &'static str, kind: Kind, help: &'static str) -> Family {
    Family { name, kind, help }
}

pub(super) const BUILD_INFO: Family =
    family("millpond_build_info", Gauge, "Always 1; the label tells the version.");

// Requests and connections.
pub(super) const HTTP_REQUESTS: Family = family(
    "millpond_http_requests_total",
    Counter,
    "Requests that ended, by verb and by class of status; hung_up: the client left before there was an answer.",
);
pub(super) const HTTP_REQUEST_DURATION: Family = family(
    "millpond_http_request_duration_seconds",
    Histogram,
    "From the end of a request's head to its answer, in seconds; waits that lease calls ask for are part of it.",
);
pub(super) const HTTP_REQUESTS_IN_FLIGHT: Family =
    family("millpond_http_requests_in_flight", Gauge, "Requests that have no answer yet.");
pub(super) const HTTP_REQUEST_BODY_BYTES: Family =
    family("millpond_http_request_body_bytes_total", Counter, "Bytes of bodies that were read whole.");
pub(super) const HTTP_RESPONSE_BODY_BYTES: Family =
    family("millpond_http_response_body_bytes_total", Counter, "Bytes of bodies of answers.");
pub(super) const HTTP_REFUSED: Family =
    family("millpond_http_refused_total", Counter, "Requests that were answered with an error, by its code.");
pub(super) const HTTP_SLOW_REQUESTS: Family = family(
    "millpond_http_slow_requests_total",
    Counter,
    "Requests that took more than a second, not counting their body's way and waits that they asked for.",
);
pub(super) const HTTP_CONNECTIONS: Family =
    family("millpond_http_connections", Gauge, "Connections that are being served.");
pub(super) const HTTP_CONNECTIONS_MAX: Family =
    family("millpond_http_connections_max", Gauge, "Connections that may be served at once.");
pub(super) const HTTP_CONNECTIONS_ACCEPTED: Family =
    family("millpond_http_connections_accepted_total", Counter, "Connections that were served or are.");
pub(super) const HTTP_CONNECTIONS_REFUSED: Family = family(
    "millpond_http_connections_refused_total",
    Counter,
    "Connections that were turned away because as many as may be were open.",
);

// The engine.
pub(super) const COMMANDS: Family = family("millpond_commands_total", Counter, "Commands answered.");
pub(super) const COMMANDS_WAITING: Family = family(
    "millpond_commands_waiting",
    Gauge,
    "Commands taken in and not answered yet, waiting lease calls among them.",
);
pub(super) const COMMANDS_OVERLOADED: Family = family(
    "millpond_commands_overloaded_total",
    Counter,
    "Commands refused because too much waited in their environment, by what there was too much of.",
);
pub(super) const COMMITS: Family = family("millpond_commits_total", Counter, "Commits made durable.");
pub(super) const COMMIT_ROWS: Family =
    family("millpond_commit_rows_total", Counter, "Rows written or removed by commits.");
pub(super) const COMMIT_COMMANDS: Family =
    family("millpond_commit_commands", Histogram, "Commands that share a commit.");
pub(super) const COMMIT_WAIT: Family = family(
    "millpond_commit_wait_seconds",
    Histogram,
    "How long a commit waits for the thread that writes it, in seconds.",
);
pub(super) const COMMIT_DURATION: Family = family(
    "millpond_commit_duration_seconds",
    Histogram,
    "How long a commit takes from then on, its flush included, in seconds.",
);
pub(super) const COMMIT_FLUSH: Family = family(
    "millpond_commit_flush_seconds",
    Histogram,
    "The part of a commit in which its log is written and flushed to the medium, in seconds.",
);
pub(super) const WRITER_JOBS: Family = family(
    "millpond_writer_jobs",
    Gauge,
    "Commits and looks at the disk's room that wait, by writing thread.",
);
pub(super) const ENVIRONMENTS: Family = family(
    "millpond_environments",
    Gauge,
    "Environments by state: open, or failed, whose store failed and that could not be opened again yet.",
);
pub(super) const ENVIRONMENTS_REOPENED: Family =
    family("millpond_environments_reopened_total", Counter, "Environments opened again after a failure.");
pub(super) const ENVIRONMENT_FAILURES: Family = family(
    "millpond_environment_failures_total",
    Counter,
    "Failures that end what an environment has in memory or keep it closed, by what failed.",
);
pub(super) const RECEIPTS_UNDONE: Family =
    family("millpond_receipts_undone_total", Counter, "Answers with messages that nobody got.");
pub(super) const GRANTS_UNDONE: Family = family(
    "millpond_grants_undone_total",
    Counter,
    "Messages in those answers; each went back into its queue, uncounted.",
);
pub(super) const EXTERNAL_REFUSED: Family = family(
    "millpond_external_refused_total",
    Counter,
    "Messages sent by SQL that were refused when they were taken in, by reason.",
);

// Environments and queues.
pub(super) const ENVIRONMENT_SPACE_LOW: Family = family(
    "millpond_environment_space_low",
    Gauge,
    "1 if sends are refused because the store has no room, else 0; of open environments.",
);
pub(super) const ENVIRONMENT_QUEUES: Family =
    family("millpond_environment_queues", Gauge, "Queues of the environment.");
pub(super) const ENVIRONMENT_QUEUES_PAUSED: Family =
    family("millpond_environment_queues_paused", Gauge, "Queues of the environment that are paused.");
pub(super) const ENVIRONMENT_MESSAGES: Family =
    family("millpond_environment_messages", Gauge, "Messages in all queues of the environment, by state.");
pub(super) const ENVIRONMENT_WAITING_CALLS: Family = family(
    "millpond_environment_waiting_calls",
    Gauge,
    "Lease calls that wait in all queues of the environment.",
);
pub(super) const ENVIRONMENT_OLDEST_READY_AGE: Family = family(
    "millpond_environment_oldest_ready_age_seconds",
    Gauge,
    "The highest of its queues' ages of the message to be handed out next, in seconds; 0 if none is ready.",
);
pub(super) const QUEUE_MESSAGES: Family =
    family("millpond_queue_messages", Gauge, "Messages in the queue, by state.");
pub(super) const QUEUE_WAITING_CALLS: Family =
    family("millpond_queue_waiting_calls", Gauge, "Lease calls that wait in the queue.");
pub(super) const QUEUE_PAUSED: Family =
    family("millpond_queue_paused", Gauge, "1 if an operator has paused the queue, else 0.");
pub(super) const QUEUE_OLDEST_READY_AGE: Family = family(
    "millpond_queue_oldest_ready_age_seconds",
    Gauge,
    "How long the message to be handed out next has been ready (order visible) or sent (order sent), in seconds; 0 if none is ready.",
);
pub(super) const QUEUE_CONSUMER_AGE: Family = family(
    "millpond_queue_consumer_age_seconds",
    Gauge,
    "Time since a lease call last came, or since the queue was made if none ever did, in seconds; 0 while one waits.",
);

/// What queues count over their whole lives; for a queue, and for all of an environment.
pub(super) const TOTALS: [(Family, Family); 6] = [
    (
        family("millpond_queue_messages_sent_total", Counter, "Messages sent or moved in."),
        family("millpond_environment_messages_sent_total", Counter, "The same, for all queues together."),
    ),
    (
        family("millpond_queue_messages_delivered_total", Counter, "Leases granted."),
        family(
            "millpond_environment_messages_delivered_total",
            Counter,
            "The same, for all queues together.",
        ),
    ),
    (
        family("millpond_queue_messages_undone_total", Counter, "Leases taken back because nobody got them."),
        family("millpond_environment_messages_undone_total", Counter, "The same, for all queues together."),
    ),
    (
        family("millpond_queue_messages_acked_total", Counter, "Messages acked."),
        family("millpond_environment_messages_acked_total", Counter, "The same, for all queues together."),
    ),
    (
        family(
            "millpond_queue_messages_dead_total",
            Counter,
            "Messages put out of attempts: dead-lettered, moved or dropped.",
        ),
        family("millpond_environment_messages_dead_total", Counter, "The same, for all queues together."),
    ),
    (
        family(
            "millpond_queue_messages_expired_total",
            Counter,
            "Messages removed because their time was over.",
        ),
        family("millpond_environment_messages_expired_total", Counter, "The same, for all queues together."),
    ),
];

// What this page leaves out.
pub(super) const QUEUES_LEFT_OUT: Family = family(
    "millpond_metrics_queues_left_out",
    Gauge,
    "Queues that are in the sums of their environments and not shown singly, because of the limit.",
);
pub(super) const ENVIRONMENTS_LEFT_OUT: Family = family(
    "millpond_metrics_environments_left_out",
    Gauge,
    "Environments that are not shown because they did not answer in time or are too many.",
);

// The runtime cache.
pub(super) const CACHE_VALUES: Family =
    family("millpond_cache_values", Gauge, "Values in the runtime cache.");
pub(super) const CACHE_BYTES: Family = family(
    "millpond_cache_bytes",
    Gauge,
    "Bytes of keys, values and tags in the runtime cache, with what it costs to keep them.",
);
pub(super) const CACHE_BYTES_MAX: Family =
    family("millpond_cache_bytes_max", Gauge, "Bytes that the runtime cache may hold; 0: it is off.");
pub(super) const CACHE_HITS: Family =
    family("millpond_cache_hits_total", Counter, "Values that the runtime cache was asked for and had.");
pub(super) const CACHE_MISSES: Family = family(
    "millpond_cache_misses_total",
    Counter,
    "Values that the runtime cache was asked for and did not have, or not in time.",
);

// The process; names that all exporters share.
pub(super) const PROCESS_RESIDENT_MEMORY: Family =
    family("process_resident_memory_bytes", Gauge, "Resident memory, in bytes.");
pub(super) const PROCESS_CPU: Family =
    family("process_cpu_seconds_total", Counter, "Processor time spent, in seconds.");
pub(super) const PROCESS_OPEN_FDS: Family = family("process_open_fds", Gauge, "Open file descriptors.");
pub(super) const PROCESS_MAX_FDS: Family =
    family("process_max_fds", Gauge, "File descriptors that may be open.");
pub(super) const PROCESS_START_TIME: Family =
    family("process_start_time_seconds", Gauge, "When the process was started, in seconds since 1970.");
