-- A row that every commit rewrites leaves an old version behind each time. While some transaction is open they all stay, and whoever
-- looks the row up by its key walks over all of them: each commit takes longer than the one before. So such rows have the number of
-- the commit that wrote them as the last part of their key: the newest is found at once, however many older ones there are.

create table head (
    environment     integer     not null,
    commit_seq      bigint      not null default 0, -- number of the last commit
    epoch           bigint      not null default 0, -- rises at each open: fences the owner before
    incarnation     bigint      not null default 0,
    stamp           bigint      not null default 0,
    next_sequence   bigint      not null default 0,
    next_queue      bigint      not null default 0,
    dedup_count     bigint      not null default 0,
    leases_void_below bigint    not null default 0, -- leases of a lower generation came with a restored copy
    primary key (environment, commit_seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table head is 'One row an environment: its fence, which every commit moves, and what the owner needs at its next opening.';
insert into head (environment, commit_seq, epoch, incarnation, stamp, next_sequence, next_queue, dedup_count, leases_void_below)
    select number, commit_seq, epoch, incarnation, stamp, next_sequence, next_queue, dedup_count, leases_void_below from environment;
alter table environment drop column commit_seq, drop column epoch, drop column incarnation, drop column stamp,
    drop column next_sequence, drop column next_queue, drop column dedup_count, drop column leases_void_below;
comment on table environment is 'One row an environment: its name, and where it was opened last.';

alter table counters add column written bigint not null default 0; -- the commit that wrote it
alter table counters drop constraint counters_pkey, add primary key (environment, queue, written);
alter table counters reset (fillfactor);
comment on table counters is 'Exact counts of each queue. Rewritten by every commit that changes them.';
alter table run add column written bigint not null default 0; -- the commit that wrote it
alter table run drop constraint run_pkey, add primary key (environment, cursor, first, written);
alter table run reset (fillfactor);
alter table low_water add column written bigint not null default 0; -- the commit that wrote it
alter table low_water drop constraint low_water_pkey, add primary key (environment, queue, kind, written);
alter table low_water reset (fillfactor);

create or replace view stats with (security_barrier) as
select e.name as environment, q.name as queue, c.ready, c.delayed, c.leased, c.dead, c.completed, c.cancelled,
       c.waiting_bytes, c.leased_bytes, c.dead_bytes, c.finished_bytes,
       c.total_sent, c.total_delivered, c.total_undone, c.total_acked, c.total_dead, c.total_expired,
       at(nullif(c.consumer_seen_at, 0)) as consumer_seen_at
from queue q join environment e on e.number = q.environment
cross join lateral (select n.* from counters n where n.environment = q.environment and n.queue = q.number
    order by n.written desc limit 1) c
where q.role < 4 and not q.deleted and q.environment = any (array(select allowed_environments()));
