-- To read. Rows of those environments that the role which asks may use; nobody writes here.

create function at(millis bigint) returns timestamptz
language sql immutable parallel safe as $$
    select to_timestamp(millis / 1000.0)
$$;

create function state_name(state smallint) returns text
language sql immutable parallel safe as $$
    select (array['delayed', 'ready', 'leased', 'completed', 'dead', 'cancelled'])[state + 1]
$$;

-- Data as text, if it is: JSON and text.
create function data_text(kind smallint, data bytea) returns text
language sql immutable parallel safe as $$
    select case when kind in (1, 2) then convert_from(data, 'UTF8') end
$$;

create view queues with (security_barrier) as
select e.name as environment, q.name as queue,
       (array['queue', 'topic', 'partition', 'group'])[q.role + 1] as role,
       at(q.created_at) as created_at, at(q.updated_at) as updated_at, at(q.paused_at) as paused_since,
       q.settled_by_sql, q.spec::json as policies, q.annotations::json as annotations
from queue q join environment e on e.number = q.environment
where q.role < 4 and not q.deleted and q.environment = any (array(select allowed_environments()));
comment on view queues is 'Queues, topics, partitions and groups, with their policies.';

create view stats with (security_barrier) as
select e.name as environment, q.name as queue, c.ready, c.delayed, c.leased, c.dead, c.completed, c.cancelled,
       c.waiting_bytes, c.leased_bytes, c.dead_bytes, c.finished_bytes,
       c.total_sent, c.total_delivered, c.total_undone, c.total_acked, c.total_dead, c.total_expired,
       at(nullif(c.consumer_seen_at, 0)) as consumer_seen_at
from queue q join environment e on e.number = q.environment
join counters c on c.environment = q.environment and c.queue = q.number
where q.role < 4 and not q.deleted and q.environment = any (array(select allowed_environments()));
comment on view stats is 'Counts of each queue, exact as of the last commit of the server. What a topic''s groups have before them is not here.';

create view deliveries with (security_barrier) as
select e.name as environment, coalesce(g.name, q.name, d.dead_queue) as queue,
       message_id(d.sent_at, coalesce(d.message, d.sequence), d.nonce) as message_id, d.sequence as delivery,
       state_name(d.state) as state, -d.priority_descending as priority, at(d.sent_at) as sent_at,
       case when d.state = 0 then at(d.due_at) end as visible_at,
       case when d.state = 2 then at(d.due_at) end as lease_until,
       case when d.state in (3, 4, 5) then at(d.due_at) end as finished_at,
       at(d.expires_at) as expires_at, d.lease_generation, d.delivery_count, d.failure_count, d.lost_lease_count,
       d.size_bytes, at(d.dead_at) as dead_at, d.dead_queue,
       (array['attempts spent', 'leases lost', 'cancelled', 'deduplicated', 'queue deleted', 'refused'])[d.dead_reason + 1] as reason
from delivery d join environment e on e.number = d.environment
left join queue q on q.environment = d.environment and q.number = d.queue
left join queue g on q.role = 4 and g.environment = d.environment and g.number = q.parent
where d.environment = any (array(select allowed_environments()));
comment on view deliveries is 'How far each queue or group is with each message. Of a topic''s messages only those that a group has taken and not yet settled are here for that group.';

create view messages with (security_barrier) as
select v.environment, v.queue, v.message_id, v.state, v.priority, v.sent_at, v.visible_at, v.lease_until, v.finished_at, v.expires_at,
       v.delivery_count, v.failure_count, v.reason, m.attributes::json as attributes,
       (array['none', 'json', 'text', 'binary'])[m.data_kind + 1] as data_kind, m.data_bytes,
       case when m.chunks = 0 then data_text(m.data_kind, m.data) end as data, case when m.chunks = 0 then m.data end as data_bytes_raw
from deliveries v join environment e on e.name = v.environment
join message m on m.environment = e.number and m.sequence = v.delivery;
comment on view messages is 'Messages with what was sent. data is JSON or text; data that is larger than 64 KiB is read over HTTP.';

create view dead_letters with (security_barrier) as
select * from messages where state = 'dead';
comment on view dead_letters is 'Messages that are out of attempts, and why.';

revoke all on all functions in schema @schema@ from public;
