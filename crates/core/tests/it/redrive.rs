//! Dead letters that are moved: back home, or elsewhere.

use crate::check::check;

#[test]
fn messages_that_came_as_dead_letters_go_home_and_are_dead_letters_no_more() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        nack a#1
        nack b#1
        lease queue=graves
        -> a#2 deliveries=1 until=30 dead_of=jobs reason=attemptsspent
        nack a#2 delay=10
        browse delayed queue=graves
        -> a
        move a b queue=graves
        -> a to jobs, b to jobs
        show queue=graves
        -> why=empty
        get a
        -> a ready counts=0/0/0 due=0 expires=345600
        lease max=2
        -> a#3 deliveries=1 until=30, b#2 deliveries=1 until=30
        ack a#2 queue=graves
        -> stale a
        nack a#3
        get a queue=graves
        -> a ready counts=0/0/0 due=0 expires=345600 dead_of=jobs reason=attemptsspent",
    );
}

#[test]
fn own_dead_letters_have_no_home_and_go_where_they_are_told() {
    check(
        "create other
        create jobs deliveries_max=1
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        move a
        -> nothing, skipped a
        move a to=other
        -> a to other
        show
        -> why=empty
        lease queue=other
        -> a#2 deliveries=1 until=30
        move a queue=other to=jobs
        -> nothing, skipped a",
    );
}

#[test]
fn what_is_no_dead_letter_or_is_held_stays() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        send plain queue=graves
        -> sent
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        lease max=2 queue=graves
        -> plain#1 deliveries=1 until=30, a#2 deliveries=1 until=30 dead_of=jobs reason=attemptsspent
        nack plain#1
        move plain a unknown queue=graves
        -> nothing, skipped plain, skipped a, skipped unknown
        ack a#2
        move queue=graves
        -> nothing",
    );
}

#[test]
fn those_whose_home_is_gone_stay() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        delete jobs
        -> deleted
        move a queue=graves
        -> nothing, skipped a
        create other
        move a queue=graves to=other
        -> a to other",
    );
}

#[test]
fn the_queue_that_takes_them_is_there_and_is_another() {
    check(
        "create jobs
        move to=missing
        -> refused: queue_not_found
        move queue=missing to=jobs
        -> refused: queue_not_found
        move to=jobs
        -> refused: out_of_range destination
        move a times=1001
        -> refused: out_of_range message_ids",
    );
}

#[test]
fn a_purge_from_before_a_move_does_not_reach_what_arrives() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        purge
        -> purged 0
        move a queue=graves
        -> a to jobs
        purge queue=graves
        -> purged 0
        lease
        -> a#2 deliveries=1 until=30",
    );
}

#[test]
fn a_move_is_one_commit_and_survives_a_restart() {
    check(
        "with window=1
        create graves
        create jobs deliveries_max=1 at_limit=move:graves retention=100
        send a b c
        -> sent
        lease timeout=10
        -> a#1 deliveries=1 until=10
        after 10
        lease timeout=10
        -> b#1 deliveries=1 until=20
        after 10
        reopen
        move a b c queue=graves
        -> a to jobs, b to jobs, skipped c
        reopen
        show
        -> ready=3 why=delivering
        show queue=graves
        -> why=empty
        browse ready
        -> c, a, b
        after 80
        show
        -> why=empty",
    );
}

#[test]
fn a_moved_message_lives_for_a_minute_at_least() {
    check(
        "create graves retention=1000
        create jobs deliveries_max=1 at_limit=move:graves retention=60
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        after 500
        move a queue=graves
        -> a to jobs
        get a
        -> a ready counts=0/0/0 due=500 expires=560",
    );
}
