//! Calls that wait (design-holes B14).

use crate::check::check;

#[test]
fn a_message_wakes_the_first_that_waits() {
    check(
        "create jobs
        lease wait=20 as=first
        -> waits
        lease wait=20 as=second
        -> waits
        send a
        -> sent
        -> first: a#1 deliveries=1 until=30
        send b
        -> sent
        -> second: b#1 deliveries=1 until=30",
    );
}

#[test]
fn a_batch_waiter_holds_nothing_back() {
    check(
        "create jobs
        lease max=3 min=3 wait=20 as=batch
        -> waits
        lease wait=20 as=single
        -> waits
        send a
        -> sent
        -> single: a#1 deliveries=1 until=30
        send b c d
        -> sent
        -> batch: b#1 deliveries=1 until=30, c#1 deliveries=1 until=30, d#1 deliveries=1 until=30",
    );
}

#[test]
fn a_batch_waiter_takes_what_is_there_when_its_wait_is_over() {
    check(
        "create jobs
        lease max=3 min=3 wait=10 as=batch
        -> waits
        send a b
        -> sent
        after 10
        -> batch: a#1 deliveries=1 until=40, b#1 deliveries=1 until=40",
    );
}

#[test]
fn at_its_end_a_batch_waiter_goes_before_later_ones() {
    check(
        "create jobs
        lease max=3 min=3 wait=5 as=batch
        -> waits
        lease max=3 min=2 wait=20 as=later
        -> waits
        send a
        -> sent
        after 5
        -> batch: a#1 deliveries=1 until=35
        send b c
        -> sent
        -> later: b#1 deliveries=1 until=35, c#1 deliveries=1 until=35",
    );
}

#[test]
fn a_wait_that_is_over_is_answered_with_nothing() {
    check(
        "create jobs
        lease wait=1.5 as=first
        -> waits
        after 1.499
        after 0.001
        -> first: nothing",
    );
}

#[test]
fn a_cancelled_call_gets_nothing() {
    check(
        "create jobs
        lease wait=20 as=first
        -> waits
        lease wait=20 as=second
        -> waits
        cancel first
        send a
        -> sent
        -> second: a#1 deliveries=1 until=30",
    );
}

#[test]
fn a_delayed_message_wakes_at_its_time() {
    check(
        "create jobs
        lease wait=20 as=first
        -> waits
        send a delay=3
        -> sent
        after 2
        after 1
        -> first: a#1 deliveries=1 until=33",
    );
}

#[test]
fn a_deleted_queue_sends_its_waiters_away() {
    check(
        "create jobs
        lease wait=20 as=first
        -> waits
        delete jobs
        -> deleted
        -> first: refused: queue_not_found",
    );
}

#[test]
fn waiting_calls_have_a_bound() {
    check(
        "with waiters=1
        create jobs
        lease wait=20 as=first
        -> waits
        lease wait=20 as=second
        -> refused: waiter_limit",
    );
}
