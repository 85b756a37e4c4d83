//! Topics and their groups (rule 6): every group has every message, and goes its own way.

use crate::check::check;

#[test]
fn every_group_gets_every_message_and_an_ack_concerns_one_group() {
    check(
        "create topics/t
        create topics/t/groups/x
        create topics/t/groups/y
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/x max=10
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60
        lease queue=topics/t/groups/y
        -> a#2 deliveries=1 until=60
        show queue=topics/t/groups/x
        -> leased=2 why=all_leased until=60
        show queue=topics/t/groups/y
        -> ready=1 leased=1 why=delivering
        show queue=topics/t
        -> ready=2 why=delivering
        ack a#1
        show queue=topics/t/groups/x
        -> leased=1 why=all_leased until=60
        ack a#1
        -> stale a acked
        lease queue=topics/t/groups/x
        -> nothing
        lease queue=topics/t/groups/y
        -> b#2 deliveries=1 until=60
        show queue=topics/t/groups/y
        -> leased=2 why=all_leased until=60",
    );
}

#[test]
fn a_new_group_begins_with_the_oldest_message_unless_it_asks_for_the_latest() {
    check(
        "create topics/t
        send a b queue=topics/t
        -> sent
        create topics/t/groups/old
        create topics/t/groups/new start=latest
        show queue=topics/t/groups/old
        -> ready=2 why=no_consumer since=unknown
        show queue=topics/t/groups/new
        -> why=empty
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/old max=10
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60, c#1 deliveries=1 until=60
        lease queue=topics/t/groups/new max=10
        -> c#2 deliveries=1 until=60
        reopen
        lease queue=topics/t/groups/new max=10
        -> nothing",
    );
}

#[test]
fn messages_that_were_never_delivered_come_before_those_that_came_back() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=10
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=10
        nack a#1
        lease queue=topics/t/groups/g
        -> b#1 deliveries=1 until=10
        lease queue=topics/t/groups/g
        -> a#2 deliveries=2 until=10
        lease queue=topics/t/groups/g
        -> nothing
        after 10
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=10
        -> c#1 deliveries=1 until=20, a#3 deliveries=3 until=20, b#2 deliveries=2 until=20",
    );
}

#[test]
fn a_delayed_message_comes_behind_what_became_visible_before_it() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a queue=topics/t delay=5
        -> sent
        send b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> b#1 deliveries=1 until=60
        ack b#1
        show queue=topics/t/groups/g
        -> delayed=1 why=all_delayed until=5
        show queue=topics/t
        -> ready=1 delayed=1 why=delivering
        after 5
        show queue=topics/t/groups/g
        -> ready=1 why=delivering
        lease queue=topics/t/groups/g max=10
        -> a#1 deliveries=1 until=65",
    );
}

#[test]
fn a_group_waits_for_messages_and_a_topic_wakes_it() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/groups/h
        lease queue=topics/t/groups/g wait=20 as=one
        -> waits
        lease queue=topics/t/groups/g wait=20 as=two
        -> waits
        lease queue=topics/t/groups/h wait=20 as=three
        -> waits
        send a queue=topics/t
        -> sent
        -> one: a#1 deliveries=1 until=60
        -> three: a#2 deliveries=1 until=60
        send b queue=topics/t delay=5
        -> sent
        after 5
        -> two: b#1 deliveries=1 until=65
        lease queue=topics/t/groups/h wait=3 as=four
        -> b#2 deliveries=1 until=65
        lease queue=topics/t/groups/h wait=3 as=five
        -> waits
        after 3
        -> five: nothing",
    );
}

#[test]
fn a_message_leaves_all_groups_when_it_expires_but_its_holder_may_settle_it() {
    check(
        "create topics/t retention=60
        create topics/t/groups/g timeout=100
        create topics/t/groups/h
        send a b queue=topics/t ttl=20
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=100
        nack a#1 delay=5
        lease queue=topics/t/groups/g
        -> b#1 deliveries=1 until=100
        after 20
        lease queue=topics/t/groups/g
        -> nothing
        lease queue=topics/t/groups/h
        -> nothing
        show queue=topics/t
        -> why=empty
        show queue=topics/t/groups/h
        -> why=empty
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=100
        ack b#1
        show queue=topics/t/groups/g
        -> why=empty",
    );
}

#[test]
fn an_extension_does_not_outlive_the_message() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=10
        send a queue=topics/t ttl=100
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=10
        extend a#1 by=100
        extend a#1 by=101
        -> refused: beyond_expiry
        after 60
        extend a#1 by=41
        -> refused: beyond_expiry
        extend a#1 by=40
        ack a#1",
    );
}

