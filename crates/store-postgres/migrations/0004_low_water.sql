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
