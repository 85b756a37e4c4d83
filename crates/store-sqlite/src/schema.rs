//! Tables of the two kinds of database. Persisted: a change needs a new [`LAYOUT`]; those of other layouts are refused.
//! Once a version is released, a change needs a step that leads to it as well.
//!
//! Times are milliseconds since the Unix epoch. Sequences are rowids, so indexes end in them without naming them.
//! The indexes hold what the scans of `scan.rs` need: no scan may walk over rows that it does not answer.

/// `application_id` of Millpond's databases: "mpnd".
pub(crate) const APPLICATION_ID: i64 = 0x6d70_6e64;

/// `user_version` of both kinds of database.
pub(crate) const LAYOUT: i64 = 5;

/// The rows of one environment.
pub(crate) const ENVIRONMENT: &str = "
create table environment (
    id              integer primary key check (id = 1),
    lineage         text    not null, -- equal to the file in lineage/, unless this is a restored copy
    epoch           integer not null, -- rises at each open: fences the owner before
    commit_seq      integer not null, -- number of the last commit
    incarnation     integer not null,
    stamp           integer not null,
    next_sequence   integer not null,
    next_queue      integer not null,
    dedup_count     integer not null,
    leases_void_below integer not null -- leases of a lower generation came with a restored copy
) strict;

create table queue (
    number          integer primary key,
    name            text    not null,
    uid             blob    not null, -- 16 bytes
    generation      integer not null,
    revision        integer not null,
    created_at      integer not null,
    updated_at      integer not null,
    annotations     text    not null, -- JSON
    spec            text    not null, -- JSON
    paused_at       integer,
    purged_through  integer not null,
    deleted         integer not null,
    sweep_owed      integer not null,
    dead_purged_through integer not null,
    role            integer not null, -- 0 queue, 1 topic, 2 partition, 3 group, 4 cursor
    parent          integer,          -- topic of a partition or group, group of a cursor
    log             integer,          -- these two of a cursor
    start           integer,
    settled_by_sql  integer not null
) strict;

create table counters (
    queue           integer primary key,
    ready           integer not null,
    delayed         integer not null,
    leased          integer not null,
    dead            integer not null,
    completed       integer not null,
    cancelled       integer not null,
    waiting_bytes   integer not null, -- of ready and delayed deliveries
    leased_bytes    integer not null,
    dead_bytes      integer not null,
    finished_bytes  integer not null, -- of completed and cancelled deliveries
    total_sent      integer not null,
    total_delivered integer not null,
    total_undone    integer not null,
    total_acked     integer not null,
    total_dead      integer not null,
    total_expired   integer not null,
    consumer_seen_at integer not null,
    position        integer not null -- a number in a log: its last, or the last that a cursor has handed out
) strict;

create table message (
    sequence        integer primary key,
    attributes      text    not null, -- JSON
    data_kind       integer not null, -- 0 none, 1 JSON, 2 text, 3 binary
    data_bytes      integer not null, -- wherever the data is
    chunks          integer not null, -- rows of chunk that hold the data; 0: it is in this row
    data            blob    not null
) strict;

create table chunk (
    sequence        integer not null, -- the message's, or the upload's
    number          integer not null, -- from 0
    data            blob    not null,
    primary key (sequence, number)
) strict;

create table upload (
    sequence        integer primary key, -- its chunks belong to no message
    chunks          integer not null -- so many, from number 0 on
) strict;

create table delivery (
    sequence        integer primary key, -- the message's, unless message says another
    queue           integer not null,
    state           integer not null, -- 0 delayed, 1 ready, 2 leased, 3 completed, 4 dead, 5 cancelled
    priority_descending integer not null, -- minus the priority
    retried         integer not null,
    order_at        integer not null,
    due_at          integer not null,
    leased_at       integer not null,
    lease_generation integer not null,
    delivery_count  integer not null,
    failure_count   integer not null,
    lost_lease_count integer not null,
    expires_at      integer not null,
    nonce           integer not null,
    sent_at         integer not null,
    entered         integer not null,
    dead_at         integer,
    dead_reason     integer, -- 0 attempts spent, 1 leases lost, 2 to 5 cancelled
    dead_queue      text,
    size_bytes      integer not null, -- of the message's content, wherever its data is
    chunks          integer not null, -- as in message
    message         integer, -- of a group's progress: the message's sequence
    hold            integer not null -- of a lease: 0 granted, 1 extended, 2 reserved
) strict;

create index delivery_ready on delivery (queue, priority_descending, retried, order_at) where state = 1;
create index delivery_due on delivery (queue, state, due_at) where state <> 1;
create index delivery_expiry on delivery (expires_at);
create index delivery_message on delivery (queue, message) where message is not null;

create table segment (
    log             integer not null,
    place           integer not null, -- from 0
    live            blob    not null, -- 128 bytes: a bit for each number, from the lowest of the first byte
    primary key (log, place)
) strict, without rowid;

create table run (
    cursor          integer not null,
    first           integer not null,
    last            integer not null,
    primary key (cursor, first)
) strict, without rowid;

create table dedup (
    queue           integer not null, -- -1: no send but a call on the environment
    key             text    not null,
    digest          blob    not null, -- 16 bytes
    sent_at         integer,          -- these four of a send
    first_sequence  integer,
    count           integer,
    nonce_seed      integer,
    answer          text,             -- of any other call: JSON
    expires_at      integer not null,
    primary key (queue, key)
) strict, without rowid;

create index dedup_expiry on dedup (expires_at);

create table trigger (
    id              text    not null primary key,
    number          integer not null,
    uid             blob    not null, -- 16 bytes
    created_at      integer not null,
    deployment      text,
    topic           text    not null, -- or a prefix and *
    consumer        text    not null, -- the group
    target          text    not null,
    spec            text    not null -- JSON
) strict, without rowid;

create table secret (
    id              integer primary key check (id = 1),
    current         text    not null,
    previous        text,             -- these two of one that was replaced
    previous_until  integer,
    since           integer not null
) strict;

insert into environment values (1, lower(hex(randomblob(16))), 0, 0, 0, 0, 0, 0, 0, 0);
";

/// Environments of a data directory.
pub(crate) const CATALOGUE: &str = "
create table environment (
    name            text    primary key,
    file            text    not null unique, -- random, in environments/ and lineage/
    opened          integer not null, -- 1: the file exists; if it does not, it was lost
    next_due        integer -- when a closed one has to be opened by itself; the smallest: it was open
) strict, without rowid;

create index environment_due on environment (next_due) where next_due is not null;
";
