-- The whole schema of Millpond, as the steps in migrations/ make it, for readers. Nothing is made from this file.
--
-- It is read from the catalogs of a PostgreSQL, so a test can hold it against them. To write it anew:
--
--     cargo run -p millpond-store-postgres --example schema > crates/store-postgres/schema.sql
--
-- Times are milliseconds since the Unix epoch. Numbers that a program may use without a sign are kept by their bits.
-- Names and texts hold what was given, but for the character that PostgreSQL cannot store: U+0000 is written as
-- U+10FFFF followed by `0`, and U+10FFFF itself twice.
-- Only the server that owns an environment writes these tables, `intake` and `settlement` excepted. Read the views.
-- As PostgreSQL 15 tells it.

set check_function_bodies = off;

create schema millpond;

create sequence millpond.external_sequence as bigint increment 1 minvalue 140737488355328 maxvalue 281474976710655 start 140737488355328 cache 1;
create sequence millpond.intake_id as bigint increment 1 minvalue 1 maxvalue 9223372036854775807 start 1 cache 1;

create table millpond.migration (
    number              integer not null,
    name                text not null,
    applied_at          timestamp with time zone not null default now(),
    PRIMARY KEY (number)
);

create table millpond.server (
    id                  uuid not null,
    name                text not null, -- host and process, for people
    process             text not null, -- tells on the same machine whether it still runs
    started_at          timestamp with time zone not null,
    seen_at             timestamp with time zone not null,
    PRIMARY KEY (id)
) with (fillfactor=10);

create table millpond.environment (
    number              integer generated always as identity,
    name                text collate "C" not null,
    system              text not null default ''::text,
    timeline            bigint not null default 0,
    database            oid not null default 0,
    next_due            bigint,
    importing           boolean not null default false,
    UNIQUE (name),
    PRIMARY KEY (number)
) with (fillfactor=10);

create table millpond.queue (
    environment         integer not null,
    number              bigint not null,
    name                text collate "C" not null,
    uid                 bytea not null, -- 16 bytes
    generation          bigint not null,
    revision            bigint not null,
    created_at          bigint not null,
    updated_at          bigint not null,
    annotations         text not null, -- JSON
    spec                text not null, -- JSON
    paused_at           bigint,
    purged_through      bigint not null,
    deleted             boolean not null,
    sweep_owed          boolean not null,
    dead_purged_through bigint not null,
    role                smallint not null, -- 0 queue, 1 topic, 2 partition, 3 group, 4 cursor
    parent              bigint, -- topic of a partition or group, group of a cursor
    log                 bigint, -- these two of a cursor
    start               bigint,
    settled_by_sql      boolean not null, -- leases may be ended by complete and fail
    PRIMARY KEY (environment, number)
) with (fillfactor=70);
CREATE INDEX queue_name ON millpond.queue USING btree (environment, name) WHERE (NOT deleted);

create table millpond.counters (
    environment         integer not null,
    queue               bigint not null,
    ready               bigint not null,
    delayed             bigint not null,
    leased              bigint not null,
    dead                bigint not null,
    completed           bigint not null,
    cancelled           bigint not null,
    waiting_bytes       bigint not null, -- of ready and delayed deliveries
    leased_bytes        bigint not null,
    dead_bytes          bigint not null,
    finished_bytes      bigint not null, -- of completed and cancelled deliveries
    total_sent          bigint not null,
    total_delivered     bigint not null,
    total_undone        bigint not null,
    total_acked         bigint not null,
    total_dead          bigint not null,
    total_expired       bigint not null,
    consumer_seen_at    bigint not null,
    position            bigint not null, -- a number in a log: its last, or the last that a cursor has handed out
    written             bigint not null default 0,
    PRIMARY KEY (environment, queue, written)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);

create table millpond.message (
    environment         integer not null,
    sequence            bigint not null,
    attributes          text not null, -- JSON
    data_kind           smallint not null, -- 0 none, 1 JSON, 2 text, 3 binary
    data_bytes          bigint not null, -- wherever the data is
    chunks              bigint not null, -- rows of chunk that hold the data; 0: it is in this row
    data                bytea not null,
    PRIMARY KEY (environment, sequence)
) with (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_insert_scale_factor=0.2);

