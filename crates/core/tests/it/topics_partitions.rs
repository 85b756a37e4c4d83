//! Partitions of a topic: a log each, read alone or together.

use crate::check::check;

#[test]
fn a_pinned_reader_sees_one_partition_and_an_unpinned_one_all_of_them_by_time() {
    check(
        "create topics/t
        create topics/t/partitions/p
        create topics/t/partitions/q
        create topics/t/groups/pinned
        create topics/t/groups/all
        send a queue=topics/t/partitions/q
        -> sent
        after 1
        send b queue=topics/t/partitions/p
        -> sent
        after 1
        send c queue=topics/t
        -> sent
        after 1
        send d queue=topics/t/partitions/p
        -> sent
        lease queue=topics/t/groups/pinned max=10 partition=p
        -> b#1 deliveries=1 until=63, d#1 deliveries=1 until=63
        lease queue=topics/t/groups/pinned max=10 partition=none
        -> nothing
        lease queue=topics/t/groups/all max=10
        -> a#1 deliveries=1 until=63, b#2 deliveries=1 until=63, c#1 deliveries=1 until=63, d#2 deliveries=1 until=63
        show queue=topics/t
        -> ready=4 why=delivering
        show queue=topics/t/groups/pinned
        -> ready=2 leased=2 why=delivering
        ack b#1 partition=q
        -> stale b unknown
        ack b#1 partition=p",
    );
}

#[test]
fn a_group_read_pinned_and_unpinned_shares_its_progress() {
    check(
        "create topics/t
        create topics/t/partitions/p
        create topics/t/groups/g
        send a b queue=topics/t/partitions/p
        -> sent
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g partition=p
        -> a#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10
        -> b#1 deliveries=1 until=60, c#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10 partition=p
        -> nothing",
    );
}

#[test]
fn a_partition_that_is_deleted_takes_its_messages_and_leases_with_it() {
    check(
        "create topics/t
        create topics/t/partitions/p
        create topics/t/groups/g
        send a b queue=topics/t/partitions/p
        -> sent
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        delete topics/t/partitions/p
        -> deleted
        show queue=topics/t/groups/g
        -> ready=1 why=delivering
        show queue=topics/t
        -> ready=1 why=delivering
        ack a#1
        -> stale a unknown
        reopen
        show queue=topics/t/groups/g
        -> ready=1 why=delivering
        create topics/t/partitions/p
        send d queue=topics/t/partitions/p
        -> sent
        lease queue=topics/t/groups/g max=10
        -> waits
        -> it: c#1 deliveries=1 until=61, d#1 deliveries=1 until=61",
    );
}

#[test]
fn a_topic_that_is_deleted_is_gone_with_all_its_parts_after_a_crash_too() {
    check(
        "create topics/t
        create topics/t/partitions/p
        create topics/t/groups/g
        send a queue=topics/t/partitions/p
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        delete topics/t rest=no
        -> deleted
        reopen
        create topics/t
        create topics/t/groups/g
        list groups
        -> topics/t/groups/g why=empty
        list partitions
        -> none
        list topics
        -> topics/t why=empty",
    );
}

#[test]
fn a_pinned_reader_waits_for_its_own() {
    check(
        "create topics/t
        create topics/t/partitions/p
        create topics/t/groups/g
        lease queue=topics/t/groups/g wait=20 as=pinned partition=p
        -> waits
        lease queue=topics/t/groups/g wait=20 as=any
        -> waits
        send a queue=topics/t
        -> sent
        -> any: a#1 deliveries=1 until=60
        send b queue=topics/t/partitions/p
        -> sent
        -> pinned: b#1 deliveries=1 until=60",
    );
}

#[test]
fn limits_of_a_group_hold_over_all_partitions() {
    check(
        "create topics/t
        create topics/t/partitions/p
        create topics/t/groups/g concurrency=2
        send a b queue=topics/t/partitions/p
        -> sent
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g partition=p max=1
        -> a#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10
        -> b#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10
        -> nothing
        show queue=topics/t/groups/g
        -> ready=1 leased=2 why=concurrency_full limit=2 until=60
        ack a#1
        lease queue=topics/t/groups/g max=10
        -> c#1 deliveries=1 until=60",
    );
}

