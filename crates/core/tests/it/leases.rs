//! Leases and their fencing (rules 3 and 5).

use crate::check::check;

#[test]
fn a_message_is_held_by_one_consumer_until_it_acks() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        lease
        -> nothing
        ack a#1
        show
        -> why=empty
        ack a#1
        -> stale a",
    );
}

#[test]
fn ack_after_the_end_of_the_lease_is_stale_even_if_nobody_else_took_it() {
    check(
        "create jobs timeout=10
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=10
        after 10
        ack a#1
        -> stale a
        show
        -> ready=1 why=delivering",
    );
}

#[test]
fn ack_under_an_older_lease_is_stale_and_leaves_the_present_one() {
    check(
        "create jobs timeout=10
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=10
        after 10
        lease
        -> a#2 deliveries=2 until=20
        ack a#1
        -> stale a
        ack a#2
        show
        -> why=empty",
    );
}

#[test]
fn an_extended_lease_lasts_from_the_extension() {
    check(
        "create jobs timeout=10
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=10
        after 8
        extend a#1 by=10
        after 8
        show
        -> leased=1 why=all_leased until=18
        ack a#1",
    );
}

#[test]
fn a_lease_is_not_extended_beyond_twelve_hours_from_its_grant() {
    check(
        "create jobs
        send a
        -> sent
        lease timeout=11h
        -> a#1 deliveries=1 until=39600
        after 10h
        extend a#1 by=3h
        -> refused: out_of_range visibility_timeout
        extend a#1 by=2h
        after 2h
        show
        -> ready=1 why=no_consumer since=0",
    );
}

#[test]
fn a_restart_keeps_leases_and_a_restore_ends_them_uncounted() {
    check(
        "create jobs timeout=100
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=100
        reopen
        lease
        -> nothing
        restore
        ack a#1
        -> stale a
        lease
        -> a#2 deliveries=1 until=102
        ack a#2",
    );
}

#[test]
fn an_undone_grant_costs_nothing_and_its_lease_is_stale() {
    check(
        "create jobs deliveries_max=1
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        undo a#1
        -> undone 1
        ack a#1
        -> stale a
        lease max=2
        -> a#2 deliveries=1 until=30, b#1 deliveries=1 until=30
        undo a#1
        -> undone 0
        show
        -> leased=2 why=all_leased until=30",
    );
}

#[test]
fn an_undone_grant_goes_back_to_its_old_place() {
    check(
        "create jobs
        send a b c
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        undo a#1
        -> undone 1
        lease max=3
        -> a#2 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30",
    );
}

#[test]
fn a_grant_that_was_extended_is_somebodys_and_is_not_undone() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        extend a#1 by=60
        undo a#1
        -> undone 0
        held a#1
        -> held until=60
        ack a#1",
    );
}

#[test]
fn a_lease_named_twice_in_one_call_is_settled_once() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=a#1 ack=a#1
        show
        -> why=empty",
    );
}

#[test]
fn a_lease_of_another_queue_or_a_message_that_never_was_is_stale() {
    check(
        "create jobs
        create other
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        ack a#1 queue=other
        -> stale a
        ack ghost#1
        -> stale unknown
        ack a#1",
    );
}
