//! What is written beside the owner and taken in: sends, settlements, and the claims on leases that could be settled so (design-holes
//! A5, A13).

use crate::check::check;

#[test]
fn messages_are_sent_in_the_order_of_the_intake() {
    check(
        "create jobs
        beside send a b
        beside send c priority=1
        take_in
        after 1
        send d
        -> sent
        lease max=4
        -> c#1 deliveries=1 until=31, a#1 deliveries=1 until=31, b#1 deliveries=1 until=31, d#1 deliveries=1 until=31
        settle ack=a#1 ack=b#1 ack=c#1 ack=d#1
        show
        -> why=empty",
    );
}

#[test]
fn a_delay_counts_from_the_send_and_life_from_the_intake() {
    check(
        "create jobs retention=60
        beside send a delay=20
        beside send b visible=50
        beside send c delay=5
        after 10
        take_in
        lease max=3
        -> c#1 deliveries=1 until=40
        get a
        -> a delayed counts=0/0/0 due=20 expires=70
        get b
        -> b delayed counts=0/0/0 due=50 expires=70",
    );
}

#[test]
fn what_would_only_be_visible_when_its_life_is_over_is_refused() {
    check(
        "create jobs retention=60
        after 10
        beside send a visible=70
        beside send b visible=69
        beside send c visible=30 ttl=20
        take_in
        get a
        -> a cancelled counts=0/0/0 due=10 expires=86410 dead_of=jobs reason=refused
        get b
        -> b delayed counts=0/0/0 due=69 expires=70
        get c
        -> c cancelled counts=0/0/0 due=10 expires=86410 dead_of=jobs reason=refused",
    );
}

#[test]
fn what_cannot_be_sent_is_shown_as_cancelled_with_the_reason() {
    check(
        "create jobs
        create other
        beside send a key=k
        take_in
        beside send b key=k
        beside send c queue=gone
        beside send d delay=2000h
        beside send e queue=other
        delete other
        -> deleted
        take_in
        get a
        -> a ready counts=0/0/0 due=0 expires=345600
        get b
        -> b cancelled counts=0/0/0 due=0 expires=86400 dead_of=jobs reason=deduplicated
        get c queue=gone
        -> c cancelled counts=0/0/0 due=0 expires=86400 dead_of=gone reason=queuedeleted
        get d
        -> d cancelled counts=0/0/0 due=0 expires=86400 dead_of=jobs reason=refused
        get e queue=other
        -> e cancelled counts=0/0/0 due=0 expires=86400 dead_of=other reason=queuedeleted
        get c
        -> refused: message_not_found
        show
        -> ready=1 why=no_consumer since=unknown
        reopen
        get c queue=gone
        -> c cancelled counts=0/0/0 due=0 expires=86400 dead_of=gone reason=queuedeleted
        after 24h
        get b
        -> refused: message_not_found
        get c queue=gone
        -> refused: queue_not_found",
    );
}

#[test]
fn a_key_that_was_used_beside_stands_for_whatever_is_sent_under_it() {
    check(
        "create jobs
        beside send a key=k
        take_in
        send b key=k digest=7
        -> repeated a
        send c key=l digest=7
        -> sent
        beside send d key=l
        take_in
        get d
        -> d cancelled counts=0/0/0 due=0 expires=86400 dead_of=jobs reason=deduplicated",
    );
}

#[test]
fn quotas_do_not_refuse_what_is_committed() {
    check(
        "with messages=1 keys=1
        create jobs
        beside send a b c
        beside send d key=k
        beside send e key=l
        take_in
        show
        -> ready=5 why=no_consumer since=unknown
        send f
        -> refused: message_limit",
    );
}

#[test]
fn a_topic_takes_messages_and_makes_the_partition_that_is_named() {
    check(
        "create topics/t
        create topics/t/groups/g
        beside send a queue=topics/t
        beside send b queue=topics/t partition=p
        take_in
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        lease queue=topics/t/groups/g partition=p
        -> b#1 deliveries=1 until=60",
    );
}

#[test]
fn a_settlement_ends_a_lease_with_the_commit_that_takes_it_in() {
    check(
        "create jobs
        beside allow
        take_in
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        beside complete a#1
        beside fail b#1 delay=5
        claims
        -> 1:settled 2:settled
        take_in
        claims
        -> none
        show
        -> delayed=1 why=all_delayed until=5
        ack a#1
        -> stale a
        get b
        -> b delayed counts=1/1/0 due=5 expires=345600",
    );
}

#[test]
fn a_committed_settlement_wins_over_the_end_of_its_lease() {
    check(
        "create jobs
        beside allow
        take_in
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        beside complete a#1
        after 31
        show
        -> leased=1 why=all_leased until=32
        take_in
        show
        -> why=empty
        claims
        -> none",
    );
}

#[test]
fn a_lease_that_an_open_transaction_holds_does_not_end() {
    check(
        "create jobs
        beside allow
        take_in
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        hold a#1
        after 30
        show
        -> leased=1 why=all_leased until=31
        nack a#1
        -> stale a settling
        nack a#1 require=all
        -> refused: 1 stale
        after 1
        after 1
        after 9
        show
        -> leased=1 why=held_by_transactions since=30
        lease
        -> nothing
        let_go a#1
        after 1
        show
        -> ready=1 why=delivering
        lease
        -> a#2 deliveries=2 until=72",
    );
}

