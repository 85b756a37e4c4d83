-- What SQL may do. All of it takes part in the caller's transaction: rolled back, it never happened.
--
-- The functions run with the rights of the schema's owner and a pinned search path, and ask who called them. They never
-- lock a row that the server writes, so neither waits for the other. They turn sequential scans off: a session keeps the plan that it
-- made when a table was empty; and compilation too, which begins where a scan was made to look dear and takes milliseconds.
--
-- What they call is in PL/pgSQL, whose plans are kept, or is a single expression without settings of its own, which is inlined; any
-- other function in SQL is parsed and planned at each call. It pins no search path, which takes 2 µs: it is called from where one is.
--
-- Errors (SQLSTATE): MP010 the lease is not held any more; MP011 the transaction began before the message was taken; MP012 the
-- queue's leases may not be ended by SQL yet; 42501 the role may not use the environment; 22023 an argument is not legal;
-- 42704 there is no such environment or queue.

-- Who called: within these functions current_user is the schema's owner.
create function caller() returns name
language sql stable as $$
    select case current_setting('role') when 'none' then session_user else current_setting('role')::name end
$$;

create function is_operator() returns boolean
language plpgsql stable as $$
begin
    return pg_has_role(caller(), (select nspowner from pg_namespace where nspname = @name@), 'usage');
end $$;

-- Environments that the caller may use.
create function allowed_environments() returns setof integer
language sql stable security definer set search_path = @schema@, pg_temp as $$
    select number from environment where is_operator()
    union
    select a.environment from access a join pg_roles r on r.rolname = a.role where pg_has_role(caller(), r.oid, 'usage')
$$;

-- The number of an environment, if the caller may use it.
create function environment_number(environment_name text) returns integer
language plpgsql stable as $$
declare
    wanted text := coalesce(environment_name, nullif(current_setting('millpond.environment', true), ''),
                            'orgs/default/projects/default/envs/default');
    found_number integer;
    may_all boolean := is_operator();
begin
    select e.number into found_number from environment e where e.name = wanted;
    if found_number is not null and may_all then
        return found_number;
    end if;
    if found_number is null or not exists (
        select from access a join pg_roles r on r.rolname = a.role
        where a.environment = found_number and pg_has_role(caller(), r.oid, 'usage')) then
        if found_number is null and may_all then
            raise exception using errcode = '42704', message = format('there is no environment %s', wanted),
                hint = 'The server makes its default environment when it starts, and those of its regions.';
        end if;
        raise exception using errcode = '42501', message = format('role %s may not use environment %s', caller(), wanted),
            hint = 'The owner of the schema can allow it: select grant_access(role, environment).';
    end if;
    return found_number;
end $$;

create function base32(value bigint, digits integer) returns text
language sql immutable parallel safe as $$
    select case digits when 10 then
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 45) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 40) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 35) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 30) & 31)::integer + 1, 1)
    else '' end ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 25) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 20) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 15) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 10) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> 5) & 31)::integer + 1, 1) ||
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', (value & 31)::integer + 1, 1)
$$;

-- A message id: 44 bits of the send time, 48 of the sequence, 36 of the nonce, as 26 digits.
create function message_id(sent_at bigint, sequence bigint, nonce bigint) returns text
language sql immutable parallel safe as $$
    select 'msg_' || @schema@.base32((sent_at << 4) | (sequence >> 44), 10)
        || @schema@.base32(((sequence & 17592186044415) << 6) | (nonce >> 30), 10) || @schema@.base32(nonce & 1073741823, 6)
$$;

-- The parts of a message id; an id that is not one is refused.
create function read_message_id(id text, out sent_at bigint, out sequence bigint, out nonce bigint)
language plpgsql immutable as $$
declare
    part bigint := 0;
    high bigint;
    middle bigint;
    digit integer;
