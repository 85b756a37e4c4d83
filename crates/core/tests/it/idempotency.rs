//! Idempotency keys (rule 9).

use crate::check::check;

#[test]
fn the_same_key_again_gets_the_first_answer() {
    check(
        "create jobs
        send a b key=k
        -> sent
        send c d key=k
        -> repeated a b
        show
        -> ready=2 why=no_consumer since=unknown",
    );
}

#[test]
fn another_send_under_a_key_is_refused() {
    check(
        "create jobs
        send a key=k
        -> sent
        send b key=k digest=1
        -> refused: idempotency_key_reused",
    );
}

#[test]
fn keys_are_of_their_queue() {
    check(
        "create jobs
        create other
        send a key=k
        -> sent
        send b queue=other key=k
        -> sent",
    );
}

#[test]
fn a_key_is_remembered_as_long_as_messages_live_and_a_day_at_most() {
    check(
        "create jobs retention=60
        create slow
        send a key=k
        -> sent
        send b key=k queue=slow
        -> sent
        after 59
        send c key=k
        -> repeated a
        after 1
        send d key=k
        -> sent
        after 23h
        send e key=k queue=slow
        -> repeated b
        after 1h
        send f key=k queue=slow
        -> sent",
    );
}

#[test]
fn a_key_survives_a_restart() {
    check(
        "create jobs
        send a key=k
        -> sent
        reopen
        send b key=k
        -> repeated a",
    );
}

#[test]
fn a_limit_refuses_new_keys_and_never_forgets_old_ones() {
    check(
        "with keys=1
        create jobs retention=60
        send a key=k
        -> sent
        send b key=other
        -> refused: dedup_limit
        send c
        -> sent
        send d key=k
        -> repeated a
        after 60
        send e key=other
        -> sent",
    );
}

#[test]
fn a_queue_made_again_knows_no_keys() {
    check(
        "create jobs
        send a key=k
        -> sent
        delete jobs
        -> deleted
        create jobs
        send b key=k
        -> sent",
    );
}