/// Nobody else got the message, and whoever has the transaction open may be waiting for the answer to a heartbeat.
#[test]
fn a_lease_that_was_found_to_be_held_is_its_holders_until_that_is_looked_at_again() {
    check(
        "create jobs
        beside allow
        take_in
        send a b c
        -> sent
        lease max=3
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30
        hold a#1
        hold b#1
        hold c#1
        after 31
        later 5
        extend a#1
        ack b#1
        nack c#1
        -> stale c settling
        let_go a#1
        after 29
        show
        -> leased=2 why=held_by_transactions since=30
        let_go c#1
        after 1
        show
        -> ready=2 why=no_consumer since=0",
    );
}

#[test]
fn leases_that_are_held_are_asked_for_together_and_once_a_look() {
    check(
        "with busy_due=2
        create jobs
        beside allow
        take_in
        send a b c d e
        -> sent
        lease max=5
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30, \
           d#1 deliveries=1 until=30, e#1 deliveries=1 until=30
        hold a#1
        hold b#1
        hold c#1
        hold d#1
        hold e#1
        busy
        after 30
        asked
        -> [5]
        after 1
        asked
        -> [5]
        let_go c#1
        after 1
        asked
        -> [5]
        show
        -> ready=1 leased=4 why=delivering",
    );
}

#[test]
fn a_lease_that_is_held_and_then_completed_was_delivered_once() {
    check(
        "create jobs
        beside allow
        take_in
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        hold a#1
        after 100
        beside complete a#1
        take_in
        show
        -> why=empty",
    );
}

#[test]
fn a_lease_ends_as_ever_once_its_key_is_the_owners() {
    check(
        "create jobs
        beside allow
        take_in
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        nack b#1
        show
        -> ready=1 leased=1 why=delivering
        after 30
        show
        -> ready=2 why=delivering",
    );
}

#[test]
fn an_ack_by_the_holder_needs_no_claim() {
    check(
        "create jobs
        beside allow
        take_in
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        hold a#1
        ack a#1
        show
        -> why=empty",
    );
}

#[test]
fn without_the_flag_nothing_is_claimed() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        hold a#1
        after 30
        show
        -> ready=1 why=delivering",
    );
}

#[test]
fn the_flag_outlives_a_change_of_policies_and_a_reopening() {
    check(
        "create jobs
        beside allow
        take_in
        update jobs timeout=40
        -> generation=2 revision=3
        reopen
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=41
        hold a#1
        after 40
        show
        -> leased=1 why=all_leased until=42",
    );
}

#[test]
fn a_cancellation_ends_what_nobody_settles() {
    check(
        "create jobs finished=100
        beside allow
        take_in
        send a b c d
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        ack b#1
        lease
        -> c#1 deliveries=1 until=30
        hold a#1
        beside cancel a
        beside cancel b
        beside cancel c
        beside cancel d
        take_in
        get a
        -> a leased counts=1/0/0 due=30 expires=345600
        get b
        -> b completed counts=1/0/0 due=0 expires=100
        get c
        -> c cancelled counts=1/0/0 due=0 expires=100 dead_of=jobs reason=cancelled
        get d
        -> d cancelled counts=0/0/0 due=0 expires=100 dead_of=jobs reason=cancelled
        ack c#1
        -> stale c",
    );
}

#[test]
fn an_extension_from_beside_counts_before_its_lease_ends() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        later 20
        beside extend a#1 by=60
        leases_wait
        after 5
        take_in
        leases_end
        after 10
        held a#1
        -> held until=85
        later 60
        leases_wait
        after 1
        show
        -> leased=1 why=all_leased until=85
        leases_end
        after 0
        show
        -> ready=1 why=no_consumer since=0",
    );
}

/// Twelve hours in all from the grant; nobody is there to be told of a limit.
#[test]
fn an_extension_from_beside_lasts_as_long_as_a_lease_may() {
    check(
        "create jobs
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        later 20
        beside extend a#1 by=43200
        take_in
        held a#1
        -> held until=43200",
    );
}

#[test]
fn a_settlement_in_a_restored_copy_counts() {
    check(
        "create jobs
        beside allow
        take_in
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        beside complete a#1
        leases_wait
        restore wait
        take_in
        leases_end
        after 0
        show
        -> ready=1 why=delivering",
    );
}

#[test]
fn a_group_is_settled_from_beside_by_its_own_flag() {
    check(
        "create topics/t
        create topics/t/groups/g
        create topics/t/groups/h
        beside allow queue=topics/t/groups/g
        take_in
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        lease queue=topics/t/groups/h
        -> a#2 deliveries=1 until=60
        hold a#1
        hold a#2
        after 60
        show queue=topics/t/groups/g
        -> leased=1 why=all_leased until=61
        show queue=topics/t/groups/h
        -> ready=1 why=no_consumer since=0
        beside complete a#1
        take_in
        show queue=topics/t/groups/g
        -> why=empty",
    );
}
