//! One message: looked at, and removed.

use crate::check::check;

#[test]
fn a_message_is_shown_with_its_counts_and_times() {
    check(
        "create jobs retention=1000
        send a delay=5
        -> sent
        get a
        -> a delayed counts=0/0/0 due=5 expires=1000
        after 5
        get a
        -> a ready counts=0/0/0 due=5 expires=1000
        lease
        -> a#1 deliveries=1 until=35
        nack a#1 delay=10
        get a
        -> a delayed counts=1/1/0 due=15 expires=1000
        after 10
        lease
        -> a#2 deliveries=2 until=45
        after 30
        get a
        -> a ready counts=2/2/1 due=45 expires=1000",
    );
}

#[test]
fn a_message_is_found_only_in_its_queue_and_only_while_it_is_there() {
    check(
        "create jobs retention=60
        create other
        send a b c
        -> sent
        get a queue=other
        -> refused: message_not_found
        get a queue=missing
        -> refused: queue_not_found
        get unknown
        -> refused: message_not_found
        lease
        -> a#1 deliveries=1 until=30
        ack a#1
        get a
        -> refused: message_not_found
        purge
        -> purged 2
        get b
        -> refused: message_not_found
        send d
        -> sent
        after 60
        get d
        -> refused: message_not_found",
    );
}

#[test]
fn a_message_that_is_not_leased_can_be_removed() {
    check(
        "create jobs deliveries_max=1 finished=100
        send a b c
        -> sent
        send d delay=10
        -> sent
        remove b
        -> removed
        remove b
        -> refused: message_not_found
        remove d
        -> removed
        lease
        -> a#1 deliveries=1 until=30
        remove a
        -> refused: message_leased
        nack a#1
        show
        -> ready=1 dead=1 why=delivering
        remove a
        -> removed
        lease
        -> c#1 deliveries=1 until=30
        ack c#1
        remove c
        -> removed
        show
        -> why=empty",
    );
}

#[test]
fn a_message_behind_the_window_can_be_looked_at_and_removed() {
    check(
        "with window=1
        create jobs
        send a b c
        -> sent
        reopen
        get c
        -> c ready counts=0/0/0 due=0 expires=345600
        remove b
        -> removed
        browse ready
        -> a, c
        show
        -> ready=2 why=no_consumer since=unknown",
    );
}