#[test]
fn a_lease_that_is_not_held_says_why() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=10
        create topics/t/groups/h
        send a b c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=3
        -> a#1 deliveries=1 until=10, b#1 deliveries=1 until=10, c#1 deliveries=1 until=10
        ack a#1
        ack a#1
        -> stale a acked
        nack a#1
        -> stale a acked
        nack b#1
        ack b#1
        -> stale b
        lease queue=topics/t/groups/g
        -> b#2 deliveries=2 until=10
        ack b#1
        -> stale b taken
        after 10
        ack c#1
        -> stale c
        ack c#1 queue=topics/t/groups/h
        -> stale c unknown
        lease queue=topics/t/groups/h look
        -> a#2 deliveries=1 until=10
        ack a#2
        -> stale a returned
        reopen
        ack a#1
        -> stale a unknown",
    );
}

#[test]
fn acks_are_remembered_for_ten_minutes_and_up_to_a_limit() {
    check(
        "with acks=2
        create topics/t
        create topics/t/groups/g
        send a b c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=3
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60, c#1 deliveries=1 until=60
        ack a#1 b#1
        ack c#1
        ack a#1
        -> stale a unknown
        ack b#1
        -> stale b acked
        after 599
        ack b#1
        -> stale b acked
        after 1
        ack b#1
        -> stale b unknown",
    );
}

#[test]
fn a_later_renewal_does_not_undo_what_was_asked_for_after_it() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=30
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=30
        extend a#1 by=5 asked=10
        extend a#1 by=300 asked=9
        after 5
        show queue=topics/t/groups/g
        -> ready=1 why=delivering
        lease queue=topics/t/groups/g
        -> a#2 deliveries=2 until=35
        extend a#2 by=300 asked=1
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=305",
    );
}

#[test]
fn a_renewal_without_a_time_forgets_nothing_that_was_asked_before_it() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=30
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=30
        extend a#1 by=5 asked=10
        extend a#1 by=60
        extend a#1 by=300 asked=9
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=60",
    );
}

#[test]
fn a_call_may_allow_less_in_flight_than_the_group() {
    check(
        "create topics/t
        create topics/t/groups/g concurrency=3
        send a b c d e queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=10 in_flight=2
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10 in_flight=2
        -> refused: concurrency_reached
        lease queue=topics/t/groups/g max=10 in_flight=10
        -> c#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10
        -> nothing
        take d queue=topics/t/groups/g
        -> refused: concurrency_reached
        show queue=topics/t/groups/g
        -> ready=2 leased=3 why=concurrency_full limit=3 until=60
        lease queue=topics/t/groups/g in_flight=0
        -> refused: out_of_range max_concurrency
        ack a#1
        lease queue=topics/t/groups/g max=10
        -> d#1 deliveries=1 until=60",
    );
}

#[test]
fn a_call_that_waits_for_less_in_flight_holds_nobody_up() {
    check(
        "create topics/t
        create topics/t/groups/g
        lease queue=topics/t/groups/g wait=20 as=one in_flight=1
        -> waits
        lease queue=topics/t/groups/g wait=20 as=two in_flight=1
        -> waits
        lease queue=topics/t/groups/g wait=20 as=three
        -> waits
        send a queue=topics/t
        -> sent
        -> one: a#1 deliveries=1 until=60
        send b queue=topics/t
        -> sent
        -> three: b#1 deliveries=1 until=60
        ack a#1 b#1
        send c queue=topics/t
        -> sent
        -> two: c#1 deliveries=1 until=60",
    );
}

#[test]
fn a_look_leases_nothing() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=10 look
        -> a#1 deliveries=1 until=0, b#1 deliveries=1 until=0
        show queue=topics/t/groups/g
        -> ready=2 why=delivering
        lease queue=topics/t/groups/g max=10
        -> a#2 deliveries=1 until=60, b#2 deliveries=1 until=60
        lease queue=topics/t/groups/g look
        -> nothing",
    );
}

#[test]
fn a_grant_that_nobody_got_is_taken_back_to_its_place() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        undo a#1
        -> undone 1
        show queue=topics/t/groups/g
        -> ready=2 why=delivering
        lease queue=topics/t/groups/g max=10
        -> a#2 deliveries=1 until=60, b#1 deliveries=1 until=60",
    );
}

