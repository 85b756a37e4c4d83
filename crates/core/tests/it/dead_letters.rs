//! Dead letters and where they go.

use crate::check::check;

#[test]
fn a_dead_letter_moves_with_its_id_and_starts_afresh() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        show
        -> why=empty
        lease queue=graves
        -> a#2 deliveries=1 until=30 dead_of=jobs reason=attemptsspent
        nack a#2
        lease queue=graves
        -> a#3 deliveries=2 until=30 dead_of=jobs reason=attemptsspent
        ack a#1 queue=graves
        -> stale a
        ack a#3",
    );
}

#[test]
fn a_paused_target_takes_dead_letters_all_the_same() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        pause queue=graves
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        show queue=graves
        -> ready=1 why=paused since=0",
    );
}

#[test]
fn a_deleted_target_falls_back_to_the_own_set() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves
        delete graves
        -> refused: queue_in_use
        delete graves force
        -> deleted
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        show
        -> dead=1 why=all_dead",
    );
}

#[test]
fn a_deleted_target_falls_back_to_dropping_where_the_queue_says_so() {
    check(
        "create graves
        create jobs deliveries_max=1 at_limit=move:graves:drop
        delete graves force
        -> deleted
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        show
        -> why=empty",
    );
}

#[test]
fn a_dead_letter_moves_on_through_a_chain() {
    check(
        "create last
        create graves deliveries_max=1 at_limit=move:last
        create jobs deliveries_max=1 at_limit=move:graves
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        lease queue=graves
        -> a#2 deliveries=1 until=30 dead_of=jobs reason=attemptsspent
        nack a#2
        lease queue=last
        -> a#3 deliveries=1 until=30 dead_of=graves reason=attemptsspent",
    );
}

#[test]
fn dead_letters_must_not_lead_back() {
    check(
        "create jobs at_limit=move:jobs
        -> refused: dead_letter_queue itself
        create jobs at_limit=move:graves
        -> refused: dead_letter_queue missing
        create graves
        create jobs at_limit=move:graves
        delete graves force
        -> deleted
        create graves at_limit=move:jobs
        -> refused: dead_letter_queue circle",
    );
}

#[test]
fn dead_letters_survive_a_purge() {
    check(
        "create jobs deliveries_max=1
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        purge
        -> purged 1
        show
        -> dead=1 why=all_dead",
    );
}

#[test]
fn a_moved_message_lives_for_a_minute_at_least() {
    check(
        "create graves retention=60
        create jobs deliveries_max=1 at_limit=move:graves retention=1000
        send a
        -> sent
        lease timeout=100
        -> a#1 deliveries=1 until=100
        after 100
        show queue=graves
        -> ready=1 why=no_consumer since=unknown
        after 59
        show queue=graves
        -> ready=1 why=no_consumer since=unknown
        after 2
        show queue=graves
        -> why=empty",
    );
}
