//! Groups that are far behind what memory holds of a log, and groups with stuck messages.

use crate::check::check;

#[test]
fn a_group_that_is_far_behind_reads_the_log_page_by_page() {
    check(
        "with window=2
        create topics/t
        create topics/t/groups/g
        send a b c d e f queue=topics/t
        -> sent
        send g h i j k l queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> waits
        -> it: a#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=4
        -> b#1 deliveries=1 until=60
        reopen
        lease queue=topics/t/groups/g max=3
        -> waits
        -> it: c#1 deliveries=1 until=61, d#1 deliveries=1 until=61
        send m queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=10
        -> e#1 deliveries=1 until=61, f#1 deliveries=1 until=61
        lease queue=topics/t/groups/g max=10
        -> g#1 deliveries=1 until=61, h#1 deliveries=1 until=61
        lease queue=topics/t/groups/g max=10
        -> i#1 deliveries=1 until=61, j#1 deliveries=1 until=61
        show queue=topics/t/groups/g
        -> ready=3 leased=10 why=delivering",
    );
}

#[test]
fn what_expired_in_front_of_a_group_is_skipped() {
    check(
        "with window=2 due=1
        create topics/t
        create topics/t/groups/g
        send a b c d queue=topics/t ttl=10
        -> sent
        send e f queue=topics/t
        -> sent
        after 10
        lease queue=topics/t/groups/g max=10
        -> e#1 deliveries=1 until=70, f#1 deliveries=1 until=70
        show queue=topics/t/groups/g
        -> leased=2 why=all_leased until=70",
    );
}

#[test]
fn a_stuck_message_costs_one_row_whatever_is_acked_behind_it() {
    check(
        "with window=2
        create topics/t
        create topics/t/groups/g
        send a b c d e f queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=3
        -> b#1 deliveries=1 until=60, c#1 deliveries=1 until=60, d#1 deliveries=1 until=60
        ack b#1 c#1 d#1
        runs
        -> none
        lease queue=topics/t/groups/g max=3
        -> e#1 deliveries=1 until=60, f#1 deliveries=1 until=60
        ack e#1 f#1
        runs
        -> none
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=60
        nack a#1
        lease queue=topics/t/groups/g
        -> a#2 deliveries=2 until=60",
    );
}

#[test]
fn counts_come_from_what_is_stored_after_reopening() {
    check(
        "with window=2
        create topics/t
        create topics/t/groups/g
        create topics/t/groups/h
        send a b c d e f queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=2
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60
        ack a#1
        reopen
        show queue=topics/t
        -> ready=6 why=delivering
        show queue=topics/t/groups/g
        -> ready=4 leased=1 why=delivering
        show queue=topics/t/groups/h
        -> ready=6 why=no_consumer since=unknown",
    );
}

#[test]
fn what_was_never_delivered_comes_before_what_came_back_though_it_has_to_be_read_first() {
    check(
        "with window=2
        create topics/t
        create topics/t/groups/g
        send a b c d e f queue=topics/t
        -> sent
        send g h i j k l queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> waits
        -> it: a#1 deliveries=1 until=60
        nack a#1
        lease queue=topics/t/groups/g
        -> b#1 deliveries=1 until=60
        lease queue=topics/t/groups/g
        -> waits
        -> it: c#1 deliveries=1 until=60",
    );
}
