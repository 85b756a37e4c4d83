//! Limits on leases held at once are exact (rule 7).

use crate::check::check;

#[test]
fn no_more_are_held_than_the_limit_says() {
    check(
        "create jobs concurrency=2
        send a b c
        -> sent
        lease max=3
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        lease
        -> nothing
        show
        -> ready=1 leased=2 why=concurrency_full limit=2 until=30
        ack a#1
        lease
        -> c#1 deliveries=1 until=30",
    );
}

#[test]
fn a_waiting_call_gets_the_room_that_an_ack_leaves() {
    check(
        "create jobs concurrency=1
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        lease wait=20 as=second
        -> waits
        ack a#1
        -> second: b#1 deliveries=1 until=30",
    );
}

#[test]
fn room_comes_back_when_a_lease_runs_out() {
    check(
        "create jobs concurrency=1 timeout=10
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=10
        lease wait=20 as=second
        -> waits
        after 10
        -> second: b#1 deliveries=1 until=20",
    );
}

#[test]
fn the_limit_holds_across_a_restart() {
    check(
        "create jobs concurrency=1 timeout=100
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=100
        reopen
        lease
        -> nothing
        ack a#1
        lease
        -> waits
        -> it: b#1 deliveries=1 until=101",
    );
}

#[test]
fn leases_held_have_a_bound_that_is_named() {
    check(
        "create jobs leased_max=1
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30
        lease
        -> nothing
        show
        -> ready=1 leased=1 why=leased_limit limit=1",
    );
}