begin
    if id is null or id !~ '^msg_[0-7][0-9A-HJKMNP-TV-Z]{25}$' then
        raise exception using errcode = '22023', message = format('message_id %L is not a message id', id);
    end if;
    for place in 1..26 loop
        digit := strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(id, place + 4, 1)) - 1;
        part := (part << 5) | digit;
        if place = 10 then
            high := part;
            part := 0;
        elsif place = 20 then
            middle := part;
            part := 0;
        end if;
    end loop;
    sent_at := high >> 4;
    sequence := ((high & 15) << 44) | (middle >> 6);
    nonce := ((middle & 63) << 30) | part;
end $$;

create function now_millis() returns bigint
language sql volatile as $$
    select (extract(epoch from clock_timestamp()) * 1000)::bigint
$$;

-- A duration: a number of seconds, or text that is an interval. Milliseconds; within a range of seconds.
create function option_millis(options jsonb, option text, lowest double precision, highest double precision) returns bigint
language plpgsql stable as $$
declare
    seconds double precision;
begin
    if options -> option is null or jsonb_typeof(options -> option) = 'null' then
        return null;
    end if;
    begin
        seconds := case jsonb_typeof(options -> option)
            when 'number' then (options ->> option)::double precision
            else extract(epoch from (options ->> option)::interval) end;
    exception when data_exception then
        seconds := null;
    end;
    if seconds is null or not seconds between lowest and highest then
        raise exception using errcode = '22023', message = format(
            'option %s is %s: it has to be %s to %s seconds, as a number or an interval', option, options -> option, lowest, highest);
    end if;
    return round(seconds * 1000);
end $$;

create function check_options(options jsonb, known text[]) returns void
language plpgsql immutable as $$
declare
    unknown text;
begin
    if options is null or jsonb_typeof(options) <> 'object' then
        raise exception using errcode = '22023', message = 'options have to be a JSON object';
    end if;
    select o into unknown from jsonb_object_keys(options) o where o <> all (known) limit 1;
    if unknown is not null then
        raise exception using errcode = '22023', message = format('there is no option %L', unknown),
            hint = format('There are: %s.', array_to_string(known, ', '));
    end if;
end $$;

-- The server is notified only if it sleeps: transactions that notify wait for each other at their commits.
create function wake() returns void
language plpgsql volatile as $$
begin
    if exists (select from watcher where asleep) then
        perform pg_notify('millpond_' || md5(@name@), '');
    end if;
end $$;

-- Writes a message into the intake: the part that all sends share. Answers its id.
create function put_message(target integer, queue text, attributes text, data_kind smallint, data bytea, options jsonb) returns text
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    -- Before a number is drawn: whether one that is missing may still come is told by which transactions run.
    own xid8 := pg_current_xact_id();
    role smallint;
    delay bigint;
    time_to_live bigint;
    visible_at bigint;
    priority integer := 0;
    key text;
    sent_at bigint := now_millis();
    sequence bigint;
    nonce bigint := (random() * 68719476735)::bigint;
    id text;
