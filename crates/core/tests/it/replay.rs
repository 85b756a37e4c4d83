//! Dead letters that are brought back in place.

use crate::check::check;

#[test]
fn a_replayed_message_is_ready_at_once_with_all_its_attempts() {
    check(
        "create jobs deliveries_max=1
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        nack a#1
        nack b#1
        after 10
        get a
        -> a dead counts=1/1/0 due=0 expires=345600 dead_of=jobs reason=attemptsspent
        revive a
        -> a
        get a
        -> a ready counts=0/0/0 due=10 expires=345600
        show
        -> ready=1 dead=1 why=delivering
        lease
        -> a#2 deliveries=1 until=40
        ack a#1
        -> stale a
        nack a#2
        show
        -> dead=2 why=all_dead",
    );
}

#[test]
fn what_is_not_dead_is_skipped_and_each_is_done_once() {
    check(
        "create jobs deliveries_max=1
        create other
        send a b c
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        nack a#1
        revive a b c unknown times=2
        -> a, skipped b, skipped c, skipped unknown
        revive a queue=other
        -> nothing, skipped a
        revive
        -> nothing
        revive a times=1001
        -> refused: out_of_range message_ids
        revive queue=missing
        -> refused: queue_not_found",
    );
}

#[test]
fn dead_letters_that_go_elsewhere_are_not_replayed() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        revive
        -> refused: dead_letters_elsewhere",
    );
}

#[test]
fn a_replayed_message_lives_for_a_minute_at_least_and_else_as_long_as_before() {
    check(
        "create jobs deliveries_max=1 retention=100
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        after 20
        revive a
        -> a
        get a
        -> a ready counts=0/0/0 due=20 expires=100
        lease
        -> a#2 deliveries=1 until=50
        nack a#2
        after 79
        revive a
        -> a
        get a
        -> a ready counts=0/0/0 due=99 expires=159
        after 61
        show
        -> why=empty",
    );
}

#[test]
fn a_dead_letter_whose_time_is_over_is_not_replayed() {
    check(
        "with due=1
        create jobs deliveries_max=1 retention=60
        send a b c
        -> sent
        lease max=3
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30
        nack a#1
        nack b#1
        nack c#1
        after 60
        revive a b c
        -> nothing, skipped a, skipped b, skipped c",
    );
}

#[test]
fn a_purge_from_before_a_replay_does_not_reach_what_was_replayed() {
    check(
        "create jobs deliveries_max=1
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        purge
        -> purged 0
        revive a
        -> a
        lease
        -> a#2 deliveries=1 until=30
        purge
        -> purged 0
        nack a#2
        show
        -> why=empty",
    );
}

#[test]
fn a_purge_of_dead_letters_reaches_neither_what_was_replayed_nor_what_dies_later() {
    check(
        "create jobs deliveries_max=1
        send a b c
        -> sent
        lease max=3
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30
        nack a#1
        nack b#1
        revive b
        -> b
        purge dead
        -> purged 1
        nack c#1
        show
        -> ready=1 dead=1 why=delivering
        browse dead
        -> c
        revive a c
        -> c, skipped a
        reopen
        show
        -> ready=2 why=delivering",
    );
}

#[test]
fn a_replay_serves_who_waits_and_keeps_the_place_of_the_send_where_that_counts() {
    check(
        "create jobs deliveries_max=1 order=sent
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        revive a
        -> a
        lease
        -> a#2 deliveries=1 until=30
        nack a#2
        lease
        -> b#1 deliveries=1 until=30
        lease wait=10 as=waiting
        -> waits
        revive a
        -> a
        -> waiting: a#3 deliveries=1 until=30",
    );
}

#[test]
fn a_lease_of_a_life_before_cannot_be_taken_back_into_the_present_one() {
    check(
        "create jobs deliveries_max=1
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        revive a
        -> a
        undo a#1
        -> undone 0
        restore
        lease
        -> waits
        -> it: a#2 deliveries=1 until=31
        ack a#1
        -> stale a
        ack a#2",
    );
}
