//! Pauses, and why nothing is handed out (rule 12).

use crate::check::check;

#[test]
fn a_paused_queue_takes_sends_and_settles_and_hands_nothing_out() {
    check(
        "create jobs
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        pause
        send c
        -> sent
        lease
        -> nothing
        ack a#1
        show
        -> ready=2 why=paused since=0
        resume
        lease max=5
        -> b#1 deliveries=1 until=30, c#1 deliveries=1 until=30",
    );
}

#[test]
fn calls_that_wait_are_served_when_the_pause_is_over() {
    check(
        "create jobs
        pause
        send a
        -> sent
        lease wait=20 as=first
        -> waits
        resume
        -> first: a#1 deliveries=1 until=30",
    );
}

#[test]
fn a_wait_during_a_pause_ends_at_its_time() {
    check(
        "create jobs
        pause
        send a
        -> sent
        lease wait=5 as=first
        -> waits
        after 5
        -> first: nothing",
    );
}

#[test]
fn a_pause_survives_a_restart() {
    check(
        "create jobs
        pause
        send a
        -> sent
        reopen
        lease
        -> nothing
        show
        -> ready=1 why=paused since=0",
    );
}

#[test]
fn the_first_reason_that_applies_is_given() {
    check(
        "create jobs concurrency=1
        show
        -> why=empty
        send a
        -> sent
        show
        -> ready=1 why=no_consumer since=unknown
        send b delay=50
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        show
        -> delayed=1 leased=1 why=all_delayed until=50
        send c
        -> sent
        show
        -> ready=1 delayed=1 leased=1 why=concurrency_full limit=1 until=30
        after 10
        nack a#1 delay=20
        show
        -> ready=1 delayed=2 why=delivering
        lease
        -> c#1 deliveries=1 until=40
        ack c#1
        show
        -> delayed=2 why=all_delayed until=30
        pause
        show
        -> delayed=2 why=paused since=10",
    );
}

#[test]
fn nobody_asked_for_a_minute() {
    check(
        "create jobs
        lease
        -> nothing
        send a
        -> sent
        show
        -> ready=1 why=delivering
        after 60
        show
        -> ready=1 why=no_consumer since=0",
    );
}

#[test]
fn all_that_is_left_is_dead() {
    check(
        "create jobs deliveries_max=1
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        show
        -> dead=1 why=all_dead",
    );
}
