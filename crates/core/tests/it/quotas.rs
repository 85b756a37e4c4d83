//! Quotas of an environment. A message weighs two bytes of attributes and as many of data as its name has.

use crate::check::check;

#[test]
fn a_message_counts_until_it_is_settled() {
    check(
        "with messages=2
        create jobs
        create other
        send a
        -> sent
        send b queue=other
        -> sent
        send c
        -> refused: message_limit
        lease
        -> a#1 deliveries=1 until=30
        send c
        -> refused: message_limit
        ack a#1
        send c queue=other
        -> sent
        reopen
        send d
        -> refused: message_limit",
    );
}

#[test]
fn a_send_that_does_not_fit_whole_is_refused_whole() {
    check(
        "with messages=3
        create jobs
        send a b
        -> sent
        send c d
        -> refused: message_limit
        send c
        -> sent
        show
        -> ready=3 why=no_consumer since=unknown",
    );
}

#[test]
fn bytes_are_those_of_attributes_and_data() {
    check(
        "with bytes=10
        create jobs
        send four
        -> sent
        send three
        -> refused: byte_limit
        send aa
        -> sent
        show bytes
        -> waiting=10 in_all=10
        send a
        -> refused: byte_limit
        lease
        -> four#1 deliveries=1 until=30
        show bytes
        -> waiting=4 leased=6 in_all=10
        ack four#1
        send b
        -> sent
        show bytes
        -> waiting=7 in_all=7",
    );
}

#[test]
fn an_ack_makes_room_for_what_the_same_call_sends() {
    check(
        "with messages=1 bytes=4
        create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle nack=a#1 send=jobs:b
        -> refused: message_limit
        settle ack=a#1 send=jobs:bbb
        -> refused: byte_limit
        settle ack=a#1 send=jobs:b send=jobs:c
        -> refused: message_limit
        settle ack=a#1 ack=a#1 send=jobs:bb
        -> sent
        show bytes
        -> waiting=4 in_all=4",
    );
}

#[test]
fn an_ack_of_what_is_kept_makes_no_room() {
    check(
        "with messages=1
        create jobs finished=60
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        settle ack=a#1 send=jobs:b
        -> refused: message_limit
        ack a#1
        send b
        -> refused: message_limit
        show bytes
        -> finished=3 in_all=3
        after 60
        send b
        -> sent",
    );
}

#[test]
fn purge_and_deletion_make_room_at_once() {
    check(
        "with messages=4 due=1
        create jobs
        create other
        send a b c
        -> sent
        send d queue=other
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        purge
        -> purged 2
        show bytes
        -> leased=3 in_all=3
        send e f g
        -> refused: message_limit
        send e f
        -> sent
        delete other
        -> deleted
        send g
        -> sent
        send h
        -> refused: message_limit
        nack a#1
        send h
        -> sent",
    );
}

#[test]
fn what_has_expired_counts_until_it_is_removed() {
    check(
        "with messages=2 bytes=6
        create jobs
        send a b ttl=5
        -> sent
        after 4
        send c
        -> refused: message_limit
        after 1
        show bytes
        -> in_all=0
        send c
        -> sent",
    );
}

#[test]
fn dead_letters_count_where_they_are_and_move_whatever_the_quota() {
    check(
        "with messages=2
        create failed
        create jobs deliveries_max=1 at_limit=move:failed
        create kept deliveries_max=1
        send a
        -> sent
        send b queue=kept
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        lease queue=kept
        -> b#1 deliveries=1 until=30
        nack b#1
        show bytes
        -> in_all=0
        show bytes queue=failed
        -> waiting=3 in_all=3
        show bytes queue=kept
        -> dead=3 in_all=3
        send c
        -> refused: message_limit
        reopen
        delete kept
        -> deleted
        send c
        -> sent",
    );
}

#[test]
fn a_repeated_send_is_answered_whatever_the_quota() {
    check(
        "with messages=1
        create jobs
        send a key=k
        -> sent
        send b key=k
        -> repeated a
        send c key=other
        -> refused: message_limit",
    );
}

#[test]
fn one_key_twice_in_a_call_counts_once() {
    check(
        "with messages=1
        create jobs
        settle send=jobs:a send=jobs:b key=k
        -> sent, repeated a",
    );
}
