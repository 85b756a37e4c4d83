//! Messages of a topic that a group takes by their ids.

use crate::check::check;

#[test]
fn a_message_is_taken_by_id_once_and_not_again_by_anybody_of_the_group() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=10
        create topics/t/groups/h
        send a b c queue=topics/t
        -> sent
        take b queue=topics/t/groups/g
        -> b#1 deliveries=1 until=10
        take b queue=topics/t/groups/g
        -> refused: message_leased
        show queue=topics/t/groups/g
        -> ready=2 leased=1 why=delivering
        lease queue=topics/t/groups/g max=10
        -> a#1 deliveries=1 until=10, c#1 deliveries=1 until=10
        ack b#1
        take b queue=topics/t/groups/g
        -> refused: already_settled
        take b queue=topics/t/groups/h
        -> b#2 deliveries=1 until=60
        take a queue=topics/t/groups/g
        -> refused: message_leased
        after 10
        take a queue=topics/t/groups/g
        -> a#2 deliveries=2 until=20
        take missing queue=topics/t/groups/g
        -> refused: message_not_found
        nack c#1 delay=5
        -> stale c
        nack a#2 delay=5
        take a queue=topics/t/groups/g
        -> refused: message_delayed
        take a queue=topics/t/groups/none
        -> refused: queue_not_found
        after 5
        take a queue=topics/t/groups/g
        -> a#3 deliveries=3 until=25
        show queue=topics/t/groups/g
        -> ready=1 leased=1 why=delivering",
    );
}

#[test]
fn a_message_behind_the_start_can_be_taken_by_id() {
    check(
        "create topics/t
        send a b queue=topics/t
        -> sent
        create topics/t/groups/g start=latest
        send c queue=topics/t
        -> sent
        take a queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        ack a#1
        take a queue=topics/t/groups/g
        -> refused: already_settled
        runs
        -> 1-1
        lease queue=topics/t/groups/g max=10
        -> c#1 deliveries=1 until=60
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=60
        reopen
        take a queue=topics/t/groups/g
        -> refused: already_settled
        take b queue=topics/t/groups/g
        -> b#1 deliveries=1 until=61
        runs
        -> 1-2",
    );
}

#[test]
fn a_delayed_message_is_not_taken_early() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a queue=topics/t delay=10
        -> sent
        take a queue=topics/t/groups/g
        -> refused: message_delayed
        after 10
        take a queue=topics/t/groups/g
        -> a#1 deliveries=1 until=70",
    );
}

#[test]
fn an_expired_message_is_not_found() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a queue=topics/t ttl=10
        -> sent
        after 10
        take a queue=topics/t/groups/g
        -> refused: message_not_found",
    );
}

#[test]
fn messages_taken_ahead_are_skipped_when_the_position_comes_to_them() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a b c d e f queue=topics/t
        -> sent
        take e queue=topics/t/groups/g
        -> e#1 deliveries=1 until=60
        take c queue=topics/t/groups/g
        -> c#1 deliveries=1 until=60
        runs
        -> 3-3 5-5
        take d queue=topics/t/groups/g
        -> d#1 deliveries=1 until=60
        runs
        -> 3-5
        ack d#1
        show queue=topics/t/groups/g
        -> ready=3 leased=2 why=delivering
        reopen
        show queue=topics/t/groups/g
        -> ready=3 leased=2 why=delivering
        lease queue=topics/t/groups/g max=2
        -> waits
        -> it: a#1 deliveries=1 until=61, b#1 deliveries=1 until=61
        runs
        -> none
        lease queue=topics/t/groups/g max=9
        -> f#1 deliveries=1 until=61
        show queue=topics/t/groups/g
        -> leased=5 why=all_leased until=60",
    );
}

#[test]
fn the_next_message_taken_by_id_moves_the_position() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a b c queue=topics/t
        -> sent
        take b queue=topics/t/groups/g
        -> b#1 deliveries=1 until=60
        runs
        -> 2-2
        take a queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        runs
        -> none
        take c queue=topics/t/groups/g
        -> c#1 deliveries=1 until=60
        runs
        -> none
        show queue=topics/t/groups/g
        -> leased=3 why=all_leased until=60",
    );
}