begin
    if octet_length(data) > 262144 then
        raise exception using errcode = '22023', message = format(
            'data has %s bytes: at most 262144 are sent by SQL', octet_length(data)), hint = 'Send what is larger over HTTP.';
    end if;
    if options <> '{}' then
        delay := option_millis(options, 'delay', 0, 604800);
        time_to_live := option_millis(options, 'time_to_live', 1, 1209600);
        if options ? 'visible_at' then
            visible_at := (extract(epoch from (options ->> 'visible_at')::timestamptz) * 1000)::bigint;
        end if;
        priority := coalesce((options ->> 'priority')::integer, 0);
        key := options ->> 'idempotency_key';
        if key is not null and octet_length(key) not between 1 and 255 then
            raise exception using errcode = '22023', message = format(
                'option idempotency_key has %s bytes: it has to have 1 to 255', octet_length(key));
        end if;
    end if;
    select q.role into role from queue q where q.environment = target and q.name = queue and not q.deleted;
    if role is null then
        raise exception using errcode = '42704', message = format('there is no queue %L', queue);
    elsif role > 2 then
        raise exception using errcode = '22023', message = format('%L is not sent to: name a queue, a topic or a partition', queue);
    elsif role > 0 and priority <> 0 then
        raise exception using errcode = '22023', message = 'option priority: a topic has no priorities';
    elsif options ? 'partition' and role <> 1 then
        raise exception using errcode = '22023', message = 'option partition goes with a topic';
    end if;
    sequence := nextval('external_sequence');
    id := message_id(sent_at, sequence, nonce);
    insert into intake (id, environment, transaction, kind, queue, partition, sequence, sent_at, nonce, attributes, data_kind, data,
                        delay, visible_at, priority, time_to_live, key)
    values (nextval('intake_id'), target, own, 0, queue, options ->> 'partition', sequence, sent_at, nonce,
            coalesce(attributes, event_attributes(id, options)), data_kind, data, delay, visible_at, priority, time_to_live, key);
    return id;
end $$;

-- The attributes of a CloudEvent, as the server stores them.
create function event_attributes(id text, options jsonb) returns text
language sql stable as $$
    select format('{"id":%s,"source":%s,"type":%s%s,"datacontenttype":%s}',
        to_json(coalesce(options ->> 'id', id)), to_json(coalesce(options ->> 'source', 'sql')),
        to_json(coalesce(options ->> 'type', 'message')),
        case when options ? 'subject' then ',"subject":' || to_json(options ->> 'subject') else '' end,
        to_json(coalesce(options ->> 'content_type', 'application/json')))
$$;

create function send_batch(queue text, data jsonb[], options jsonb default '{}') returns setof text
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
declare
    target integer;
    item jsonb;
begin
    perform check_options(options, array['delay', 'environment', 'id', 'idempotency_key', 'partition', 'priority', 'source', 'subject',
                                         'time_to_live', 'type', 'visible_at']);
    if options ? 'idempotency_key' and cardinality(data) > 1 then
        raise exception using errcode = '22023', message = 'option idempotency_key goes with one message';
    end if;
    target := environment_number(options ->> 'environment');
    if data is null then
        raise exception using errcode = '22023', message = 'data is null: it has to be an array';
    end if;
    foreach item in array data loop
        return next put_message(target, send_batch.queue, null, 1::smallint, convert_to(coalesce(item, 'null')::text, 'UTF8'), options);
    end loop;
    perform wake();
end $$;
comment on function send_batch(text, jsonb[], jsonb) is
'Sends messages to a queue or topic, as part of this transaction: rolled back, they never existed; once it is committed the server takes them in within milliseconds, all of one transaction together and in order, behind those of transactions that committed before this one began.
queue: name of a queue, or topics/NAME. data: JSON, at most 256 KiB each. options: environment (full name; the default one otherwise), delay and time_to_live (seconds, or an interval), visible_at (a time), priority, idempotency_key (1 to 255 bytes, for a single message), partition (of a topic), and the CloudEvents attributes id, source, subject, type.
Answers the message ids. What cannot be known here is decided when the message is taken in and is never silent: it keeps its id and is found as cancelled, with the reason. Quotas do not refuse what is committed.';

create function send(queue text, data jsonb, options jsonb default '{}') returns text
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
declare
    id text;
begin
    if options <> '{}' then
        perform check_options(options, array['delay', 'environment', 'id', 'idempotency_key', 'partition', 'priority', 'source', 'subject',
                                             'time_to_live', 'type', 'visible_at']);
    end if;
    id := put_message(environment_number(options ->> 'environment'), send.queue, null, 1::smallint,
                      convert_to(coalesce(data, 'null')::text, 'UTF8'), options);
    perform wake();
    return id;
end $$;
comment on function send(text, jsonb, jsonb) is
'Sends one message to a queue or topic, as part of this transaction. Answers its id. See send_batch.';

