//! Time to live and retention (rules 2 and 5).

use crate::check::check;

#[test]
fn a_message_that_is_too_old_is_not_handed_out() {
    check(
        "create jobs retention=60
        send a
        -> sent
        after 59
        send b
        -> sent
        after 1
        show
        -> ready=1 why=no_consumer since=unknown
        lease max=2
        -> b#1 deliveries=1 until=90",
    );
}

#[test]
fn its_own_time_to_live_may_be_shorter_and_never_longer() {
    check(
        "create jobs retention=60
        send a ttl=5
        -> sent
        send b ttl=600
        -> sent
        after 5
        show
        -> ready=1 why=no_consumer since=unknown
        after 55
        show
        -> why=empty",
    );
}

#[test]
fn a_held_message_may_be_acked_beyond_its_time() {
    check(
        "create jobs retention=60
        send a b
        -> sent
        lease max=2 timeout=100
        -> a#1 deliveries=1 until=100, b#1 deliveries=1 until=100
        after 90
        ack a#1
        nack b#1
        show
        -> why=empty",
    );
}

#[test]
fn a_delay_beyond_the_life_of_a_message_is_refused() {
    check(
        "create jobs retention=60
        send a delay=60
        -> refused: out_of_range delay
        send a delay=59
        -> sent",
    );
}

#[test]
fn a_finished_message_is_kept_as_long_as_the_queue_says() {
    check(
        "create jobs finished=10
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        ack a#1
        show
        -> completed=1 why=empty
        after 9
        show
        -> completed=1 why=empty
        after 1
        show
        -> why=empty",
    );
}

#[test]
fn what_expired_in_front_does_not_hide_what_is_behind() {
    check(
        "with window=1 due=1
        create jobs
        send a ttl=5
        -> sent
        send b ttl=5
        -> sent
        send c ttl=5
        -> sent
        send d
        -> sent
        after 5
        lease
        -> waits
        -> it: d#1 deliveries=1 until=35",
    );
}
