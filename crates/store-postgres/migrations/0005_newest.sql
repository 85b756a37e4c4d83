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

create or replace function settle(message_id text, lease_generation bigint, kind smallint, output jsonb, delay bigint, options jsonb) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
    own xid8 := pg_current_xact_id();
    target integer;
    part record;
    wanted bigint;
    held record;
    is_held boolean;
    number bigint;
begin
    target := environment_number(options ->> 'environment');
    part := read_message_id(message_id);
    wanted := coalesce((options ->> 'delivery')::bigint, part.sequence);
    select d.state, d.lease_generation, d.due_at, d.nonce, d.sent_at, coalesce(d.message, d.sequence) as message,
           coalesce(g.name, q.name) as queue, coalesce(g.settled_by_sql, q.settled_by_sql) as allowed,
           coalesce(g.deleted, q.deleted) as deleted, h.leases_void_below
        into held
        from delivery d cross join lateral (select n.leases_void_below from head n where n.environment = d.environment
            order by n.commit_seq desc limit 1) h
        join queue q on q.environment = d.environment and q.number = d.queue
        left join queue g on q.role = 4 and g.environment = d.environment and g.number = q.parent
        where d.environment = target and d.sequence = wanted;
    is_held := found and held.state = 2 and held.message = part.sequence and held.nonce = part.nonce
        and held.sent_at = part.sent_at and held.lease_generation = settle.lease_generation
        and held.lease_generation >= held.leases_void_below and held.due_at > now_millis() and not held.deleted;
    if not is_held then
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable')
            and (held.lease_generation is null or held.lease_generation < settle.lease_generation or held.state <> 2) then
            raise exception using errcode = 'MP011', message = format(
                'this transaction does not see lease %s of %s', settle.lease_generation, message_id),
                hint = 'Its snapshot may be older than the lease: begin the transaction after taking the message.';
        end if;
        raise exception using errcode = 'MP010', message = format('lease %s of %s is not held any more', settle.lease_generation, message_id);
    end if;
    if not held.allowed then
        raise exception using errcode = 'MP012', message = format('leases of %s may not be ended by SQL', held.queue),
            hint = format('Once, ahead: select allow_sql_settle(%L). It takes effect when the server has taken it in.', held.queue);
    end if;
    -- Who inserts the key first ends the lease. The server does the same before it gives one up, and waits for nobody.
    insert into settlement (environment, delivery, generation, owner) values (target, wanted, settle.lease_generation, false)
        on conflict do nothing;
    if not found then
        raise exception using errcode = 'MP010', message = format('lease %s of %s is not held any more', settle.lease_generation, message_id);
    end if;
    -- Once more: the lease may have ended between, and its key may have been removed since.
    perform from delivery d where d.environment = target and d.sequence = wanted and d.state = 2
        and d.lease_generation = settle.lease_generation;
    if not found then
        raise exception using errcode = 'MP010', message = format('lease %s of %s is not held any more', settle.lease_generation, message_id);
    end if;
    number := nextval('intake_id');
    insert into intake (id, environment, transaction, kind, sequence, sent_at, nonce, delivery, generation, output, delay)
    values (number, target, own, kind, part.sequence, part.sent_at, part.nonce, wanted, settle.lease_generation, output::text, delay);
    perform wake();
end $$;
