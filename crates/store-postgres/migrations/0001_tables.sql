-- The tables. Every row belongs to one environment, by its number; `environment` lists them.
--
-- Times are milliseconds since the Unix epoch. Numbers that a program may use without a sign are kept by their bits.
-- Names and texts hold what was given, but for the character that PostgreSQL cannot store: U+0000 is written as
-- U+10FFFF followed by `0`, and U+10FFFF itself twice.
-- Only the server that owns an environment writes these tables, `intake` and `settlement` excepted. Read the views.

create table migration (
    number          integer     primary key,
    name            text        not null,
    applied_at      timestamptz not null default now()
);
comment on table migration is 'Steps of the schema that were applied, in order. There is no way back.';

create table server (
    id              uuid        primary key,
    name            text        not null, -- host and process, for people
    process         text        not null, -- tells on the same machine whether it still runs
    started_at      timestamptz not null,
    seen_at         timestamptz not null
) with (fillfactor = 10);
comment on table server is 'The server that serves this schema. It renews its row each second; five seconds without that and another may take its place.';

create table environment (
    number          integer     primary key generated always as identity,
    name            text        collate "C" not null unique,
    -- Which cluster and database wrote the row last: a restored copy differs.
    system          text        not null default '',
    timeline        bigint      not null default 0,
    database        oid         not null default 0,
    epoch           bigint      not null default 0, -- rises at each open: fences the owner before
    commit_seq      bigint      not null default 0, -- number of the last commit
    incarnation     bigint      not null default 0,
    stamp           bigint      not null default 0,
    next_sequence   bigint      not null default 0,
    next_queue      bigint      not null default 0,
    dedup_count     bigint      not null default 0,
    leases_void_below bigint    not null default 0, -- leases of a lower generation came with a restored copy
    -- When a closed one has to be opened by itself; the smallest: it is, or was, open.
    next_due        bigint
) with (fillfactor = 10);
comment on table environment is 'One row an environment: its fence, which every commit moves, and what the owner needs at its next opening.';

create table queue (
    environment     integer     not null,
    number          bigint      not null,
    name            text        collate "C" not null,
    uid             bytea       not null, -- 16 bytes
    generation      bigint      not null,
    revision        bigint      not null,
    created_at      bigint      not null,
    updated_at      bigint      not null,
    annotations     text        not null, -- JSON
    spec            text        not null, -- JSON
    paused_at       bigint,
    purged_through  bigint      not null,
    deleted         boolean     not null,
    sweep_owed      boolean     not null,
    dead_purged_through bigint  not null,
    role            smallint    not null, -- 0 queue, 1 topic, 2 partition, 3 group, 4 cursor
    parent          bigint,               -- topic of a partition or group, group of a cursor
    log             bigint,               -- these two of a cursor
    start           bigint,
    settled_by_sql  boolean     not null, -- leases may be ended by complete and fail
    primary key (environment, number)
) with (fillfactor = 70);
create index queue_name on queue (environment, name) where not deleted;