create function send_bytes(queue text, data bytea, options jsonb default '{}') returns text
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
declare
    id text;
begin
    perform check_options(options, array['content_type', 'delay', 'environment', 'id', 'idempotency_key', 'partition', 'priority',
                                         'source', 'subject', 'time_to_live', 'type', 'visible_at']);
    id := put_message(environment_number(options ->> 'environment'), send_bytes.queue, null, 3::smallint, coalesce(data, ''),
                      '{"content_type": "application/octet-stream"}' || options);
    perform wake();
    return id;
end $$;
comment on function send_bytes(text, bytea, jsonb) is
'Sends one message of any bytes, as send does. Option content_type says what they are: application/octet-stream unless another is given.';

-- Ends a lease: the part that complete and fail share.
create function settle(message_id text, lease_generation bigint, kind smallint, output jsonb, delay bigint, options jsonb) returns void
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
           coalesce(g.deleted, q.deleted) as deleted, e.leases_void_below
        into held
        from delivery d join environment e on e.number = d.environment
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

create function complete(message_id text, lease_generation bigint, output jsonb default null, options jsonb default '{}') returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
begin
    perform check_options(options, array['delivery', 'environment']);
    perform settle(message_id, lease_generation, 1::smallint, output, null, options);
end $$;
comment on function complete(text, bigint, jsonb, jsonb) is
'Ends a lease because the work is done, together with what this transaction writes: both are committed, or neither. Raises MP010 if the lease is not held any more, so that the writes are rolled back. While this transaction is open its lease is not taken away, even after its end; the server does not wait for it.
The queue has to be allowed ahead by allow_sql_settle. options: environment; delivery (of a group''s lease).';

create function fail(message_id text, lease_generation bigint, output jsonb default null, options jsonb default '{}') returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
begin
    perform check_options(options, array['delivery', 'environment', 'retry_after']);
    perform settle(message_id, lease_generation, 2::smallint, output, option_millis(options, 'retry_after', 0, 604800), options);
end $$;
comment on function fail(text, bigint, jsonb, jsonb) is
'Ends a lease because the work failed, together with what this transaction writes. The message is tried again after the queue''s backoff, or after option retry_after (seconds, or an interval), or is dead if that was its last attempt. Raises as complete does.';

create function extend(message_id text, lease_generation bigint, by interval, options jsonb default '{}') returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    own xid8 := pg_current_xact_id();
    target integer;
    part record;
    wanted bigint;
    name text;
    number bigint;
begin
    perform check_options(options, array['delivery', 'environment']);
    if by is null or by < interval '1 second' or by > interval '12 hours' then
        raise exception using errcode = '22023', message = format('by is %s: it has to be 1 second to 12 hours', by);
    end if;
    target := environment_number(options ->> 'environment');
    part := read_message_id(message_id);
    wanted := coalesce((options ->> 'delivery')::bigint, part.sequence);
    select coalesce(g.name, q.name) into name from delivery d
        join queue q on q.environment = d.environment and q.number = d.queue
        left join queue g on q.role = 4 and g.environment = d.environment and g.number = q.parent
        where d.environment = target and d.sequence = wanted and d.state = 2 and d.lease_generation = extend.lease_generation
        and d.nonce = part.nonce;
    if not found then
        raise exception using errcode = 'MP010', message = format('lease %s of %s is not held any more', extend.lease_generation, message_id);
    end if;
    number := nextval('intake_id');
    insert into intake (id, environment, transaction, kind, queue, sequence, sent_at, nonce, delivery, generation, extend_by)
    values (number, target, own, 3, name, part.sequence, part.sent_at, part.nonce, wanted, extend.lease_generation,
            (extract(epoch from by) * 1000)::bigint);
    perform wake();
