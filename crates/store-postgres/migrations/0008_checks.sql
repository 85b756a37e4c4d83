-- What callers may write, checked in full before it is stored: sizes, since a page of the intake is read whole; values, by the rules of
-- the calls over HTTP; and arguments of options, all refused as 22023.

-- An option that is a time.
create function option_time(options jsonb, option text) returns bigint
language plpgsql stable as $$
declare
    millis bigint;
begin
    if jsonb_typeof(options -> option) is null or jsonb_typeof(options -> option) = 'null' then
        return null;
    end if;
    begin
        millis := (extract(epoch from (options ->> option)::timestamptz) * 1000)::bigint;
    exception when data_exception or feature_not_supported then
        millis := null;
    end;
    -- Years 1970 to 9999.
    if millis is null or millis not between 0 and 253402300799999 then
        raise exception using errcode = '22023', message = format(
            'option %s is %s: it has to be a time in the years 1970 to 9999', option, options -> option);
    end if;
    return millis;
end $$;

-- An option that is an integer.
create function option_integer(options jsonb, option text, lowest bigint, highest bigint) returns bigint
language plpgsql immutable as $$
declare
    number numeric;
begin
    if jsonb_typeof(options -> option) is null or jsonb_typeof(options -> option) = 'null' then
        return null;
    end if;
    begin
        number := (options ->> option)::numeric;
    exception when data_exception then
        number := null;
    end;
    if number is null or number <> trunc(number) or number not between lowest and highest then
        raise exception using errcode = '22023', message = format(
            'option %s is %s: it has to be an integer from %s to %s', option, options -> option, lowest, highest);
    end if;
    return number;
end $$;

-- An option that is a text of some bytes.
create function option_text(options jsonb, option text, most integer) returns text
language plpgsql immutable as $$
declare
    given text := options ->> option;
begin
    if octet_length(given) not between 1 and most then
        raise exception using errcode = '22023', message = format(
            'option %s has %s bytes: it has to have 1 to %s', option, octet_length(given), most);
    end if;
    return given;
end $$;

-- The attributes of a CloudEvent, as the server stores them.
create function plain_attributes(id text) returns text
language sql immutable parallel safe as $$
    select '{"id":"' || id || '","source":"sql","type":"message","datacontenttype":"application/json"}'
$$;
revoke all on function plain_attributes(text) from public;

create or replace function event_attributes(id text, options jsonb) returns text
language plpgsql stable as $$
declare
    content_type text;
begin
    if options is null or options = '{}' then
        return plain_attributes(id);
    end if;
    content_type := coalesce(option_text(options, 'content_type', 256), 'application/json');
    if content_type !~ '^[ -~]+$' then
        raise exception using errcode = '22023', message = format(
            'option content_type is %L: it has to be printable ASCII', content_type);
    end if;
    return format('{"id":%s,"source":%s,"type":%s%s,"datacontenttype":%s}',
        to_json(coalesce(option_text(options, 'id', 16384), id)), to_json(coalesce(option_text(options, 'source', 16384), 'sql')),
        to_json(coalesce(option_text(options, 'type', 16384), 'message')),
        case when options ->> 'subject' is not null then ',"subject":' || to_json(option_text(options, 'subject', 16384)) else '' end,
        to_json(content_type));
end $$;

-- As before, with these.
create or replace function put_message(target integer, queue text, attributes text, data_kind smallint, data bytea, options jsonb) returns text
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
        visible_at := option_time(options, 'visible_at');
        priority := coalesce(option_integer(options, 'priority', -2147483648, 2147483647), 0);
        key := option_text(options, 'idempotency_key', 255);
        perform option_text(options, 'partition', 255);
    end if;
    -- Looked at once more: an import may have begun since the environment was looked up.
    select q.role into role from queue q join environment e on e.number = q.environment
        where q.environment = target and q.name = queue and not q.deleted and not e.importing;
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


-- What it asks of the environment is in head (0005).
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
    wanted := coalesce(option_integer(options, 'delivery', 0, 9223372036854775807), part.sequence);
    if octet_length(output::text) > 65536 then
        raise exception using errcode = '22023', message = format('output has %s bytes: at most 65536', octet_length(output::text));
    end if;
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
    perform from (select t.state, t.lease_generation from delivery t where t.environment = target and t.sequence = wanted offset 0) d
        where d.state = 2 and d.lease_generation = settle.lease_generation;
    if not found then
        raise exception using errcode = 'MP010', message = format('lease %s of %s is not held any more', settle.lease_generation, message_id);
    end if;
    number := nextval('intake_id');
    insert into intake (id, environment, transaction, kind, sequence, sent_at, nonce, delivery, generation, output, delay)
    values (number, target, own, kind, part.sequence, part.sent_at, part.nonce, wanted, settle.lease_generation, output::text, delay);
    perform wake();
