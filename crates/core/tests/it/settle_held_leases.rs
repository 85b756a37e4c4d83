//! Settles of leases that are held, with and without sends (design-holes A11), on one queue and across two.

use crate::check::check;

#[test]
fn a_fresh_lease_with_no_sends() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=a#1
        show
        -> why=empty
        purge
        -> purged 0
        after 30
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        settle ack=c#1
        show
        -> why=empty
        show queue=other
        -> why=empty",
    );
}

#[test]
fn a_fresh_lease_with_a_valid_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=a#1 send=jobs:b
        -> sent
        show
        -> ready=1 why=delivering
        purge
        -> purged 1
        after 30
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        settle ack=c#1 send=other:d
        -> sent
        show
        -> why=empty
        show queue=other
        -> ready=1 why=no_consumer since=unknown",
    );
}

#[test]
fn a_fresh_lease_with_a_duplicate_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        send first queue=jobs key=once
        -> sent
        settle ack=a#1 send=jobs:b key=once
        -> repeated first
        show
        -> ready=1 why=delivering
        purge
        -> purged 1
        after 30
        send second queue=other key=once
        -> sent
        send c
        -> sent
        lease
        -> c#1 deliveries=1 until=60
        settle ack=c#1 send=other:d key=once
        -> repeated second
        show
        -> why=empty
        show queue=other
        -> ready=1 why=no_consumer since=unknown",
    );
}

#[test]
fn a_fresh_lease_with_an_invalid_send() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=a#1 send=jobs:
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
        settle ack=c#1 send=other:
        -> refused: out_of_range events
        show
        -> leased=1 why=all_leased until=60
        show queue=other
        -> why=empty",
    );
}

#[test]
fn without_sends_stale_leases_are_listed_and_the_others_settled() {
    check(
        "create jobs
        send a b
        -> sent
        lease max=2 timeout=10
        -> a#1 deliveries=1 until=10, b#1 deliveries=1 until=10
        after 5
        extend b#1 by=30
        after 5
        settle ack=a#1 ack=b#1
        -> stale a
        show
        -> ready=1 why=delivering",
    );
}

#[test]
fn require_all_refuses_the_whole_without_sends() {
    check(
        "create jobs
        send a b
        -> sent
        lease max=2 timeout=10
        -> a#1 deliveries=1 until=10, b#1 deliveries=1 until=10
        after 5
        extend b#1 by=30
        after 5
        settle ack=a#1 ack=b#1 require=all
        -> refused: 1 stale
        show
        -> ready=1 leased=1 why=delivering",
    );
}

#[test]
fn a_send_to_a_queue_that_is_not_there_refuses_the_whole() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=a#1 send=nowhere:b
        -> refused: queue_not_found
        show
        -> leased=1 why=all_leased until=30",
    );
}

#[test]
fn with_no_room_a_settle_that_sends_is_refused_and_one_that_does_not_is_not() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        space low
        settle ack=a#1 send=jobs:b
        -> refused: storage_full
        ack a#1
        show
        -> why=empty",
    );
}

#[test]
fn an_extension_without_a_time_lasts_as_long_as_the_queue_says_by_now() {
    check(
        "create jobs timeout=30
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        update jobs timeout=5
        -> generation=2 revision=2
        after 10
        extend a#1
        after 4.999
        lease
        -> nothing
        after 0.001
        lease
        -> a#2 deliveries=2 until=20",
    );
}