create table millpond.chunk (
    environment         integer not null,
    sequence            bigint not null, -- the message's, or the upload's
    number              bigint not null, -- from 0
    data                bytea not null,
    PRIMARY KEY (environment, sequence, number)
);
alter table millpond.chunk alter column data set storage external;

create table millpond.upload (
    environment         integer not null,
    sequence            bigint not null, -- its chunks belong to no message
    chunks              bigint not null, -- so many, from number 0 on
    PRIMARY KEY (environment, sequence)
) with (fillfactor=50);

create table millpond.delivery (
    environment         integer not null,
    sequence            bigint not null, -- the message's, unless message says another
    queue               bigint not null,
    state               smallint not null, -- 0 delayed, 1 ready, 2 leased, 3 completed, 4 dead, 5 cancelled
    priority_descending bigint not null, -- minus the priority
    retried             boolean not null,
    order_at            bigint not null,
    due_at              bigint not null,
    leased_at           bigint not null,
    lease_generation    bigint not null,
    delivery_count      bigint not null,
    failure_count       bigint not null,
    lost_lease_count    bigint not null,
    expires_at          bigint not null,
    nonce               bigint not null,
    sent_at             bigint not null,
    entered             bigint not null,
    dead_at             bigint,
    dead_reason         smallint, -- see the view deliveries
    dead_queue          text,
    size_bytes          bigint not null, -- of the message's content, wherever its data is
    chunks              bigint not null, -- as in message
    message             bigint, -- of a group's progress: the message's sequence
    hold                smallint not null, -- of a lease: 0 granted, 1 extended, 2 reserved
    PRIMARY KEY (environment, sequence)
) with (fillfactor=80, autovacuum_vacuum_scale_factor=0.02, autovacuum_analyze_scale_factor=0.2);
CREATE INDEX delivery_due ON millpond.delivery USING btree (environment, queue, state, due_at, sequence) WHERE (state <> 1);
CREATE INDEX delivery_expiry ON millpond.delivery USING btree (environment, expires_at, sequence) WHERE (state >= 0);
CREATE INDEX delivery_message ON millpond.delivery USING btree (environment, queue, message) WHERE (message IS NOT NULL);
CREATE INDEX delivery_ready ON millpond.delivery USING btree (environment, queue, priority_descending, retried, order_at, sequence) WHERE (state = 1);

create table millpond.segment (
    environment         integer not null,
    log                 bigint not null,
    place               bigint not null, -- from 0
    live                bytea not null, -- 128 bytes: a bit for each number, from the lowest of the first byte
    PRIMARY KEY (environment, log, place)
) with (fillfactor=50);

create table millpond.run (
    environment         integer not null,
    cursor              bigint not null,
    first               bigint not null,
    last                bigint not null,
    written             bigint not null default 0,
    PRIMARY KEY (environment, cursor, first, written)
);

create table millpond.dedup (
    environment         integer not null,
    queue               bigint not null, -- -1: no send but a call on the environment
    key                 text collate "C" not null,
    digest              bytea not null, -- 16 bytes
    sent_at             bigint, -- these four of a send
    first_sequence      bigint,
    count               bigint,
    nonce_seed          bigint,
    answer              text, -- of any other call: JSON
    expires_at          bigint not null,
    PRIMARY KEY (environment, queue, key)
) with (autovacuum_vacuum_scale_factor=0.02);
CREATE INDEX dedup_expiry ON millpond.dedup USING btree (environment, expires_at) WHERE (queue >= '-1'::integer);

create table millpond.trigger (
    environment         integer not null,
    id                  text collate "C" not null,
    number              bigint not null,
    uid                 bytea not null, -- 16 bytes
    created_at          bigint not null,
    deployment          text,
    topic               text not null, -- or a prefix and *
    consumer            text not null, -- the group
    target              text not null,
    spec                text not null, -- JSON
    PRIMARY KEY (environment, id)
);

create table millpond.secret (
    environment         integer not null,
    current             text not null,
    previous            text, -- these two of one that was replaced
    previous_until      bigint,
    since               bigint not null,
    PRIMARY KEY (environment)
);

