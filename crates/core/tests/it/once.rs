//! Calls that are remembered: the same key again gets the first answer.

use crate::check::check;

#[test]
fn each_call_is_done_once_and_answered_as_at_first() {
    check(
        "create jobs once=c
        create jobs once=c
        -> repeated:
        send a b
        -> sent
        purge once=p
        -> purged 2
        send c
        -> sent
        purge once=p
        -> repeated: purged 2
        update jobs timeout=60 once=u
        -> generation=2 revision=3
        update jobs timeout=90
        -> generation=3 revision=4
        update jobs timeout=60 once=u
        -> repeated: generation=2 revision=3
        pause once=s
        resume once=r
        pause once=s
        -> repeated:
        show
        -> ready=1 why=no_consumer since=unknown
        delete jobs once=d
        -> deleted
        delete jobs once=d
        -> repeated: deleted
        create jobs once=c
        -> repeated:
        show
        -> refused: queue_not_found",
    );
}

#[test]
fn a_queue_is_shown_as_it_was() {
    check(
        "create jobs
        send a
        -> sent
        update jobs timeout=60 once=u
        -> generation=2 revision=2
        purge
        -> purged 1
        delete jobs
        -> deleted
        update jobs timeout=60 once=u
        -> repeated: generation=2 revision=2",
    );
}

#[test]
fn a_repeated_settle_neither_settles_nor_sends() {
    check(
        "create jobs
        send a b
        -> sent
        lease max=2
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30
        settle ack=a#1 send=jobs:c once=k
        -> sent
        reopen
        settle ack=a#1 send=jobs:d once=k
        -> repeated: sent
        settle ack=a#1 ack=b#1 once=l
        -> stale a
        settle ack=a#1 ack=b#1 once=l
        -> repeated: stale a
        show
        -> ready=1 why=delivering",
    );
}

#[test]
fn another_call_under_a_key_is_refused_whatever_it_is() {
    check(
        "create jobs
        pause once=k
        pause once=k digest=1
        -> refused: idempotency_key_reused
        purge once=k digest=2
        -> refused: idempotency_key_reused
        delete jobs once=k digest=3
        -> refused: idempotency_key_reused",
    );
}

#[test]
fn keys_of_calls_and_of_sends_are_apart() {
    check(
        "create jobs
        send a key=k
        -> sent
        pause once=k digest=1
        send b key=k
        -> repeated a",
    );
}

#[test]
fn a_refused_call_is_not_remembered() {
    check(
        "pause once=k
        -> refused: queue_not_found
        create jobs
        pause once=k
        pause once=k
        -> repeated:",
    );
}

#[test]
fn what_is_only_validated_is_not_remembered() {
    check(
        "create jobs once=k validate_only
        create jobs once=k digest=1
        update jobs timeout=60 once=u validate_only
        -> generation=2 revision=2
        update jobs timeout=60 once=u
        -> generation=2 revision=2",
    );
}

#[test]
fn a_call_is_remembered_for_a_day_and_over_a_restart() {
    check(
        "create jobs
        purge once=k
        -> purged 0
        send a
        -> sent
        reopen
        after 23h
        purge once=k
        -> repeated: purged 0
        after 3598
        purge once=k
        -> repeated: purged 0
        after 1
        purge once=k
        -> purged 1",
    );
}

#[test]
fn calls_and_sends_share_one_limit_on_keys() {
    check(
        "with keys=2
        create jobs
        send a key=s
        -> sent
        pause once=k
        resume once=l
        -> refused: dedup_limit
        show
        -> ready=1 why=paused since=0
        send b key=t
        -> refused: dedup_limit
        pause once=k
        -> repeated:
        after 24h
        resume once=l",
    );
}

#[test]
fn a_key_has_to_be_one_and_a_lease_call_takes_none() {
    check(
        "create jobs
        pause once=
        -> refused: out_of_range idempotency-key
        lease wait=5 once=k
        -> refused: out_of_range idempotency-key",
    );
}

/// No commit lets go of them.
#[test]
fn keys_that_were_only_looked_up_do_not_pile_up() {
    check(
        "create jobs
        look_up 5000
        memory
        -> calls=4096 walks=0",
    );
}
