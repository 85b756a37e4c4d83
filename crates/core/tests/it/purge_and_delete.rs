//! Purge and delete: gone at once, removed in steps (design-holes B10).

use crate::check::check;

#[test]
fn a_purge_removes_what_is_ready_or_delayed_and_nothing_sent_later() {
    check(
        "create jobs
        send a b
        -> sent
        send c delay=10
        -> sent
        purge
        -> purged 3
        send d
        -> sent
        after 10
        lease max=5
        -> d#1 deliveries=1 until=40
        show
        -> leased=1 why=all_leased until=40",
    );
}

#[test]
fn what_is_leased_survives_a_purge_until_it_comes_back() {
    check(
        "create jobs
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        purge
        -> purged 0
        ack a#1
        nack b#1
        show
        -> why=empty
        lease
        -> nothing",
    );
}

#[test]
fn a_purge_survives_a_restart_in_its_middle() {
    check(
        "with window=2 due=1
        create jobs
        send a b c d e f
        -> sent
        purge
        -> purged 6
        reopen
        lease
        -> nothing
        send g
        -> sent
        lease max=9
        -> g#1 deliveries=1 until=31",
    );
}

#[test]
fn a_queue_made_again_never_sees_old_messages() {
    check(
        "with due=1
        create jobs
        send a b c
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        delete jobs
        -> deleted
        create jobs
        ack a#1
        -> stale a
        lease
        -> nothing
        show
        -> why=empty",
    );
}

#[test]
fn a_deleted_queue_takes_no_lease_back() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        delete jobs
        -> deleted
        undo a#1
        -> undone 0
        after 100
        create jobs
        show
        -> why=empty",
    );
}

#[test]
fn deleting_what_is_not_there_is_an_error_unless_allowed() {
    check(
        "delete jobs
        -> refused: queue_not_found
        delete jobs allow_missing
        -> was not there",
    );
}

#[test]
fn the_first_message_ever_is_not_taken_for_purged() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        reopen
        lease
        -> waits
        -> it: a#2 deliveries=2 until=31
        ack a#2",
    );
}

#[test]
fn a_purge_of_dead_letters_leaves_the_rest_and_survives_a_restart() {
    check(
        "with due=1
        create jobs deliveries_max=1
        send a b c d
        -> sent
        lease max=3
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30
        nack a#1
        nack b#1
        purge dead
        -> purged 2
        show
        -> ready=1 leased=1 why=delivering
        nack c#1
        reopen
        browse dead
        -> c
        browse ready
        -> d",
    );
}

#[test]
fn a_purge_of_all_leaves_only_what_is_leased_until_it_comes_back() {
    check(
        "create jobs deliveries_max=1
        send a b c
        -> sent
        send d delay=10
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        nack a#1
        purge all
        -> purged 3
        show
        -> leased=1 why=all_leased until=30
        nack b#1
        show
        -> why=empty",
    );
}

/// A queue that is purged every second owes a walk, and not one a second.
#[test]
fn purges_that_come_before_a_walk_begins_are_one_walk() {
    check(
        "create jobs deliveries_max=1
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        send b
        -> sent
        purge rest=no
        -> purged 1
        purge all rest=no
        -> purged 1
        purge rest=no
        -> purged 0
        memory
        -> calls=0 walks=1
        after 1
        memory
        -> calls=0 walks=0
        stored
        -> nothing
        show
        -> why=empty",
    );
}