create table millpond.intake (
    id                  bigint not null,
    environment         integer not null,
    transaction         xid8 not null, -- those of one transaction are taken in together
    kind                smallint not null, -- 0 send, 1 complete, 2 fail, 3 extend, 4 cancel, 5 allow settling by SQL
    queue               text, -- name of a queue, a topic, a partition or a group
    partition           text, -- of a topic
    sequence            bigint, -- of the message; with these two its id
    sent_at             bigint,
    nonce               bigint,
    attributes          text, -- these of a send
    data_kind           smallint,
    data                bytea,
    delay               bigint, -- milliseconds; of a failed one until it is tried again
    visible_at          bigint,
    priority            integer,
    time_to_live        bigint, -- milliseconds
    key                 text, -- idempotency key
    delivery            bigint, -- these of a lease
    generation          bigint,
    output              text, -- JSON
    extend_by           bigint, -- milliseconds
    PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_insert_threshold=100000);
CREATE INDEX intake_environment ON millpond.intake USING btree (environment, id);
CREATE INDEX intake_transaction ON millpond.intake USING btree (transaction, ((id + 0)));

create table millpond.settlement (
    environment         integer not null,
    delivery            bigint not null,
    generation          bigint not null,
    owner               boolean not null, -- the owner gave the lease up: nobody completes it any more
    ended_by            xid8, -- a transaction that saw the lease gone
    PRIMARY KEY (environment, delivery, generation)
) with (fillfactor=70);
CREATE INDEX settlement_ended ON millpond.settlement USING btree (ended_by) WHERE (ended_by IS NOT NULL);

create table millpond.access (
    role                name not null,
    environment         integer not null,
    role_number         regrole not null,
    FOREIGN KEY (environment) REFERENCES millpond.environment(number) ON DELETE CASCADE,
    PRIMARY KEY (role_number, environment)
);

create unlogged table millpond.watcher (
    server              uuid not null,
    asleep              boolean not null,
    PRIMARY KEY (server)
) with (fillfactor=10);

create table millpond.low_water (
    environment         integer not null,
    queue               bigint not null, -- -1: an order over all queues
    kind                smallint not null, -- state of the deliveries; over all queues: 0 expiry, 1 expiry of remembered calls
    priority_descending bigint not null, -- these four: the key behind which the order begins
    retried             boolean not null,
    order_at            bigint not null,
    sequence            bigint not null,
    written             bigint not null default 0,
    PRIMARY KEY (environment, queue, kind, written)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);

create table millpond.head (
    environment         integer not null,
    commit_seq          bigint not null default 0, -- number of the last commit
    epoch               bigint not null default 0, -- rises at each open: fences the owner before
    incarnation         bigint not null default 0,
    stamp               bigint not null default 0,
    next_sequence       bigint not null default 0,
    next_queue          bigint not null default 0,
    dedup_count         bigint not null default 0,
    leases_void_below   bigint not null default 0, -- leases of a lower generation came with a restored copy
    PRIMARY KEY (environment, commit_seq)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);

create table millpond.intake_floor (
    environment         integer not null,
    number              bigint not null,
    PRIMARY KEY (environment, number)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);