#[test]
fn too_many_messages_taken_out_of_order_are_refused() {
    check(
        "with runs=2
        create topics/t
        create topics/t/groups/g
        send a b c d e f g h queue=topics/t
        -> sent
        take c queue=topics/t/groups/g
        -> c#1 deliveries=1 until=60
        take e queue=topics/t/groups/g
        -> e#1 deliveries=1 until=60
        take g queue=topics/t/groups/g
        -> refused: run_limit
        show queue=topics/t/groups/g
        -> ready=6 leased=2 why=delivering
        lease queue=topics/t/groups/g max=3
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60, d#1 deliveries=1 until=60
        take g queue=topics/t/groups/g
        -> g#1 deliveries=1 until=60",
    );
}

#[test]
fn a_look_at_one_message_leases_nothing() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a b queue=topics/t
        -> sent
        take b queue=topics/t/groups/g look
        -> b#1 deliveries=1 until=0
        runs
        -> none
        show queue=topics/t/groups/g
        -> ready=2 why=delivering",
    );
}

#[test]
fn a_message_of_another_topic_or_partition_is_not_found() {
    check(
        "create topics/t
        create topics/u
        create topics/t/groups/g
        create topics/t/partitions/p
        send a queue=topics/u
        -> sent
        send b queue=topics/t/partitions/p
        -> sent
        send c queue=topics/t
        -> sent
        take a queue=topics/t/groups/g
        -> refused: message_not_found
        take b queue=topics/t/groups/g partition=q
        -> refused: message_not_found
        take c queue=topics/t/groups/g partition=p
        -> refused: message_not_found
        take b queue=topics/t/groups/g partition=p
        -> b#1 deliveries=1 until=60",
    );
}

#[test]
fn a_message_whose_lease_ran_out_waits_as_its_group_says() {
    check(
        "create topics/t
        create topics/t/groups/g policy=pg-boss at_limit=drop timeout=10
        send a queue=topics/t
        -> sent
        take a queue=topics/t/groups/g
        -> a#1 deliveries=1 until=10
        later 12
        take a queue=topics/t/groups/g
        -> refused: message_delayed
        later 3
        take a queue=topics/t/groups/g
        -> a#2 deliveries=2 until=25",
    );
}

#[test]
fn what_was_purged_of_a_group_is_not_taken_by_its_id() {
    check(
        "create topics/t
        send a queue=topics/t
        -> sent
        create topics/t/groups/g start=latest
        send b c d queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=2
        -> b#1 deliveries=1 until=60, c#1 deliveries=1 until=60
        nack b#1
        purge queue=topics/t/groups/g rest=no
        -> purged 2
        take a queue=topics/t/groups/g
        -> refused: already_settled
        take b queue=topics/t/groups/g
        -> refused: already_settled
        take c queue=topics/t/groups/g
        -> refused: message_leased
        take d queue=topics/t/groups/g
        -> refused: already_settled
        nack c#1
        show queue=topics/t/groups/g
        -> why=empty
        reopen
        take a queue=topics/t/groups/g
        -> refused: already_settled",
    );
}

#[test]
fn runs_of_messages_that_are_gone_do_not_count() {
    check(
        "with runs=2
        create topics/t
        create topics/t/groups/g
        send a b c d queue=topics/t ttl=10
        -> sent
        take b queue=topics/t/groups/g
        -> b#1 deliveries=1 until=60
        take d queue=topics/t/groups/g
        -> d#1 deliveries=1 until=60
        after 10
        send e f g h queue=topics/t
        -> sent
        take f queue=topics/t/groups/g
        -> f#1 deliveries=1 until=70
        take h queue=topics/t/groups/g
        -> h#1 deliveries=1 until=70",
    );
}

#[test]
fn a_lease_that_ran_out_is_not_in_flight() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=10
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=10
        later 10
        lease queue=topics/t/groups/g in_flight=1
        -> b#1 deliveries=1 until=20
        later 10
        take a queue=topics/t/groups/g in_flight=1
        -> a#2 deliveries=2 until=30",
    );
}

#[test]
fn who_waits_is_served_though_the_call_that_promoted_is_refused() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/groups/h
        send a queue=topics/t delay=5
        -> sent
        pause queue=topics/t/groups/g
        lease queue=topics/t/groups/h wait=20 as=waiting
        -> waits
        later 5
        take a queue=topics/t/groups/g
        -> refused: paused
        -> waiting: a#1 deliveries=1 until=65",
    );
}