#[test]
fn a_restored_copy_voids_the_leases_of_groups() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        restore
        ack a#1
        -> stale a
        lease queue=topics/t/groups/g
        -> a#2 deliveries=1 until=61",
    );
}

#[test]
fn a_group_has_a_limit_of_deliveries_and_no_dead_letters() {
    check(
        "create topics/t
        create topics/t/groups/g deliveries_max=2 timeout=5
        create topics/t/groups/h at_limit=dead
        -> refused: out_of_range at_limit
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=5
        after 5
        lease queue=topics/t/groups/g
        -> a#2 deliveries=2 until=10
        after 5
        lease queue=topics/t/groups/g
        -> nothing
        show queue=topics/t/groups/g
        -> why=empty
        take a queue=topics/t/groups/g
        -> refused: already_settled",
    );
}

#[test]
fn what_topics_and_groups_do_not_do_is_refused_by_name() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/u/groups/g
        -> refused: queue_not_found
        create topics/t
        -> refused: queue_already_exists
        create topics/t/x
        -> refused: out_of_range queue_id
        create topics/a.b
        -> refused: out_of_range topic_id
        create topics/t/groups/
        -> refused: out_of_range group_id
        create topics/t retention=10
        -> refused: out_of_range retention
        send a queue=topics/t/groups/g
        -> refused: unsuited
        send a queue=topics/t priority=1
        -> refused: out_of_range priority
        lease queue=topics/t
        -> refused: unsuited
        lease queue=topics/t/groups/none
        -> refused: queue_not_found
        create jobs at_limit=move:topics/t
        -> refused: dead_letter_queue missing
        create jobs
        send a queue=jobs
        -> sent
        lease queue=jobs look
        -> refused: unsuited
        take a queue=jobs
        -> refused: unsuited
        send b queue=topics/t
        -> sent
        remove b queue=topics/t
        -> refused: unsuited
        get b queue=topics/t
        -> b ready counts=0/0/0 due=0 expires=604800",
    );
}

#[test]
fn topics_groups_and_partitions_are_listed_and_limited() {
    check(
        "with topics=2 groups=2 partitions=1
        create topics/t
        create topics/u
        create topics/v
        -> refused: queue_limit
        create topics/t/groups/b
        create topics/t/groups/a
        create topics/t/groups/c
        -> refused: queue_limit
        create topics/t/partitions/p
        create topics/t/partitions/q
        -> refused: queue_limit
        list topics
        -> topics/t why=empty, topics/u why=empty
        list groups
        -> topics/t/groups/a why=empty, topics/t/groups/b why=empty
        list groups limit=1 descending
        -> topics/t/groups/b why=empty, and more
        list partitions
        -> topics/t/partitions/p why=empty
        list groups of=topics/t/partitions/p
        -> refused: unsuited
        list groups of=topics/t/groups/a
        -> refused: unsuited
        list groups of=topics/w
        -> refused: queue_not_found
        list
        -> none
        delete topics/t/groups/a
        -> deleted
        list groups
        -> topics/t/groups/b why=empty",
    );
}

#[test]
fn a_topic_goes_with_its_groups_and_what_is_made_again_is_empty() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/partitions/p
        send a queue=topics/t
        -> sent
        send b queue=topics/t/partitions/p
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        lease queue=topics/t/groups/g wait=20 as=waiting in_flight=1
        -> refused: concurrency_reached
        lease queue=topics/t/groups/g wait=20 as=waiting max=1
        -> b#1 deliveries=1 until=60
        delete topics/t
        -> deleted
        ack a#1
        -> refused: queue_not_found
        create topics/t
        create topics/t/groups/g
        lease queue=topics/t/groups/g
        -> nothing
        reopen
        lease queue=topics/t/groups/g
        -> nothing
        list topics
        -> topics/t why=empty",
    );
}

#[test]
fn a_changed_group_and_topic_keep_to_their_new_policies() {
    check(
        "create topics/t
        create topics/t/groups/g timeout=10
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=10
        update topics/t/groups/g timeout=50 deliveries_max=1
        -> generation=2 revision=2
        lease queue=topics/t/groups/g
        -> b#1 deliveries=1 until=50
        after 10
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=50
        reopen
        after 40
        show queue=topics/t/groups/g
        -> why=empty",
    );
}