CREATE OR REPLACE FUNCTION millpond.allow_sql_settle(queue text, options jsonb DEFAULT '{}'::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.allowed_environments()
 RETURNS SETOF integer
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
AS $function$
    select number from environment where is_operator()
    union
    select a.environment from access a join pg_roles r on r.oid = a.role_number where pg_has_role(caller(), r.oid, 'usage')
$function$;

CREATE OR REPLACE FUNCTION millpond.at(millis bigint)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN to_timestamp((((millis)::numeric / 1000.0))::double precision);

CREATE OR REPLACE FUNCTION millpond.base32(value bigint, digits integer)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
declare
    made text := '';
begin
    for place in reverse digits - 1 .. 0 loop
        made := made || pg_catalog.substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ'::text, ((value >> (5 * place)) & 31::bigint)::integer + 1, 1);
    end loop;
    return made;
end $function$;

CREATE OR REPLACE FUNCTION millpond.caller()
 RETURNS name
 LANGUAGE sql
 STABLE
AS $function$
    select case current_setting('role') when 'none' then session_user else current_setting('role')::name end
$function$;

CREATE OR REPLACE FUNCTION millpond.cancel(queue text, message_id text, options jsonb DEFAULT '{}'::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.check_options(options jsonb, known text[])
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.claim_each(target integer, deliveries bigint[], generations bigint[], claiming bigint)
 RETURNS SETOF integer
 LANGUAGE plpgsql
 SET lock_timeout TO '1ms'
AS $function$
begin
    for place in 1 .. coalesce(array_length(deliveries, 1), 0) loop
        begin
            insert into settlement (environment, delivery, generation, owner)
                select target, d.sequence, d.lease_generation, true from (select t.* from delivery t
                    where t.environment = target and t.sequence = deliveries[place] offset 0) d
                where d.state = 2 and d.lease_generation = generations[place] and claiming = (select h.epoch from head h
                    where h.environment = target order by h.commit_seq desc limit 1)
                on conflict do nothing;
        exception when lock_not_available then
            return next place;
        end;
    end loop;
end $function$;

CREATE OR REPLACE FUNCTION millpond.complete(message_id text, lease_generation bigint, output jsonb DEFAULT NULL::jsonb, options jsonb DEFAULT '{}'::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
begin
    perform check_options(options, array['delivery', 'environment']);
    perform settle(message_id, lease_generation, 1::smallint, output, null, options);
end $function$;

CREATE OR REPLACE FUNCTION millpond.data_fault(data jsonb)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
declare
    written text := data::text;
begin
    if octet_length(written) < 122 then
        return null;
    elsif data @? 'strict $.**{60} ? (@.type() == "array" || @.type() == "object")' then
        return 'data is nested more than 60 deep';
    elsif written ~ '([0-9]{103}){3}' and data @? 'strict $.** ? (@.type() == "number" &&
            (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))' then
        return 'data has a number beyond the range of a 64-bit float';
    end if;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION millpond.data_text(kind smallint, data bytea)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN ((kind = ANY (ARRAY[1, 2])) AND (POSITION((decode('00'::text, 'hex'::text)) IN (data)) = 0)) THEN convert_from(data, 'UTF8'::name) ELSE NULL::text END;

CREATE OR REPLACE FUNCTION millpond.demand(counted bigint, wanted bigint, state text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    if counted is distinct from wanted then
        raise exception using errcode = state, message = format('%s rows where %s are expected', counted, wanted);
    end if;
end $function$;

CREATE OR REPLACE FUNCTION millpond.environment_number(environment_name text)
 RETURNS integer
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.event_attributes(id text, options jsonb)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.extend(message_id text, lease_generation bigint, by interval, options jsonb DEFAULT '{}'::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.fail(message_id text, lease_generation bigint, output jsonb DEFAULT NULL::jsonb, options jsonb DEFAULT '{}'::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
begin
    perform check_options(options, array['delivery', 'environment', 'retry_after']);
    perform settle(message_id, lease_generation, 2::smallint, output, option_millis(options, 'retry_after', 0, 604800), options);
end $function$;

CREATE OR REPLACE FUNCTION millpond.grant_access(role name, environment text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
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
    execute format('grant usage on schema %I to %I', 'millpond', role);
    foreach granted in array public_functions() loop
        execute format('grant execute on function %I.%s to %I', 'millpond', granted, role);
    end loop;
    execute format('grant select on queues, messages, deliveries, dead_letters, stats, refused to %I', role);
end $function$;

CREATE OR REPLACE FUNCTION millpond.is_operator()
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
    return pg_has_role(caller(), (select nspowner from pg_namespace where nspname = 'millpond'), 'usage');
end $function$;

CREATE OR REPLACE FUNCTION millpond.message_id(sent_at bigint, sequence bigint, nonce bigint)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((('msg_'::text || millpond.base32(((sent_at << 4) | (sequence >> 44)), 10)) || millpond.base32((((sequence & '17592186044415'::bigint) << 6) | (nonce >> 30)), 10)) || millpond.base32((nonce & (1073741823)::bigint), 6));

CREATE OR REPLACE FUNCTION millpond.now_millis()
 RETURNS bigint
 LANGUAGE sql
AS $function$
    select (extract(epoch from clock_timestamp()) * 1000)::bigint
$function$;

CREATE OR REPLACE FUNCTION millpond.option_integer(options jsonb, option text, lowest bigint, highest bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.option_millis(options jsonb, option text, lowest double precision, highest double precision)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.option_text(options jsonb, option text, most integer)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
    given text := options ->> option;
begin
    if octet_length(given) not between 1 and most then
        raise exception using errcode = '22023', message = format(
            'option %s has %s bytes: it has to have 1 to %s', option, octet_length(given), most);
    end if;
    return given;
end $function$;

CREATE OR REPLACE FUNCTION millpond.option_time(options jsonb, option text)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.plain_attributes(id text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    select '{"id":"' || id || '","source":"sql","type":"message","datacontenttype":"application/json"}'
$function$;

CREATE OR REPLACE FUNCTION millpond.public_functions()
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select array['send(text, jsonb, jsonb)', 'send_bytes(text, bytea, jsonb)', 'send_batch(text, jsonb[], jsonb)', 'complete(text, bigint, jsonb, jsonb)',
                 'fail(text, bigint, jsonb, jsonb)', 'extend(text, bigint, interval, jsonb)', 'cancel(text, text, jsonb)',
                 'allow_sql_settle(text, jsonb)', 'allowed_environments()', 'message_id(bigint, bigint, bigint)',
                 'base32(bigint, integer)', 'data_text(smallint, bytea)', 'at(bigint)', 'state_name(smallint)']
$function$;

CREATE OR REPLACE FUNCTION millpond.put_message(target integer, queue text, attributes text, data_kind smallint, data bytea, options jsonb)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.read_message_id(id text, OUT sent_at bigint, OUT sequence bigint, OUT nonce bigint)
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.revoke_access(role name, environment text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_variable
declare
    target integer;
begin
    if not is_operator() then
        raise exception using errcode = '42501', message = 'only the owner of the schema may do this';
    end if;
    target := environment_number(environment);
    delete from access a using pg_roles r where r.rolname = revoke_access.role and a.role_number = r.oid and a.environment = target;
end $function$;

CREATE OR REPLACE FUNCTION millpond.send(queue text, data jsonb, options jsonb DEFAULT '{}'::jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
    written bytea := convert_to(coalesce(send.data, 'null')::text, 'UTF8');
    fault text;
    made text;
begin
    if options = '{}' then
        declare
            -- Before a number is drawn: see put_message.
            own xid8 := pg_current_xact_id();
            made_at bigint := now_millis();
            drawn bigint := nextval('external_sequence');
            random_part bigint := (random() * 68719476735)::bigint;
            is_asleep boolean;
        begin
            made := message_id(made_at, drawn, random_part);
            insert into intake (id, environment, transaction, kind, queue, sequence, sent_at, nonce, attributes, data_kind, data, priority)
            select nextval('intake_id'), e.number, own, 0, q.name, drawn, made_at, random_part, plain_attributes(made), 1, written, 0
                from environment e join queue q on q.environment = e.number
                where e.name = coalesce(nullif(current_setting('millpond.environment', true), ''), 'orgs/default/projects/default/envs/default')
                    and not e.importing and q.name = send.queue and not q.deleted and q.role <= 2 and octet_length(written) <= 262144
                    and (octet_length(written) < 122 or data_fault(send.data) is null)
                    and (pg_has_role(caller(), current_user, 'usage')
                         or exists (select from access a where a.environment = e.number and pg_has_role(caller(), a.role_number, 'usage')))
                returning exists (select from watcher where asleep) into is_asleep;
            if found then
                if is_asleep then
                    perform wake();
                end if;
                return made;
            end if;
        end;
    else
        perform check_options(options, array['delay', 'environment', 'id', 'idempotency_key', 'partition', 'priority', 'source', 'subject',
                                             'time_to_live', 'type', 'visible_at']);
    end if;
    fault := data_fault(send.data);
    if fault is not null then
        raise exception using errcode = '22023', message = fault;
    end if;
    made := put_message(environment_number(options ->> 'environment'), send.queue, null, 1::smallint, written, options);
    perform wake();
    return made;
end $function$;

CREATE OR REPLACE FUNCTION millpond.send_batch(queue text, data jsonb[], options jsonb DEFAULT '{}'::jsonb)
 RETURNS SETOF text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
declare
    target integer;
    item jsonb;
    fault text;
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
        fault := data_fault(item);
        if fault is not null then
            raise exception using errcode = '22023', message = fault;
        end if;
        return next put_message(target, send_batch.queue, null, 1::smallint, convert_to(coalesce(item, 'null')::text, 'UTF8'), options);
    end loop;
    perform wake();
end $function$;

CREATE OR REPLACE FUNCTION millpond.send_bytes(queue text, data bytea, options jsonb DEFAULT '{}'::jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'millpond', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
declare
    id text;
begin
    perform check_options(options, array['content_type', 'delay', 'environment', 'id', 'idempotency_key', 'partition', 'priority',
                                         'source', 'subject', 'time_to_live', 'type', 'visible_at']);
    id := put_message(environment_number(options ->> 'environment'), send_bytes.queue, null, 3::smallint, coalesce(data, ''),
                      '{"content_type": "application/octet-stream"}' || options);
    perform wake();
    return id;
end $function$;

CREATE OR REPLACE FUNCTION millpond.settle(message_id text, lease_generation bigint, kind smallint, output jsonb, delay bigint, options jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION millpond.state_name(state smallint)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (ARRAY['delayed'::text, 'ready'::text, 'leased'::text, 'completed'::text, 'dead'::text, 'cancelled'::text])[(state + 1)];

CREATE OR REPLACE FUNCTION millpond.wake()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    -- A transaction that is to be prepared may not notify.
    if current_setting('millpond.notify', true) is distinct from 'off' and exists (select from watcher w join server s on s.id = w.server
            where w.asleep and s.seen_at > clock_timestamp() - interval '10 seconds') then
        perform pg_notify('millpond_' || md5('millpond'), '');
    end if;
end $function$;

revoke all on all functions in schema millpond from public;

create view millpond.queues with (security_barrier=true) as
 SELECT e.name AS environment, q.name AS queue,
    (ARRAY['queue'::text, 'topic'::text, 'partition'::text, 'group'::text])[q.role + 1] AS role,
    millpond.at(q.created_at) AS created_at, millpond.at(q.updated_at) AS updated_at,
    millpond.at(q.paused_at) AS paused_since, q.settled_by_sql, q.spec::json AS policies,
    q.annotations::json AS annotations
   FROM millpond.queue q
     JOIN millpond.environment e ON e.number = q.environment
  WHERE q.role < 4 AND NOT q.deleted AND (q.environment = ANY ((ARRAY( SELECT millpond.allowed_environments() AS allowed_environments))));

create view millpond.stats with (security_barrier=true) as
 SELECT e.name AS environment, q.name AS queue, c.ready, c.delayed, c.leased, c.dead, c.completed,
    c.cancelled, c.waiting_bytes, c.leased_bytes, c.dead_bytes, c.finished_bytes, c.total_sent,
    c.total_delivered, c.total_undone, c.total_acked, c.total_dead, c.total_expired,
    millpond.at(NULLIF(c.consumer_seen_at, 0)) AS consumer_seen_at
   FROM millpond.queue q
     JOIN millpond.environment e ON e.number = q.environment
     CROSS JOIN LATERAL ( SELECT n.environment, n.queue, n.ready, n.delayed, n.leased, n.dead,
            n.completed, n.cancelled, n.waiting_bytes, n.leased_bytes, n.dead_bytes,
            n.finished_bytes, n.total_sent, n.total_delivered, n.total_undone, n.total_acked,
            n.total_dead, n.total_expired, n.consumer_seen_at, n."position", n.written
           FROM millpond.counters n
          WHERE n.environment = q.environment AND n.queue = q.number
          ORDER BY n.written DESC
         LIMIT 1) c
  WHERE q.role < 4 AND NOT q.deleted AND (q.environment = ANY ((ARRAY( SELECT millpond.allowed_environments() AS allowed_environments))));

create view millpond.deliveries with (security_barrier=true) as
 SELECT e.name AS environment, COALESCE(g.name, q.name, d.dead_queue) AS queue,
    millpond.message_id(d.sent_at, COALESCE(d.message, d.sequence), d.nonce) AS message_id,
    d.sequence AS delivery, millpond.state_name(d.state) AS state,
    - d.priority_descending AS priority, millpond.at(d.sent_at) AS sent_at,
        CASE
            WHEN d.state = 0 THEN millpond.at(d.due_at)
            ELSE NULL::timestamp with time zone
        END AS visible_at,
        CASE
            WHEN d.state = 2 THEN millpond.at(d.due_at)
            ELSE NULL::timestamp with time zone
        END AS lease_until,
        CASE
            WHEN d.state = ANY (ARRAY[3, 4, 5]) THEN millpond.at(d.due_at)
            ELSE NULL::timestamp with time zone
        END AS finished_at,
    millpond.at(d.expires_at) AS expires_at, d.lease_generation, d.delivery_count, d.failure_count,
    d.lost_lease_count, d.size_bytes, millpond.at(d.dead_at) AS dead_at, d.dead_queue,
    (ARRAY['attempts spent'::text, 'leases lost'::text, 'cancelled'::text, 'deduplicated'::text, 'queue deleted'::text, 'refused'::text])[d.dead_reason + 1] AS reason
   FROM millpond.delivery d
     JOIN millpond.environment e ON e.number = d.environment
     LEFT JOIN millpond.queue q ON q.environment = d.environment AND q.number = d.queue
     LEFT JOIN millpond.queue g ON q.role = 4 AND g.environment = d.environment AND g.number = q.parent
  WHERE d.environment = ANY ((ARRAY( SELECT millpond.allowed_environments() AS allowed_environments)));

create view millpond.messages with (security_barrier=true) as
 SELECT v.environment, v.queue, v.message_id, v.state, v.priority, v.sent_at, v.visible_at,
    v.lease_until, v.finished_at, v.expires_at, v.delivery_count, v.failure_count, v.reason,
    m.attributes::json AS attributes,
    (ARRAY['none'::text, 'json'::text, 'text'::text, 'binary'::text])[m.data_kind + 1] AS data_kind,
    m.data_bytes,
        CASE
            WHEN m.chunks = 0 THEN millpond.data_text(m.data_kind, m.data)
            ELSE NULL::text
        END AS data,
        CASE
            WHEN m.chunks = 0 THEN m.data
            ELSE NULL::bytea
        END AS data_bytes_raw
   FROM millpond.deliveries v
     JOIN millpond.environment e ON e.name = v.environment
     JOIN millpond.message m ON m.environment = e.number AND m.sequence = v.delivery;

create view millpond.dead_letters with (security_barrier=true) as
 SELECT messages.environment, messages.queue, messages.message_id, messages.state, messages.priority,
    messages.sent_at, messages.visible_at, messages.lease_until, messages.finished_at,
    messages.expires_at, messages.delivery_count, messages.failure_count, messages.reason,
    messages.attributes, messages.data_kind, messages.data_bytes, messages.data,
    messages.data_bytes_raw
   FROM millpond.messages
  WHERE messages.state = 'dead'::text;

create view millpond.refused with (security_barrier=true) as
 SELECT e.name AS environment, d.dead_queue AS queue,
    millpond.message_id(d.sent_at, d.sequence, d.nonce) AS message_id,
    (ARRAY['attempts spent'::text, 'leases lost'::text, 'cancelled'::text, 'deduplicated'::text, 'queue deleted'::text, 'refused'::text])[d.dead_reason + 1] AS reason,
    millpond.at(d.sent_at) AS sent_at, millpond.at(d.due_at) AS refused_at,
    millpond.at(d.expires_at) AS kept_until, m.attributes::json ->> 'source'::text AS source,
    m.attributes::json AS attributes,
        CASE
            WHEN m.chunks = 0 THEN millpond.data_text(m.data_kind, m.data)
            ELSE NULL::text
        END AS data
   FROM millpond.delivery d
     JOIN millpond.environment e ON e.number = d.environment
     JOIN millpond.message m ON m.environment = d.environment AND m.sequence = d.sequence
  WHERE d.queue = '4294967295'::bigint AND d.state = 5 AND (d.environment = ANY ((ARRAY( SELECT millpond.allowed_environments() AS allowed_environments))));

comment on function millpond.allow_sql_settle(text,jsonb) is 'Lets complete and fail end leases of a queue or group (topics/T/groups/G), from when the server has taken this in, for good. From then on the server asks before it gives up a lease of this queue, which costs it a statement.';
comment on function millpond.cancel(text,text,jsonb) is 'Ends a message before it is done, once this transaction is committed. Does nothing if it is done by then, or while an open transaction has completed it.';
comment on function millpond.complete(text,bigint,jsonb,jsonb) is 'Ends a lease because the work is done, together with what this transaction writes: both are committed, or neither. Raises MP010 if the lease is not held any more, so that the writes are rolled back. While this transaction is open its lease is not taken away, even after its end; the server does not wait for it.
The queue has to be allowed ahead by allow_sql_settle. options: environment; delivery (of a group''s lease).';
comment on function millpond.extend(text,bigint,interval,jsonb) is 'Makes a lease last longer, counted from when the server takes this in: after the commit of this transaction, within milliseconds. Does nothing then if the lease is not held any more. A transaction in which complete was called needs no extension.';
comment on function millpond.fail(text,bigint,jsonb,jsonb) is 'Ends a lease because the work failed, together with what this transaction writes. The message is tried again after the queue''s backoff, or after option retry_after (seconds, or an interval), or is dead if that was its last attempt. Raises as complete does.';
comment on function millpond.grant_access(name,text) is 'Lets a role use an environment (the default one, unless another is named) by SQL: grants it the functions and the views of this schema, and notes it in the table access. Only for the owner of the schema.';
comment on function millpond.revoke_access(name,text) is 'A role may not use an environment by SQL any more. Only for the owner of the schema.';
comment on function millpond.send(text,jsonb,jsonb) is 'Sends one message to a queue or topic, as part of this transaction. Answers its id. See send_batch.';
comment on function millpond.send_batch(text,jsonb[],jsonb) is 'Sends messages to a queue or topic, as part of this transaction: rolled back, they never existed; once it is committed the server takes them in within milliseconds, all of one transaction together and in order, behind those of transactions that committed before this one began.
queue: name of a queue, or topics/NAME. data: JSON, at most 256 KiB each. options: environment (full name; the default one otherwise), delay and time_to_live (seconds, or an interval), visible_at (a time), priority, idempotency_key (1 to 255 bytes, for a single message), partition (of a topic), and the CloudEvents attributes id, source, subject, type.
Answers the message ids. What cannot be known here is decided when the message is taken in and is never silent: it keeps its id and is found as cancelled, with the reason. Quotas do not refuse what is committed.';
comment on function millpond.send_bytes(text,bytea,jsonb) is 'Sends one message of any bytes, as send does. Option content_type says what they are: application/octet-stream unless another is given.';
comment on table millpond.access is 'Which role may use which environment by SQL. The owner of this schema and superusers may use all.';
comment on table millpond.counters is 'Exact counts of each queue. Rewritten by every commit that changes them.';
comment on table millpond.environment is 'One row an environment: its name, and where it was opened last.';
comment on table millpond.head is 'One row an environment: its fence, which every commit moves, and what the owner needs at its next opening.';
comment on table millpond.intake_floor is 'Below this number everything in the intake of an environment was taken or never comes. Raised now and then.';
comment on table millpond.low_water is 'Nothing that is of use sorts before these keys. Raised now and then, lowered in the commit that writes a row before one.';
comment on table millpond.migration is 'Steps of the schema that were applied, in order. There is no way back.';
comment on table millpond.server is 'The server that serves this schema. It renews its row each second; five seconds without that and another may take its place.';
comment on view millpond.dead_letters is 'Messages that are out of attempts, and why.';
comment on view millpond.deliveries is 'How far each queue or group is with each message. Of a topic''s messages only those that a group has taken and not yet settled are here for that group.';
comment on view millpond.messages is 'Messages with what was sent. data is JSON or text; data that is larger than 64 KiB is read over HTTP.';
comment on view millpond.queues is 'Queues, topics, partitions and groups, with their policies.';
comment on view millpond.refused is 'Messages by SQL that were refused when they were taken in, and why. They are in no queue.';
comment on view millpond.stats is 'Counts of each queue, exact as of the last commit of the server. What a topic''s groups have before them is not here.';