end $$;


create or replace function extend(message_id text, lease_generation bigint, by interval, options jsonb default '{}') returns void
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
    wanted := coalesce(option_integer(options, 'delivery', 0, 9223372036854775807), part.sequence);
    select coalesce(g.name, q.name) into name from (select t.* from delivery t
        where t.environment = target and t.sequence = wanted offset 0) d
        join queue q on q.environment = d.environment and q.number = d.queue
        left join queue g on q.role = 4 and g.environment = d.environment and g.number = q.parent
        where d.state = 2 and d.lease_generation = extend.lease_generation
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


-- What views call runs as who reads them, on their search path. Their bodies are read here and now, so that nobody puts a function or an
-- operator of their own in the place of one of these. A text with U+0000 cannot be one here.
create or replace function data_text(kind smallint, data bytea) returns text
language sql immutable parallel safe
return case when kind in (1, 2) and position(decode('00', 'hex') in data) = 0 then convert_from(data, 'UTF8') end;

create or replace function at(millis bigint) returns timestamptz
language sql immutable parallel safe
return to_timestamp(millis / 1000.0);

create or replace function state_name(state smallint) returns text
language sql immutable parallel safe
return (array['delayed', 'ready', 'leased', 'completed', 'dead', 'cancelled'])[state + 1];

-- Access belongs to a role, not to whoever has its name later; in a dump it is written as a name, as all rights are.
alter table access add column role_number regrole;
update access a set role_number = r.oid from pg_roles r where r.rolname = a.role;
delete from access where role_number is null;
alter table access alter column role_number set not null;
alter table access drop constraint access_pkey, add primary key (role_number, environment);

create or replace function allowed_environments() returns setof integer
language sql stable security definer set search_path = @schema@, pg_temp as $$
    select number from environment where is_operator()
    union
    select a.environment from access a join pg_roles r on r.oid = a.role_number where pg_has_role(caller(), r.oid, 'usage')
$$;

-- Until an import has come to its end nobody may add to what it brings.
alter table environment add column importing boolean not null default false;
update environment e set importing = true from head h where h.environment = e.number and h.incarnation = 9223372036854775807;

create or replace function environment_number(environment_name text) returns integer
language plpgsql stable as $$
declare
    wanted text := coalesce(environment_name, nullif(current_setting('millpond.environment', true), ''),
                            'orgs/default/projects/default/envs/default');
    found_number integer;
    is_importing boolean;
    may_all boolean := is_operator();
begin
    select e.number, e.importing into found_number, is_importing from environment e where e.name = wanted;
    if found_number is null or not may_all and not exists (
        select from access a join pg_roles r on r.oid = a.role_number
        where a.environment = found_number and pg_has_role(caller(), r.oid, 'usage')) then
        if found_number is null and may_all then
            raise exception using errcode = '42704', message = format('there is no environment %s', wanted),
                hint = 'The server makes its default environment when it starts, and those of its regions.';
        end if;
        raise exception using errcode = '42501', message = format('role %s may not use environment %s', caller(), wanted),
            hint = 'The owner of the schema can allow it: select grant_access(role, environment).';
    end if;
    if is_importing then
        raise exception using errcode = '55000', message = format('environment %s is being imported', wanted),
            hint = 'It can be used once the import has come to its end.';
    end if;
    return found_number;
end $$;

create or replace function grant_access(role name, environment text default null) returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    target integer;
    granted text;
begin
    if not is_operator() then
        raise exception using errcode = '42501', message = 'only the owner of the schema may do this';
    end if;
    target := environment_number(environment);
    delete from access a where not exists (select from pg_roles r where r.oid = a.role_number);
    insert into access select r.rolname, target, r.oid from pg_roles r where r.rolname = grant_access.role
        on conflict (role_number, environment) do update set role = excluded.role;
    execute format('grant usage on schema %I to %I', @name@, role);
    foreach granted in array public_functions() loop
        execute format('grant execute on function %I.%s to %I', @name@, granted, role);
    end loop;
    execute format('grant select on queues, messages, deliveries, dead_letters, stats, refused to %I', role);
end $$;

create or replace function revoke_access(role name, environment text default null) returns void
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    target integer;
begin
    if not is_operator() then
        raise exception using errcode = '42501', message = 'only the owner of the schema may do this';
    end if;
    target := environment_number(environment);
    delete from access a using pg_roles r where r.rolname = revoke_access.role and a.role_number = r.oid and a.environment = target;
end $$;


revoke all on function option_time(jsonb, text), option_integer(jsonb, text, bigint, bigint), option_text(jsonb, text, integer) from public;
