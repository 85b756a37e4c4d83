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

#[test]
fn a_batch_is_filled_for_so_long_once_something_is_there() {
    check(
        "create jobs
        lease max=3 min=3 wait=20 max_wait=5 as=batch
        -> waits
        after 10
        send a
        -> sent
        after 4
        send b
        -> sent
        after 0.999
        after 0.001
        -> batch: a#1 deliveries=1 until=45, b#1 deliveries=1 until=45",
    );
}

#[test]
fn a_full_batch_is_handed_out_at_once_and_what_is_there_to_who_fills_nothing() {
    check(
        "create jobs
        lease max=2 min=2 wait=20 max_wait=5 as=batch
        -> waits
        send a b
        -> sent
        -> batch: a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        lease max=2 min=2 wait=20 max_wait=0 as=hasty
        -> waits
        send c
        -> sent
        -> hasty: c#1 deliveries=1 until=30
        send d
        -> sent
        lease max=2 min=2 wait=20 max_wait=0
        -> d#1 deliveries=1 until=30",
    );
}

#[test]
fn a_call_never_lasts_longer_than_its_wait() {
    check(
        "create jobs
        lease max=3 min=3 wait=10 max_wait=20 as=batch
        -> waits
        after 8
        send a
        -> sent
        after 2
        -> batch: a#1 deliveries=1 until=40
        lease max=3 min=3 wait=10 max_wait=5 as=late
        -> waits
        after 7
        send b
        -> sent
        after 3
        -> late: b#1 deliveries=1 until=50",
    );
}

#[test]
fn when_others_take_what_was_there_the_filling_begins_anew() {
    check(
        "create jobs
        lease max=3 min=3 wait=20 max_wait=5 as=batch
        -> waits
        send a
        -> sent
        after 4
        lease
        -> a#1 deliveries=1 until=34
        after 1
        send b
        -> sent
        after 4
        after 1
        -> batch: b#1 deliveries=1 until=40",
    );
}

#[test]
fn who_comes_while_something_is_there_fills_from_then_on() {
    check(
        "create jobs
        lease max=3 min=3 wait=20 max_wait=10 as=first
        -> waits
        send a
        -> sent
        after 8
        lease max=3 min=3 wait=20 max_wait=3 as=second
        -> waits
        after 2
        -> first: a#1 deliveries=1 until=40
        after 1
        send b
        -> sent
        after 2
        after 1
        -> second: b#1 deliveries=1 until=44",
    );
}

#[test]
fn the_less_patient_of_two_is_served_first() {
    check(
        "create jobs
        lease max=3 min=3 wait=20 max_wait=10 as=patient
        -> waits
        lease max=3 min=3 wait=20 max_wait=2 as=hasty
        -> waits
        send a
        -> sent
        after 2
        -> hasty: a#1 deliveries=1 until=32
        send b
        -> sent
        after 10
        -> patient: b#1 deliveries=1 until=42",
    );
}

#[test]
fn what_cannot_be_granted_is_not_there() {
    check(
        "create jobs concurrency=1 timeout=60
        lease max=3 min=3 wait=20 max_wait=2 as=batch
        -> waits
        pause
        send a
        -> sent
        after 5
        resume
        after 1
        after 1
        -> batch: a#1 deliveries=1 until=67
        lease max=3 min=3 wait=20 max_wait=2 as=next
        -> waits
        send b
        -> sent
        after 5
        ack a#1
        after 2
        -> next: b#1 deliveries=1 until=74",
    );
}

#[test]
fn the_time_to_fill_has_the_bounds_of_a_wait() {
    check(
        "create jobs
        lease wait=1 max_wait=21
        -> refused: out_of_range max_wait
        lease max=2 min=2 max_wait=5
        -> nothing",
    );
}

#[test]
fn when_what_was_there_is_deleted_purged_or_expired_the_filling_begins_anew() {
    check(
        "create jobs
        lease max=3 min=3 wait=20 max_wait=5 as=batch
        -> waits
        send a
        -> sent
        after 1
        remove a
        -> removed
        after 3
        send b
        -> sent
        after 3
        purge
        -> purged 1
        send c ttl=1
        -> sent
        after 3
        send d
        -> sent
        after 4.999
        after 0.001
        -> batch: d#1 deliveries=1 until=45",
    );
}

#[test]
fn a_lease_that_ends_for_good_makes_room_for_a_call_that_waits() {
    check(
        "create failed
        create jobs concurrency=1 deliveries_max=1 timeout=10 at_limit=move:failed
        send a b c
        -> sent
        lease
        -> a#1 deliveries=1 until=10
        lease wait=20 as=one
        -> waits
        after 10
        -> one: b#1 deliveries=1 until=20
        update jobs concurrency=1 timeout=10 deliveries_max=1 at_limit=drop
        -> generation=2 revision=2
        lease wait=20 as=two
        -> waits
        after 10
        -> two: c#1 deliveries=1 until=30",
    );
}

#[test]
fn a_lease_of_a_group_that_ends_for_good_makes_room_for_a_call_that_waits() {
    check(
        "create topics/t
        create topics/t/groups/g concurrency=1 deliveries_max=1 timeout=10
        send a queue=topics/t ttl=5
        -> sent
        send b c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=10
        lease queue=topics/t/groups/g wait=20 as=one
        -> waits
        after 10
        -> one: b#1 deliveries=1 until=20
        lease queue=topics/t/groups/g wait=20 as=two
        -> waits
        after 10
        -> two: c#1 deliveries=1 until=30",
    );
}
