-- What of a transaction lies behind a page of the intake. No other statement can take this index: where a table is thought to be empty all
-- indexes seem to cost the same, and one that begins with the environment was taken to find rows by their numbers, by walking over all of
-- it. And its keys are asked for as equal and greater, not as rows that are compared: a walk ends at a row comparison only if the first
-- column decides.
drop index intake_transaction;
create index intake_transaction on intake (transaction, (id + 0));

-- As a loop: what each transaction has to prepare of a function counts for more than how often it then runs.
create or replace function base32(value bigint, digits integer) returns text
language plpgsql immutable parallel safe as $$
declare
    made text := '';
begin
    for place in reverse digits - 1 .. 0 loop
        made := made || substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((value >> (5 * place)) & 31)::integer + 1, 1);
    end loop;
    return made;
end $$;

-- Nobody notifies a server that is gone without a word: that costs each commit a lock over the whole database.
create or replace function wake() returns void
language plpgsql as $$
begin
    if exists (select from watcher w join server s on s.id = w.server
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
    -- Before a number is drawn: see put_message.
    own xid8 := pg_current_xact_id();
    made_at bigint := now_millis();
    drawn bigint := nextval('external_sequence');
    random_part bigint := (random() * 68719476735)::bigint;
    made text := message_id(made_at, drawn, random_part);
    is_asleep boolean;
begin
    if options = '{}' then
        insert into intake (id, environment, transaction, kind, queue, sequence, sent_at, nonce, attributes, data_kind, data, priority)
        select nextval('intake_id'), e.number, own, 0, q.name, drawn, made_at, random_part, plain_attributes(made), 1, d.data, 0
            from (select convert_to(coalesce(send.data, 'null')::text, 'UTF8') as data) d
            cross join environment e join queue q on q.environment = e.number
            where e.name = coalesce(nullif(current_setting('millpond.environment', true), ''), 'orgs/default/projects/default/envs/default')
                and not e.importing and q.name = send.queue and not q.deleted and q.role <= 2 and octet_length(d.data) <= 262144
                and (pg_has_role(caller(), current_user, 'usage')
                     or exists (select from access a where a.environment = e.number and pg_has_role(caller(), a.role_number, 'usage')))
            returning exists (select from watcher where asleep) into is_asleep;
        if found then
            if is_asleep then
                perform wake();
            end if;
            return made;
        end if;
    else
        perform check_options(options, array['delay', 'environment', 'id', 'idempotency_key', 'partition', 'priority', 'source', 'subject',
                                             'time_to_live', 'type', 'visible_at']);
    end if;
    made := put_message(environment_number(options ->> 'environment'), send.queue, null, 1::smallint,
                        convert_to(coalesce(send.data, 'null')::text, 'UTF8'), options);
    perform wake();
    return made;
end $$;