create table counters (
    environment     integer     not null,
    queue           bigint      not null,
    ready           bigint      not null,
    delayed         bigint      not null,
    leased          bigint      not null,
    dead            bigint      not null,
    completed       bigint      not null,
    cancelled       bigint      not null,
    waiting_bytes   bigint      not null, -- of ready and delayed deliveries
    leased_bytes    bigint      not null,
    dead_bytes      bigint      not null,
    finished_bytes  bigint      not null, -- of completed and cancelled deliveries
    total_sent      bigint      not null,
    total_delivered bigint      not null,
    total_undone    bigint      not null,
    total_acked     bigint      not null,
    total_dead      bigint      not null,
    total_expired   bigint      not null,
    consumer_seen_at bigint     not null,
    position        bigint      not null, -- a number in a log: its last, or the last that a cursor has handed out
    primary key (environment, queue)
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table counters is 'Exact counts of each queue. Rewritten by every commit that changes them, within the page (HOT).';

create table message (
    environment     integer     not null,
    sequence        bigint      not null,
    attributes      text        not null, -- JSON
    data_kind       smallint    not null, -- 0 none, 1 JSON, 2 text, 3 binary
    data_bytes      bigint      not null, -- wherever the data is
    chunks          bigint      not null, -- rows of chunk that hold the data; 0: it is in this row
    data            bytea       not null,
    primary key (environment, sequence)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);

create table chunk (
    environment     integer     not null,
    sequence        bigint      not null, -- the message's, or the upload's
    number          bigint      not null, -- from 0
    data            bytea       not null,
    primary key (environment, sequence, number)
);
alter table chunk alter column data set storage external;

create table upload (
    environment     integer     not null,
    sequence        bigint      not null, -- its chunks belong to no message
    chunks          bigint      not null, -- so many, from number 0 on
    primary key (environment, sequence)
) with (fillfactor = 50);

create table delivery (
    environment     integer     not null,
    sequence        bigint      not null, -- the message's, unless message says another
    queue           bigint      not null,
    state           smallint    not null, -- 0 delayed, 1 ready, 2 leased, 3 completed, 4 dead, 5 cancelled
    priority_descending bigint  not null, -- minus the priority
    retried         boolean     not null,
    order_at        bigint      not null,
    due_at          bigint      not null,
    leased_at       bigint      not null,
    lease_generation bigint     not null,
    delivery_count  bigint      not null,
    failure_count   bigint      not null,
    lost_lease_count bigint     not null,
    expires_at      bigint      not null,
    nonce           bigint      not null,
    sent_at         bigint      not null,
    entered         bigint      not null,
    dead_at         bigint,
    dead_reason     smallint, -- see the view deliveries
    dead_queue      text,
    size_bytes      bigint      not null, -- of the message's content, wherever its data is
    chunks          bigint      not null, -- as in message
    message         bigint,               -- of a group's progress: the message's sequence
    hold            smallint    not null, -- of a lease: 0 granted, 1 extended, 2 reserved
    primary key (environment, sequence)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.2);
create index delivery_ready on delivery (environment, queue, priority_descending, retried, order_at, sequence)
    where state = 1;
create index delivery_due on delivery (environment, queue, state, due_at, sequence) where state <> 1;
create index delivery_expiry on delivery (environment, expires_at, sequence);
create index delivery_message on delivery (environment, queue, message) where message is not null;

create table segment (
    environment     integer     not null,
    log             bigint      not null,
    place           bigint      not null, -- from 0
    live            bytea       not null, -- 128 bytes: a bit for each number, from the lowest of the first byte
    primary key (environment, log, place)
) with (fillfactor = 50);

create table run (
    environment     integer     not null,
    cursor          bigint      not null,
    first           bigint      not null,
    last            bigint      not null,
    primary key (environment, cursor, first)
) with (fillfactor = 70);

create table dedup (
    environment     integer     not null,
    queue           bigint      not null, -- -1: no send but a call on the environment
    key             text        collate "C" not null,
    digest          bytea       not null, -- 16 bytes
    sent_at         bigint,               -- these four of a send
    first_sequence  bigint,
    count           bigint,
    nonce_seed      bigint,
    answer          text,                 -- of any other call: JSON
    expires_at      bigint      not null,
    primary key (environment, queue, key)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index dedup_expiry on dedup (environment, expires_at);

create table trigger (
    environment     integer     not null,
    id              text        collate "C" not null,
    number          bigint      not null,
    uid             bytea       not null, -- 16 bytes
    created_at      bigint      not null,
    deployment      text,
    topic           text        not null, -- or a prefix and *
    consumer        text        not null, -- the group
    target          text        not null,
    spec            text        not null, -- JSON
    primary key (environment, id)
);

create table secret (
    environment     integer     primary key,
    current         text        not null,
    previous        text,                 -- these two of one that was replaced
    previous_until  bigint,
    since           bigint      not null
);

-- What SQL asks of the owner, written by the functions of this schema in transactions of their callers. The owner
-- takes a row in, and removes it, in one commit with what comes of it.
create sequence intake_id;
-- Sequences of messages sent by SQL: above all that the owner draws (2^47), below 2^48.
create sequence external_sequence minvalue 140737488355328 maxvalue 281474976710655;

create table intake (
    id              bigint      primary key,
    environment     integer     not null,
    transaction     xid8        not null, -- those of one transaction are taken in together
    kind            smallint    not null, -- 0 send, 1 complete, 2 fail, 3 extend, 4 cancel, 5 allow settling by SQL
    queue           text,                 -- name of a queue, a topic, a partition or a group
    partition       text,                 -- of a topic
    sequence        bigint,               -- of the message; with these two its id
    sent_at         bigint,
    nonce           bigint,
    attributes      text,                 -- these of a send
    data_kind       smallint,
    data            bytea,
    delay           bigint,               -- milliseconds; of a failed one until it is tried again
    visible_at      bigint,
    priority        integer,
    time_to_live    bigint,               -- milliseconds
    key             text,                 -- idempotency key
    delivery        bigint,               -- these of a lease
    generation      bigint,
    output          text,                 -- JSON
    extend_by       bigint                -- milliseconds
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_threshold = 100000);
create index intake_environment on intake (environment, id);

-- Who ends a lease on a queue that is settled by SQL: whoever inserts the key first.
create table settlement (
    environment     integer     not null,
    delivery        bigint      not null,
    generation      bigint      not null,
    owner           boolean     not null, -- the owner gave the lease up: nobody completes it any more
    ended_by        xid8,                 -- a transaction that saw the lease gone
    primary key (environment, delivery, generation)
) with (fillfactor = 70);

create table access (
    role            name        collate "C" not null,
    environment     integer     not null references environment on delete cascade,
    primary key (role, environment)
);
comment on table access is 'Which role may use which environment by SQL. The owner of this schema and superusers may use all.';

-- Whether the server wants to be notified: while commands come it looks by itself, and no transaction has to wait for another
-- that notifies.
create unlogged table watcher (
    server          uuid        primary key,
    asleep          boolean     not null
) with (fillfactor = 10);

-- Ends a transaction in which something was not as it has to be. SQLSTATE says what.
create function demand(counted bigint, wanted bigint, state text) returns void
language plpgsql as $$
begin
    if counted is distinct from wanted then
        raise exception using errcode = state, message = format('%s rows where %s are expected', counted, wanted);
    end if;
end $$;