#[test]
fn a_paused_group_gets_nothing_and_others_go_on() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/groups/h
        send a queue=topics/t
        -> sent
        pause queue=topics/t/groups/g
        lease queue=topics/t/groups/g
        -> nothing
        show queue=topics/t/groups/g
        -> ready=1 why=paused since=0
        lease queue=topics/t/groups/h
        -> a#1 deliveries=1 until=60
        take a queue=topics/t/groups/g
        -> refused: paused
        resume queue=topics/t/groups/g
        lease queue=topics/t/groups/g
        -> a#2 deliveries=1 until=60",
    );
}

#[test]
fn a_key_is_remembered_as_long_as_its_message_lives_and_a_day_at_most() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/partitions/p
        send a queue=topics/t key=k ttl=100
        -> sent
        send x queue=topics/t key=k
        -> repeated a
        send b queue=topics/t/partitions/p key=k
        -> sent
        after 100
        send c queue=topics/t key=k
        -> sent
        after 23h
        send x queue=topics/t key=k
        -> repeated c
        after 1h
        send d queue=topics/t key=k
        -> sent",
    );
}

#[test]
fn groups_that_nobody_reads_are_removed_and_so_are_empty_partitions() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/groups/h
        create topics/t/partitions/p
        send a queue=topics/t/partitions/p
        -> sent
        lease queue=topics/t/groups/h
        -> a#1 deliveries=1 until=60
        after 100h
        lease queue=topics/t/groups/h
        -> a#2 deliveries=2 until=360060
        list groups
        -> topics/t/groups/g ready=1 why=no_deployment p, topics/t/groups/h leased=1 why=all_leased until=360060
        list partitions
        -> topics/t/partitions/p ready=1 why=delivering
        after 69h
        list groups
        -> topics/t/groups/h why=empty
        list partitions
        -> topics/t/partitions/p why=empty
        after 100h
        list groups
        -> none
        list partitions
        -> none",
    );
}

#[test]
fn a_receive_of_nothing_writes_nothing_after_the_first() {
    check(
        "create topics/t
        create topics/t/groups/g
        written
        -> 4 rows
        lease queue=topics/t/groups/g
        -> nothing
        written
        -> 1 rows
        after 3600
        lease queue=topics/t/groups/g
        -> nothing
        written
        -> 0 rows
        send a queue=topics/t
        -> sent
        written
        -> 4 rows
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=3660
        ack a#1
        written
        -> 5 rows
        lease queue=topics/t/groups/g
        -> nothing
        written
        -> 0 rows",
    );
}

#[test]
fn a_purged_topic_is_empty_for_all_groups_but_for_what_they_have_in_hand() {
    check(
        "with window=2
        create topics/t
        create topics/t/groups/g timeout=10
        create topics/t/groups/h
        create topics/t/partitions/p
        send a b c d queue=topics/t
        -> sent
        send e queue=topics/t/partitions/p
        -> sent
        send f queue=topics/t delay=5
        -> sent
        lease queue=topics/t/groups/g max=3
        -> a#1 deliveries=1 until=10, b#1 deliveries=1 until=10, c#1 deliveries=1 until=10
        nack a#1
        nack b#1 delay=5
        purge queue=topics/t
        -> purged 6
        show queue=topics/t
        -> why=empty
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=10
        show queue=topics/t/groups/h
        -> why=empty
        lease queue=topics/t/groups/h
        -> nothing
        send i queue=topics/t
        -> sent
        after 10
        lease queue=topics/t/groups/g max=10
        -> i#1 deliveries=1 until=20
        lease queue=topics/t/groups/h max=10
        -> i#2 deliveries=1 until=70
        reopen
        show queue=topics/t/groups/h
        -> leased=1 why=all_leased until=70
        purge queue=topics/t dead
        -> purged 0",
    );
}

#[test]
fn a_purged_group_skips_what_lies_before_it_and_others_do_not() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/groups/h
        create topics/t/partitions/p
        send a b c d queue=topics/t
        -> sent
        send e queue=topics/t/partitions/p
        -> sent
        lease queue=topics/t/groups/g max=2
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60
        nack a#1
        take d queue=topics/t/groups/g
        -> d#1 deliveries=1 until=60
        purge queue=topics/t/groups/g
        -> purged 3
        show queue=topics/t/groups/g
        -> leased=2 why=all_leased until=60
        show queue=topics/t/groups/h
        -> ready=5 why=no_consumer since=unknown
        lease queue=topics/t/groups/g max=10
        -> nothing
        ack b#1 d#1
        send f queue=topics/t
        -> sent
        reopen
        lease queue=topics/t/groups/g max=10
        -> waits
        -> it: f#1 deliveries=1 until=61
        take c queue=topics/t/groups/g
        -> refused: already_settled",
    );
}
