//! Pages of a queue's messages in one state: what is shown, what is not, and where a page ends.

use crate::check::check;

#[test]
fn ready_messages_are_shown_in_the_order_in_which_they_would_be_handed_out() {
    check(
        "create jobs
        send a b
        -> sent
        send first priority=1
        -> sent
        send later delay=10
        -> sent
        browse ready
        -> first, a, b
        browse delayed
        -> later
        show
        -> ready=3 delayed=1 why=no_consumer since=unknown
        lease max=9
        -> first#1 deliveries=1 until=30, a#1 deliveries=1 until=30, b#1 deliveries=1 until=30",
    );
}

#[test]
fn pages_follow_each_other_and_the_last_says_so() {
    check(
        "create jobs
        send a b c d
        -> sent
        browse ready max=2
        -> a, b, and more
        browse ready max=2 on
        -> c, d
        browse ready max=4
        -> a, b, c, d
        browse ready max=3
        -> a, b, c, and more
        browse ready max=3 on
        -> d",
    );
}

#[test]
fn other_states_come_by_due_time() {
    check(
        "create jobs deliveries_max=1 finished=100
        send a b c d
        -> sent
        lease timeout=20
        -> a#1 deliveries=1 until=20
        lease timeout=10
        -> b#1 deliveries=1 until=10
        browse leased
        -> b, a
        ack b#1
        ack a#1
        browse completed
        -> a, b
        lease max=2
        -> c#1 deliveries=1 until=30, d#1 deliveries=1 until=30
        nack d#1
        after 1
        nack c#1
        browse dead
        -> d, c",
    );
}

#[test]
fn dead_letters_are_shown_by_the_time_of_their_death() {
    check(
        "create jobs deliveries_max=1
        send a b c
        -> sent
        lease max=3
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30
        after 10
        nack a#1
        after 1
        nack b#1
        after 1
        nack c#1
        browse dead from=11
        -> b, c
        browse dead until=11
        -> a
        browse dead from=11 until=12
        -> b
        browse dead from=13
        -> nothing
        browse dead from=12 until=12
        -> refused: out_of_range start_time
        browse dead max=1 from=10
        -> a, and more
        browse dead max=1 from=10 on
        -> b, and more
        browse dead max=1 from=10 until=12 on
        -> nothing",
    );
}

#[test]
fn what_has_expired_or_was_purged_is_not_shown() {
    check(
        "with window=1 due=1
        create jobs retention=60
        send a ttl=5
        -> sent
        send b
        -> sent
        after 5
        browse ready
        -> b
        purge
        -> purged 1
        browse ready
        -> nothing
        send c
        -> sent
        browse ready
        -> c",
    );
}

#[test]
fn a_held_message_is_shown_beyond_its_time() {
    check(
        "create jobs retention=60
        send a
        -> sent
        lease timeout=100
        -> a#1 deliveries=1 until=100
        after 90
        browse leased
        -> a
        get a
        -> a leased counts=1/0/0 due=100 expires=60",
    );
}

#[test]
fn a_page_that_was_read_before_a_change_is_shown_as_it_is_now() {
    check(
        "create jobs
        send a b c
        -> sent
        browse ready slowly
        lease
        -> a#1 deliveries=1 until=30
        send d
        -> sent
        send first priority=1
        -> sent
        remove c
        -> removed
        arrive
        -> first, b, d",
    );
}

#[test]
fn what_comes_behind_the_page_is_left_to_the_next() {
    check(
        "create jobs
        send a b c
        -> sent
        browse ready max=2 slowly
        remove a
        -> removed
        send d
        -> sent
        arrive
        -> b, c, and more",
    );
}

#[test]
fn a_queue_that_was_deleted_meanwhile_shows_nothing_of_its_successor() {
    check(
        "create jobs
        send a
        -> sent
        browse ready slowly
        delete jobs
        -> deleted
        create jobs
        send b
        -> sent
        arrive
        -> it: refused: queue_not_found",
    );
}

#[test]
fn a_page_has_its_bounds() {
    check(
        "create jobs
        browse ready queue=other
        -> refused: queue_not_found
        browse ready max=0
        -> refused: out_of_range max_messages
        browse ready max=1001
        -> refused: out_of_range max_messages
        browse ready from=1
        -> refused: out_of_range start_time
        browse ready until=1
        -> refused: out_of_range end_time
        send a b
        -> sent
        browse ready max=1
        -> a, and more
        browse dead on
        -> refused: out_of_range page_token",
    );
}
