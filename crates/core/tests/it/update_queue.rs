//! Changing a queue: who may, what rises, and what it means for what is under way.

use crate::check::check;

#[test]
fn the_generation_rises_with_the_spec_and_the_revision_with_anything() {
    check(
        "create jobs
        update jobs timeout=60
        -> generation=2 revision=2
        update jobs timeout=60
        -> generation=2 revision=2
        update jobs timeout=60 annotations={\"a\":1}
        -> generation=2 revision=3
        reopen
        update jobs timeout=60 annotations={\"a\":1}
        -> generation=2 revision=3",
    );
}

#[test]
fn an_etag_that_is_not_the_present_one_changes_nothing() {
    check(
        "create jobs
        update jobs timeout=60 etag=1
        -> generation=2 revision=2
        update jobs timeout=90 etag=1
        -> refused: etag_mismatch
        pause
        update jobs timeout=90 etag=2
        -> refused: etag_mismatch
        update jobs timeout=60 etag=3
        -> generation=2 revision=3",
    );
}

#[test]
fn a_missing_queue_is_made_where_that_is_allowed() {
    check(
        "with queues=1
        update jobs
        -> refused: queue_not_found
        update jobs allow_missing etag=1
        -> refused: queue_not_found
        update jobs allow_missing timeout=60
        -> generation=1 revision=1
        update jobs allow_missing timeout=60
        -> generation=1 revision=1
        update other allow_missing
        -> refused: queue_limit
        delete jobs
        -> deleted
        update jobs timeout=60
        -> refused: queue_not_found",
    );
}

#[test]
fn what_is_only_validated_is_shown_and_not_stored() {
    check(
        "create jobs
        update jobs timeout=60 validate_only
        -> generation=2 revision=2
        update jobs timeout=60 etag=1
        -> generation=2 revision=2
        update other allow_missing validate_only
        -> generation=1 revision=1
        show queue=other
        -> refused: queue_not_found",
    );
}

#[test]
fn a_changed_queue_is_checked_like_a_new_one() {
    check(
        "create jobs
        create dead at_limit=move:jobs
        update jobs timeout=0.5
        -> refused: out_of_range visibility_timeout
        update jobs at_limit=move:jobs
        -> refused: dead_letter_queue itself
        update jobs at_limit=move:dead
        -> refused: dead_letter_queue circle
        update jobs at_limit=move:gone
        -> refused: dead_letter_queue missing
        update JOBS allow_missing
        -> refused: out_of_range queue_id",
    );
}

#[test]
fn a_dead_letter_queue_that_is_gone_by_now_keeps_nothing_else_from_being_changed() {
    check(
        "create dead
        create jobs at_limit=move:dead
        delete dead force
        -> deleted
        update jobs at_limit=move:dead timeout=60
        -> generation=2 revision=2",
    );
}

#[test]
fn a_timeout_counts_for_later_leases_also_of_calls_that_wait() {
    check(
        "create jobs timeout=10
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=10
        lease wait=20 as=late
        -> waits
        update jobs timeout=60
        -> generation=2 revision=2
        send b
        -> sent
        -> late: b#1 deliveries=1 until=60
        after 10
        lease
        -> a#2 deliveries=2 until=70",
    );
}

#[test]
fn a_higher_limit_serves_calls_that_wait() {
    check(
        "create jobs concurrency=1
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        lease wait=20 as=second
        -> waits
        update jobs concurrency=2
        -> generation=2 revision=2
        -> second: b#1 deliveries=1 until=30",
    );
}

#[test]
fn a_lower_limit_ends_no_lease_and_allows_none_until_enough_have_ended() {
    check(
        "create jobs concurrency=3 timeout=100
        send a b c d
        -> sent
        lease max=3
        -> a#1 deliveries=1 until=100, b#1 deliveries=1 until=100, c#1 deliveries=1 until=100
        update jobs concurrency=1 timeout=100
        -> generation=2 revision=2
        reopen
        ack a#1 b#1
        lease
        -> nothing
        show
        -> ready=1 leased=1 why=concurrency_full limit=1 until=100
        ack c#1
        lease
        -> waits
        -> it: d#1 deliveries=1 until=101",
    );
}

#[test]
fn fewer_attempts_count_when_the_present_lease_ends() {
    check(
        "create jobs
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        nack a#1 b#1
        lease
        -> a#2 deliveries=2 until=30
        update jobs deliveries_max=1
        -> generation=2 revision=2
        extend a#2 by=60
        show
        -> ready=1 leased=1 why=delivering
        nack a#2
        show
        -> ready=1 dead=1 why=delivering
        lease
        -> b#2 deliveries=2 until=30
        nack b#2
        show
        -> dead=2 why=all_dead",
    );
}

#[test]
fn another_order_counts_for_messages_as_they_become_ready() {
    check(
        "create jobs
        send a delay=10
        -> sent
        send b delay=5
        -> sent
        after 10
        update jobs order=sent
        -> generation=2 revision=2
        send c
        -> sent
        lease max=3
        -> b#1 deliveries=1 until=40, a#1 deliveries=1 until=40, c#1 deliveries=1 until=40
        nack c#1
        nack b#1
        nack a#1
        lease max=3
        -> a#2 deliveries=2 until=40, b#2 deliveries=2 until=40, c#2 deliveries=2 until=40
        update jobs order=visible
        -> generation=3 revision=3
        nack b#2
        after 1
        nack a#2
        lease max=2
        -> b#3 deliveries=3 until=41, a#3 deliveries=3 until=41",
    );
}

#[test]
fn fresh_ones_go_first_before_those_retried_after_the_change() {
    check(
        "create jobs
        send a b
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        update jobs policy=vercel
        -> generation=2 revision=2
        nack a#1
        lease
        -> b#1 deliveries=1 until=30
        lease
        -> a#2 deliveries=2 until=30",
    );
}

#[test]
fn what_waits_for_another_attempt_takes_its_place_when_it_is_ready() {
    check(
        "create jobs policy=vercel
        create more
        send a
        -> sent
        send queue=more c
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        lease queue=more
        -> c#1 deliveries=1 until=30
        nack a#1 delay=5
        nack c#1 delay=5
        update jobs
        -> generation=2 revision=2
        update more policy=vercel
        -> generation=2 revision=2
        after 10
        send b
        -> sent
        send queue=more d
        -> sent
        lease max=2
        -> a#2 deliveries=2 until=40, b#1 deliveries=1 until=40
        lease queue=more max=2
        -> d#1 deliveries=1 until=40, c#2 deliveries=2 until=40",
    );
}

#[test]
fn what_waits_for_its_time_takes_its_place_in_the_order_of_then() {
    check(
        "create jobs
        send a delay=10
        -> sent
        after 1
        send b
        -> sent
        update jobs order=sent
        -> generation=2 revision=2
        after 9
        lease max=2
        -> a#1 deliveries=1 until=40, b#1 deliveries=1 until=40",
    );
}
