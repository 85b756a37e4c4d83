-- Where the orders of rows begin, so that a server that starts walks over no index entries of rows that are long gone and that an
-- open transaction keeps from being removed.
create table low_water (
    environment     integer     not null,
    queue           bigint      not null, -- -1: an order over all queues
    kind            smallint    not null, -- state of the deliveries; over all queues: 0 expiry, 1 expiry of remembered calls
    priority_descending bigint  not null, -- these four: the key behind which the order begins
    retried         boolean     not null,
    order_at        bigint      not null,
    sequence        bigint      not null,
    primary key (environment, queue, kind)
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table low_water is 'Nothing that is of use sorts before these keys. Raised now and then, lowered in the commit that writes a row before one.';

-- Orders over all queues. Their conditions hold for every row; they keep these indexes from being taken for anything but their own
-- order: a statement that looks rows up by their keys must never walk over all rows of an environment, however few the planner
-- thinks there are.
drop index delivery_expiry;
create index delivery_expiry on delivery (environment, expires_at, sequence) where state >= 0;
drop index dedup_expiry;
create index dedup_expiry on dedup (environment, expires_at) where queue >= -1;
