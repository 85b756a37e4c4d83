-- What of a transaction lies behind a page of the intake. No other statement can take this index: where a table is thought to be empty all
-- indexes seem to cost the same, and one that begins with the environment was taken to find rows by their numbers, by walking over all of
-- it. And its keys are asked for as equal and greater, not as rows that are compared: a walk ends at a row comparison only if the first
-- column decides.
drop index intake_transaction;
create index intake_transaction on intake (transaction, (id + 0));

-- As a loop: what each transaction has to prepare of a function counts for more than how often it then runs. Views call it, so each
-- operator has exactly the types of one of PostgreSQL's own, which nobody can put another in front of.
create or replace function base32(value bigint, digits integer) returns text
language plpgsql immutable parallel safe as $$
declare
    made text := '';
begin
    for place in reverse digits - 1 .. 0 loop
        made := made || pg_catalog.substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ'::text, ((value >> (5 * place)) & 31::bigint)::integer + 1, 1);
    end loop;
    return made;
end $$;

create or replace function message_id(sent_at bigint, sequence bigint, nonce bigint) returns text
language sql immutable parallel safe
return 'msg_' || base32((sent_at << 4) | (sequence >> 44), 10) || base32(((sequence & 17592186044415) << 6) | (nonce >> 30), 10)
    || base32(nonce & 1073741823, 6);

-- What keeps JSON from being taken by every ordinary parser, by the rules of the calls over HTTP; null: nothing. It takes 61 brackets, or
-- 309 digits.
create function data_fault(data jsonb) returns text
language plpgsql immutable parallel safe as $$
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
end $$;
revoke all on function data_fault(jsonb) from public;

-- Nobody notifies a server that is gone without a word: that costs each commit a lock over the whole database.
create or replace function wake() returns void
language plpgsql as $$
begin
    -- A transaction that is to be prepared may not notify.
    if current_setting('millpond.notify', true) is distinct from 'off' and exists (select from watcher w join server s on s.id = w.server
            where w.asleep and s.seen_at > clock_timestamp() - interval '10 seconds') then
        perform pg_notify('millpond_' || md5(@name@), '');
    end if;
end $$;

-- With no options all checks are part of the insert: each further statement, also within a function, costs about as much as that. What the
-- insert does not take is looked at step by step, to say what is wrong with it. The tables that are read are small, and are walked over as
-- long as they are. Whoever has the rights of this function's owner has those of the tables.
create or replace function send(queue text, data jsonb, options jsonb default '{}') returns text
language plpgsql volatile security definer set search_path = @schema@, pg_temp as $$
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
end $$;

create or replace function send_batch(queue text, data jsonb[], options jsonb default '{}') returns setof text
language plpgsql volatile security definer set search_path = @schema@, pg_temp set enable_seqscan = off set jit = off as $$
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
end $$;
