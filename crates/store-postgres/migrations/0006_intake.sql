-- What else a transaction wrote of which a page of the intake has a part: all of it is taken in together.
create index intake_transaction on intake (environment, transaction, id);

-- Where the intake begins for an owner that begins: below it lie only index entries of what is gone.
create table intake_floor (
    environment     integer     not null,
    number          bigint      not null,
    primary key (environment, number) -- so that the newest version is found at once, as in 0005
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table intake_floor is 'Below this number everything in the intake of an environment was taken or never comes. Raised now and then.';

-- Messages that were refused when they were taken in. They are in no queue: of the number that no queue has.
create view refused with (security_barrier) as
select e.name as environment, d.dead_queue as queue, message_id(d.sent_at, d.sequence, d.nonce) as message_id,
       (array['attempts spent', 'leases lost', 'cancelled', 'deduplicated', 'queue deleted', 'refused'])[d.dead_reason + 1] as reason,
       at(d.sent_at) as sent_at, at(d.due_at) as refused_at, at(d.expires_at) as kept_until,
       m.attributes::json ->> 'source' as source, m.attributes::json as attributes,
       case when m.chunks = 0 then data_text(m.data_kind, m.data) end as data
from delivery d join environment e on e.number = d.environment
join message m on m.environment = d.environment and m.sequence = d.sequence
where d.queue = 4294967295 and d.state = 5 and d.environment = any (array(select allowed_environments()));
comment on view refused is 'Messages by SQL that were refused when they were taken in, and why. They are in no queue.';

-- Who has access already; grant_access gives it to others (0008).
do $$
declare
    granted name;
begin
    for granted in select distinct a.role from @schema@.access a join pg_roles r on r.rolname = a.role loop
        execute format('grant select on %I.refused to %I', @name@, granted);
    end loop;
end $$;
