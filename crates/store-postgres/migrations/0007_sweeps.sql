-- Claims of the owner key by key, where one of many is held by an open transaction: the places of those that are. What an open
-- transaction holds shows only to who waits for it, so each wait is as short as can be.
create function claim_each(target integer, deliveries bigint[], generations bigint[], claiming bigint) returns setof integer
language plpgsql volatile set lock_timeout = '1ms' as $$
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
end $$;
revoke all on function claim_each(integer, bigint[], bigint[], bigint) from public;

-- Keys of leases that ended, by when they may go.
create index settlement_ended on settlement (ended_by) where ended_by is not null;
