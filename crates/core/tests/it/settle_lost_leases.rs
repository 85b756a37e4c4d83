//! Settles of leases that are stale or unknown, with and without sends (design-holes A11), on one queue and across two.

use crate::check::check;

#[test]
fn a_stale_lease_with_no_sends() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        after 30
        settle ack=a#1
        -> stale a
        show
        -> ready=1 why=delivering
        purge
        -> purged 1
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        after 30
        settle ack=c#1
        -> stale c
        show
        -> ready=1 why=delivering
        show queue=other
        -> why=empty",
    );
}

#[test]
fn a_stale_lease_with_a_valid_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        after 30
        settle ack=a#1 send=jobs:b
        -> refused: 1 stale
        show
        -> ready=1 why=delivering
        purge
        -> purged 1
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        after 30
        settle ack=c#1 send=other:d
        -> refused: 1 stale
        show
        -> ready=1 why=delivering
        show queue=other
        -> why=empty",
    );
}

#[test]
fn a_stale_lease_with_a_duplicate_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        send first queue=jobs key=once
        -> sent
        after 30
        settle ack=a#1 send=jobs:b key=once
        -> refused: 1 stale
        show
        -> ready=2 why=delivering
        purge
        -> purged 2
        send second queue=other key=once
        -> sent
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        after 30
        settle ack=c#1 send=other:d key=once
        -> refused: 1 stale
        show
        -> ready=1 why=delivering
        show queue=other
        -> ready=1 why=no_consumer since=unknown",
    );
}

#[test]
fn a_stale_lease_with_an_invalid_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        after 30
        settle ack=a#1 send=jobs:
        -> refused: out_of_range events
        show
        -> ready=1 why=delivering
        purge
        -> purged 1
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        after 30
        settle ack=c#1 send=other:
        -> refused: out_of_range events
        show
        -> ready=1 why=delivering
        show queue=other
        -> why=empty",
    );
}

#[test]
fn an_unknown_lease_with_no_sends() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=ghost#1
        -> stale unknown
        show
        -> leased=1 why=all_leased until=30
        purge
        -> purged 0
        after 30
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        settle ack=ghost#1
        -> stale unknown
        show
        -> leased=1 why=all_leased until=60
        show queue=other
        -> why=empty",
    );
}

#[test]
fn an_unknown_lease_with_a_valid_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=ghost#1 send=jobs:b
        -> refused: 1 stale
        show
        -> leased=1 why=all_leased until=30
        purge
        -> purged 0
        after 30
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        settle ack=ghost#1 send=other:d
        -> refused: 1 stale
        show
        -> leased=1 why=all_leased until=60
        show queue=other
        -> why=empty",
    );
}

#[test]
fn an_unknown_lease_with_a_duplicate_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        send first queue=jobs key=once
        -> sent
        settle ack=ghost#1 send=jobs:b key=once
        -> refused: 1 stale
        show
        -> ready=1 leased=1 why=delivering
        purge
        -> purged 1
        after 30
        send second queue=other key=once
        -> sent
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        settle ack=ghost#1 send=other:d key=once
        -> refused: 1 stale
        show
        -> leased=1 why=all_leased until=60
        show queue=other
        -> ready=1 why=no_consumer since=unknown",
    );
}

#[test]
fn an_unknown_lease_with_an_invalid_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=ghost#1 send=jobs:
        -> refused: out_of_range events
        show
        -> leased=1 why=all_leased until=30
        purge
        -> purged 0
        after 30
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        settle ack=ghost#1 send=other:
        -> refused: out_of_range events
        show
        -> leased=1 why=all_leased until=60
        show queue=other
        -> why=empty",
    );
}