#[test]
fn a_partition_has_the_policies_of_its_topic_and_no_others() {
    check(
        "create topics/t retention=60
        create topics/t/partitions/p retention=300
        send a queue=topics/t/partitions/p
        -> sent
        get a queue=topics/t/partitions/p
        -> a ready counts=0/0/0 due=0 expires=60
        update topics/t/partitions/p retention=300
        -> generation=1 revision=1
        send b queue=topics/t/partitions/p
        -> sent
        get b queue=topics/t/partitions/p
        -> b ready counts=0/0/0 due=0 expires=60
        update topics/t retention=100
        -> generation=2 revision=2
        send c queue=topics/t/partitions/p
        -> sent
        reopen
        send d queue=topics/t/partitions/p
        -> sent
        get c queue=topics/t/partitions/p
        -> c ready counts=0/0/0 due=0 expires=100
        get d queue=topics/t/partitions/p
        -> d ready counts=0/0/0 due=1 expires=101",
    );
}

#[test]
fn a_partition_keeps_messages_as_long_as_its_topic_says() {
    check(
        "create topics/t retention=60 delay=2
        create topics/t/partitions/p retention=600
        create topics/t/groups/g
        send a queue=topics/t/partitions/p
        -> sent
        get a queue=topics/t
        -> a delayed counts=0/0/0 due=2 expires=60
        reopen
        send b queue=topics/t/partitions/p
        -> sent
        get b queue=topics/t
        -> b delayed counts=0/0/0 due=3 expires=61",
    );
}

#[test]
fn a_pinned_reader_does_not_wait_for_what_comes_back_to_others() {
    check(
        "with window=2
        create topics/t
        create topics/t/partitions/p
        create topics/t/partitions/q
        create topics/t/groups/g
        send a b c queue=topics/t/partitions/q
        -> sent
        lease queue=topics/t/groups/g max=3
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60, c#1 deliveries=1 until=60
        send d e queue=topics/t/partitions/q
        -> sent
        lease queue=topics/t/groups/g max=3
        -> d#1 deliveries=1 until=60, e#1 deliveries=1 until=60
        nack a#1 b#1 c#1 d#1 e#1
        lease queue=topics/t/groups/g partition=p wait=3 as=pinned
        -> waits
        after 3
        -> pinned: nothing
        lease queue=topics/t/groups/g partition=p
        -> nothing
        lease queue=topics/t/groups/g partition=q
        -> a#2 deliveries=2 until=63",
    );
}

#[test]
fn a_pinned_reader_is_served_while_others_wait_for_a_page() {
    check(
        "with window=2
        create topics/t
        create topics/t/partitions/p
        create topics/t/groups/g
        send a b c d e queue=topics/t
        -> sent
        send f queue=topics/t
        -> sent
        lease queue=topics/t/groups/g wait=20 as=all slowly
        -> waits
        send x queue=topics/t/partitions/p rest=no
        -> sent
        lease queue=topics/t/groups/g partition=p
        -> x#1 deliveries=1 until=60
        lease queue=topics/t/groups/g wait=20 as=pinned partition=p rest=no
        -> waits
        send y queue=topics/t/partitions/p rest=no
        -> sent
        arrive
        -> pinned: y#1 deliveries=1 until=60
        -> all: a#1 deliveries=1 until=60",
    );
}

#[test]
fn a_partition_that_is_deleted_leaves_room_for_calls_that_wait() {
    check(
        "create topics/t
        create topics/t/partitions/p
        create topics/t/groups/g concurrency=1
        send a queue=topics/t/partitions/p
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        send b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g wait=20 as=one
        -> waits
        delete topics/t/partitions/p
        -> deleted
        -> one: b#1 deliveries=1 until=60",
    );
}