end $$;
comment on function extend(text, bigint, interval, jsonb) is
'Makes a lease last longer, counted from when the server takes this in: after the commit of this transaction, within milliseconds. Does nothing then if the lease is not held any more. A transaction in which complete was called needs no extension.';

create function cancel(queue text, message_id text, options jsonb default '{}') returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    own xid8 := pg_current_xact_id();
    target integer;
    part record;
    number bigint;
begin
    perform check_options(options, array['environment']);
    target := environment_number(options ->> 'environment');
    part := read_message_id(message_id);
    perform from queue q where q.environment = target and q.name = cancel.queue and not q.deleted;
    if not found then
        raise exception using errcode = '42704', message = format('there is no queue %L', cancel.queue);
    end if;
    number := nextval('intake_id');
    insert into intake (id, environment, transaction, kind, queue, sequence, sent_at, nonce)
    values (number, target, own, 4, cancel.queue, part.sequence, part.sent_at, part.nonce);
    perform wake();
end $$;
comment on function cancel(text, text, jsonb) is
'Ends a message before it is done, once this transaction is committed. Does nothing if it is done by then, or while an open transaction has completed it.';

create function allow_sql_settle(queue text, options jsonb default '{}') returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    own xid8 := pg_current_xact_id();
    target integer;
    number bigint;
begin
    perform check_options(options, array['environment']);
    target := environment_number(options ->> 'environment');
    perform from queue q where q.environment = target and q.name = allow_sql_settle.queue and not q.deleted;
    if not found then
        raise exception using errcode = '42704', message = format('there is no queue %L', allow_sql_settle.queue);
    end if;
    number := nextval('intake_id');
    insert into intake (id, environment, transaction, kind, queue) values (number, target, own, 5, allow_sql_settle.queue);
    perform wake();
end $$;
comment on function allow_sql_settle(text, jsonb) is
'Lets complete and fail end leases of a queue or group (topics/T/groups/G), from when the server has taken this in, for good. From then on the server asks before it gives up a lease of this queue, which costs it a statement.';

-- What a role that may use an environment is granted.
create function public_functions() returns text[]
language sql immutable as $$
    select array['send(text, jsonb, jsonb)', 'send_bytes(text, bytea, jsonb)', 'send_batch(text, jsonb[], jsonb)', 'complete(text, bigint, jsonb, jsonb)',
                 'fail(text, bigint, jsonb, jsonb)', 'extend(text, bigint, interval, jsonb)', 'cancel(text, text, jsonb)',
                 'allow_sql_settle(text, jsonb)', 'allowed_environments()', 'message_id(bigint, bigint, bigint)',
                 'base32(bigint, integer)', 'data_text(smallint, bytea)', 'at(bigint)', 'state_name(smallint)']
$$;

create function grant_access(role name, environment text default null) returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
declare
    target integer;
    granted text;
begin
    if not is_operator() then
        raise exception using errcode = '42501', message = 'only the owner of the schema may do this';
    end if;
    target := environment_number(environment);
    insert into access values (role, target) on conflict do nothing;
    execute format('grant usage on schema %I to %I', @name@, role);
    foreach granted in array public_functions() loop
        execute format('grant execute on function %I.%s to %I', @name@, granted, role);
    end loop;
    execute format('grant select on queues, messages, deliveries, dead_letters, stats to %I', role);
end $$;
comment on function grant_access(name, text) is
'Lets a role use an environment (the default one, unless another is named) by SQL: grants it the functions and the views of this schema, and notes it in the table access. Only for the owner of the schema.';

create function revoke_access(role name, environment text default null) returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    target integer;
begin
    if not is_operator() then
        raise exception using errcode = '42501', message = 'only the owner of the schema may do this';
    end if;
    target := environment_number(environment);
    delete from access a where a.role = revoke_access.role and a.environment = target;
end $$;
comment on function revoke_access(name, text) is
'A role may not use an environment by SQL any more. Only for the owner of the schema.';

revoke all on all functions in schema @schema@ from public;
