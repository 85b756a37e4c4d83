//! Windows of one to three entries behave as one of ten thousand (design.md, section 5).

use crate::check::check;

#[test]
fn order_is_kept_through_a_window_of_one() {
    check(
        "with window=1
        create jobs
        send a b c d e
        -> sent
        reopen
        lease max=1
        -> waits
        -> it: a#1 deliveries=1 until=31
        lease max=1
        -> waits
        -> it: b#1 deliveries=1 until=31
        lease max=1
        -> waits
        -> it: c#1 deliveries=1 until=31
        lease max=1
        -> waits
        -> it: d#1 deliveries=1 until=31
        lease max=1
        -> waits
        -> it: e#1 deliveries=1 until=31
        lease max=1
        -> nothing",
    );
}

#[test]
fn a_higher_priority_goes_first_though_the_window_was_full() {
    check(
        "with window=2
        create jobs
        send a b c d e f
        -> sent
        send urgent priority=1
        -> sent
        lease
        -> urgent#1 deliveries=1 until=30
        lease
        -> a#1 deliveries=1 until=30",
    );
}

#[test]
fn what_sorts_behind_the_window_is_found_later() {
    check(
        "with window=2
        create jobs
        send a b c d e f priority=1
        -> sent
        send low priority=-1
        -> sent
        send middle
        -> sent
        lease max=6
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        lease max=6
        -> c#1 deliveries=1 until=30, d#1 deliveries=1 until=30
        lease max=6
        -> e#1 deliveries=1 until=30, f#1 deliveries=1 until=30
        lease max=6
        -> middle#1 deliveries=1 until=30, low#1 deliveries=1 until=30
        lease max=6
        -> nothing",
    );
}

#[test]
fn delays_mature_in_order_through_a_window_of_one() {
    check(
        "with window=1 due=1
        create jobs
        send c delay=3
        -> sent
        send a delay=1
        -> sent
        send b delay=2
        -> sent
        reopen
        after 1
        lease
        -> a#1 deliveries=1 until=32
        after 1
        lease
        -> b#1 deliveries=1 until=33
        after 1
        lease
        -> c#1 deliveries=1 until=34",
    );
}

#[test]
fn leases_end_through_a_window_of_one() {
    check(
        "with window=1 due=1
        create jobs
        send a b c d
        -> sent
        lease max=4 timeout=10
        -> a#1 deliveries=1 until=10
        lease max=4 timeout=10
        -> b#1 deliveries=1 until=10
        lease max=4 timeout=10
        -> c#1 deliveries=1 until=10
        lease max=4 timeout=10
        -> d#1 deliveries=1 until=10
        reopen
        after 10
        show
        -> ready=4 why=delivering
        lease max=4
        -> a#2 deliveries=2 until=41
        lease max=4
        -> b#2 deliveries=2 until=41
        lease max=4
        -> c#2 deliveries=2 until=41
        lease max=4
        -> d#2 deliveries=2 until=41",
    );
}

#[test]
fn sent_order_keeps_the_place_of_a_retried_message_behind_the_window() {
    check(
        "with window=1
        create jobs order=sent
        send a b c d
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        lease
        -> a#2 deliveries=2 until=30
        lease
        -> b#1 deliveries=1 until=30",
    );
}
