//! What triggers change for their groups: who is read, limits, retries, dead letters, reserved leases, ends of calls, and why.

use crate::check::check;

#[test]
fn a_failed_push_comes_back_after_the_triggers_time_and_leaves_at_its_limit() {
    check(
        "create topics/t
        trigger x topic=t group=g retry=5 deliveries_max=2
        -> x t>g
        -> pushers look again
        create topics/t/groups/g
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g timeout=300 pushes
        -> a#1 deliveries=1 until=300
        nack a#1
        show queue=topics/t/groups/g
        -> delayed=1 why=all_delayed until=5
        after 5
        lease queue=topics/t/groups/g timeout=300 pushes
        -> a#2 deliveries=2 until=305
        nack a#2
        show queue=topics/t/groups/g
        -> why=empty
        show queue=topics/t
        -> ready=1 why=delivering",
    );
}

#[test]
fn a_trigger_made_later_rules_what_its_group_has_and_without_it_the_group_rules_itself() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=2
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60
        trigger x topic=t group=g retry=7
        -> x t>g
        -> pushers look again
        nack a#1
        reopen
        -> pushers look again
        nack b#1
        show queue=topics/t/groups/g
        -> delayed=2 why=all_delayed until=7
        after 7
        lease queue=topics/t/groups/g max=2
        -> a#2 deliveries=2 until=68, b#2 deliveries=2 until=68
        untrigger x
        -> x t>g
        -> pushers look again
        nack a#2 b#2
        show queue=topics/t/groups/g
        -> ready=2 why=delivering",
    );
}

#[test]
fn two_deployments_have_their_own_policies_and_the_current_one_the_messages_of_none() {
    check(
        "create topics/t
        create topics/t/partitions/d
        create topics/t/partitions/e
        create topics/t/groups/g
        deploy d d-1:t:g retry=5 deliveries_max=1
        -> d-1 t>g of d current
        -> pushers look again
        deploy e e-1:t:g retry=9
        -> e-1 t>g of e current
        -> pushers look again
        send a queue=topics/t/partitions/d
        -> sent
        send b queue=topics/t/partitions/e
        -> sent
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g partition=d pushes max=10
        -> a#1 deliveries=1 until=60
        lease queue=topics/t/groups/g partition=e unpinned pushes max=10
        -> b#1 deliveries=1 until=60, c#1 deliveries=1 until=60
        nack a#1 b#1 c#1
        show queue=topics/t/groups/g
        -> delayed=2 why=all_delayed until=9
        after 9
        lease queue=topics/t/groups/g partition=e unpinned pushes max=10
        -> b#2 deliveries=2 until=69, c#2 deliveries=2 until=69
        deploy d d-1:t:g retry=5
        -> d-1 t>g of d current
        -> pushers look again
        nack c#2
        after 5
        lease queue=topics/t/groups/g partition=e pushes max=10
        -> nothing
        lease queue=topics/t/groups/g partition=d unpinned pushes max=10
        -> c#3 deliveries=3 until=74",
    );
}

#[test]
fn a_deployment_may_take_and_settle_messages_of_none_that_were_pushed_to_it() {
    check(
        "create topics/t
        create topics/t/partitions/d
        create topics/t/groups/g
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g
        -> a#1 deliveries=1 until=60
        ack a#1 partition=d
        -> stale a unknown
        take b queue=topics/t/groups/g partition=d
        -> refused: message_not_found
        deploy d d-1:t:g
        -> d-1 t>g of d current
        -> pushers look again
        ack a#1 partition=d
        take b queue=topics/t/groups/g partition=d
        -> b#1 deliveries=1 until=60
        ack b#1 partition=e
        -> stale b unknown
        ack b#1 partition=d
        lease queue=topics/t/groups/g partition=d
        -> nothing",
    );
}

#[test]
fn the_smallest_limit_counts_for_pushes_and_polls_across_a_restart() {
    check(
        "create topics/t
        create topics/t/groups/g concurrency=5
        trigger x topic=t group=g concurrency=2
        -> x t>g
        -> pushers look again
        send a b c d queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=10 pushes
        -> a#1 deliveries=1 until=60, b#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10
        -> nothing
        show queue=topics/t/groups/g
        -> ready=2 leased=2 why=concurrency_full limit=2 until=60
        reopen
        -> pushers look again
        lease queue=topics/t/groups/g max=10 pushes
        -> nothing
        take c queue=topics/t/groups/g
        -> refused: concurrency_reached
        lease queue=topics/t/groups/g max=10 wait=20 pushes as=it
        -> waits
        ack a#1
        -> it: c#1 deliveries=1 until=61
        untrigger x
        -> x t>g
        -> pushers look again
        lease queue=topics/t/groups/g max=10 wait=20 as=it
        -> d#1 deliveries=1 until=61",
    );
}

#[test]
fn a_reserved_lease_goes_to_whoever_takes_the_message_by_its_id_once() {
    check(
        "create topics/t
        trigger x topic=t group=g concurrency=1
        -> x t>g
        -> pushers look again
        create topics/t/groups/g
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g timeout=300 pushes
        -> a#1 deliveries=1 until=300
        reserve a#1
        lease queue=topics/t/groups/g
        -> nothing
        take a queue=topics/t/groups/g timeout=60 look
        -> a#2 deliveries=1 until=0
        take a queue=topics/t/groups/g timeout=60
        -> a#1 as before deliveries=1 until=60
        held a#1
        -> held until=60
        take a queue=topics/t/groups/g timeout=60
        -> refused: message_leased
        ack a#1
        lease queue=topics/t/groups/g timeout=300 pushes
        -> b#1 deliveries=1 until=300
        reserve b#1
        reopen
        -> pushers look again
        take b queue=topics/t/groups/g timeout=60
        -> b#1 as before deliveries=1 until=61
        nack b#1
        take b queue=topics/t/groups/g timeout=60
        -> refused: message_delayed
        reserve b#2 queue=jobs
        -> refused: queue_not_found",
    );
}

#[test]
fn a_look_at_a_reserved_lease_is_of_now_and_shows_it_as_it_would_be_given() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g timeout=10
        -> a#1 deliveries=1 until=10
        reserve a#1
        after 5
        take a queue=topics/t/groups/g look
        -> a#2 deliveries=1 until=5
        after 5
        take a queue=topics/t/groups/g look
        -> a#2 as before deliveries=2 until=10",
    );
}

#[test]
fn a_reservation_goes_back_if_who_took_it_never_heard_of_it_but_not_once_its_holder_extended_it() {
    check(
        "create topics/t
        create topics/t/groups/g
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g timeout=300
        -> a#1 deliveries=1 until=300
        reserve a#1
        take a queue=topics/t/groups/g timeout=10
        -> a#1 as before deliveries=1 until=10
        extend a#1 by=60
        undo a#1
        -> undone 0
        held a#1
        -> held until=60
        lease queue=topics/t/groups/g
        -> nothing
        reserve a#1
        take a queue=topics/t/groups/g timeout=10
        -> a#1 as before deliveries=1 until=10
        undo a#1
        -> undone 1
        lease queue=topics/t/groups/g
        -> a#2 deliveries=1 until=60",
    );
}

#[test]
fn a_reservation_that_nobody_takes_runs_out_or_ends_with_the_call() {
    check(
        "create topics/t
        trigger x topic=t group=g retry=5
        -> x t>g
        -> pushers look again
        create topics/t/groups/g
        send a queue=topics/t
        -> sent
        lease queue=topics/t/groups/g timeout=300 pushes
        -> a#1 deliveries=1 until=300
        reserve a#1
        after 300
        lease queue=topics/t/groups/g timeout=300 pushes
        -> a#2 deliveries=2 until=600
        reserve a#2
        end_call a#2
        show queue=topics/t/groups/g
        -> delayed=1 why=all_delayed until=305
        after 5
        take a queue=topics/t/groups/g
        -> a#3 deliveries=3 until=365",
    );
}

#[test]
fn a_call_that_ends_well_leaves_the_lease_unless_its_holder_asked_for_another_end() {
    check(
        "create topics/t
        trigger x topic=t group=g concurrency=1 deliveries_max=2
        -> x t>g
        -> pushers look again
        create topics/t/groups/g
        send a b queue=topics/t
        -> sent
        lease queue=topics/t/groups/g timeout=300 pushes
        -> a#1 deliveries=1 until=300
        end_call a#1
        held a#1
        -> held until=300
        extend a#1 by=20
        held a#1
        -> held until=20
        lease queue=topics/t/groups/g timeout=300 pushes
        -> nothing
        end_call a#1
        held a#1
        -> not held
        show queue=topics/t/groups/g
        -> ready=1 delayed=1 why=delivering
        lease queue=topics/t/groups/g timeout=300 pushes
        -> b#1 deliveries=1 until=300
        ack b#1
        end_call b#1
        -> stale b acked
        after 20
        lease queue=topics/t/groups/g timeout=300 pushes
        -> a#2 deliveries=2 until=320
        extend a#2 by=20
        end_call a#2
        show queue=topics/t/groups/g
        -> why=empty",
    );
}

#[test]
fn a_message_out_of_deliveries_goes_to_the_dead_letter_queue_as_one_of_its_own() {
    check(
        "create failed
        create topics/t
        trigger x topic=t group=g deliveries_max=1 dead=failed
        -> x t>g
        -> pushers look again
        create topics/t/groups/g
        create topics/t/groups/h
        send a b queue=topics/t bytes=70000
        -> sent
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=3 timeout=10 pushes
        -> a#1 deliveries=1 until=10, b#1 deliveries=1 until=10, c#1 deliveries=1 until=10
        nack a#1
        after 10
        show queue=topics/t/groups/g
        -> why=empty
        show queue=topics/t
        -> ready=3 why=delivering
        show queue=failed bytes
        -> waiting=140007 in_all=140007
        reopen
        -> pushers look again
        lease queue=failed max=3
        -> waits
        -> it: copy1#1 deliveries=1 until=41 dead_of=topics/t/groups/g reason=attemptsspent, copy2#1 deliveries=1 until=41 dead_of=topics/t/groups/g reason=attemptsspent, copy3#1 deliveries=1 until=41 dead_of=topics/t/groups/g reason=attemptsspent
        lease queue=topics/t/groups/h max=3
        -> waits
        -> it: a#2 deliveries=1 until=71, b#2 deliveries=1 until=71, c#2 deliveries=1 until=71
        ack copy1#1 copy2#1 copy3#1
        show queue=failed
        -> why=empty
        delete failed force
        -> deleted
        send d queue=topics/t
        -> sent
        lease queue=topics/t/groups/g pushes
        -> d#1 deliveries=1 until=71
        nack d#1
        show queue=topics/t/groups/g
        -> why=empty",
    );
}

#[test]
fn why_tells_what_keeps_a_trigger_from_pushing() {
    check(
        "create topics/t
        create topics/t/partitions/d
        create topics/t/groups/g
        send a queue=topics/t/partitions/d
        -> sent
        show queue=topics/t/groups/g
        -> ready=1 why=no_deployment d
        deploy d d-1:t:g delay=10
        -> d-1 t>g of d current
        -> pushers look again
        show queue=topics/t/groups/g
        -> ready=1 why=trigger_starts trigger=d-1 at=10
        after 10
        show queue=topics/t/groups/g
        -> ready=1 why=delivering
        trouble d-1 since=10 next=12
        show queue=topics/t/groups/g
        -> ready=1 why=target_down trigger=d-1 since=10 until=12
        triggers
        -> d-1 t>g of d current refused
        trouble d-1
        show queue=topics/t/groups/g
        -> ready=1 why=delivering
        undeploy d
        -> d-1 t>g of d current
        -> pushers look again
        show queue=topics/t/groups/g
        -> ready=1 why=no_deployment d
        deploy e e-1:t:g
        -> e-1 t>g of e current
        -> pushers look again
        show queue=topics/t/groups/g
        -> ready=1 why=no_deployment d
        lease queue=topics/t/groups/g look
        -> a#1 deliveries=1 until=10
        show queue=topics/t/groups/g
        -> ready=1 why=delivering",
    );
}

#[test]
fn what_is_said_of_a_trigger_that_had_the_id_before_is_passed_over() {
    check(
        "trigger x topic=t group=g
        -> x t>g
        -> pushers look again
        trouble x since=1
        triggers
        -> x t>g refused
        untrigger x
        -> x t>g refused
        -> pushers look again
        trigger x topic=t group=g
        -> x t>g
        -> pushers look again
        trouble x since=1
        triggers
        -> x t>g refused",
    );
}

#[test]
fn a_trigger_of_no_deployment_leaves_to_deployments_what_is_theirs() {
    check(
        "create topics/t
        create topics/t/partitions/d
        create topics/t/partitions/e
        create topics/t/groups/g
        trigger x topic=t group=g
        -> x t>g
        -> pushers look again
        deploy d d-1:t:g
        -> d-1 t>g of d current
        -> pushers look again
        send a queue=topics/t/partitions/d
        -> sent
        send b queue=topics/t/partitions/e
        -> sent
        send c queue=topics/t
        -> sent
        lease queue=topics/t/groups/g max=10 pushes
        -> b#1 deliveries=1 until=60
        lease queue=topics/t/groups/g max=10 pushes partition=d unpinned
        -> a#1 deliveries=1 until=60, c#1 deliveries=1 until=60
        undeploy d
        -> d-1 t>g of d current
        -> pushers look again
        nack a#1 c#1
        lease queue=topics/t/groups/g max=10 pushes
        -> nothing
        after 60
        lease queue=topics/t/groups/g max=10 pushes
        -> b#2 deliveries=2 until=120, a#2 deliveries=2 until=120, c#2 deliveries=2 until=120",
    );
}

#[test]
fn messages_of_none_wait_where_the_current_deployment_has_no_trigger_and_why_says_so() {
    check(
        "create topics/t
        create topics/t/groups/g
        deploy d d-1:t:g
        -> d-1 t>g of d current
        -> pushers look again
        deploy e e-1:t:other
        -> e-1 t>other of e current
        -> pushers look again
        send a queue=topics/t
        -> sent
        show queue=topics/t/groups/g
        -> ready=1 why=no_deployment e
        lease queue=topics/t/groups/g pushes partition=d
        -> nothing
        undeploy e
        -> e-1 t>other of e current
        -> pushers look again
        trouble d-1 since=0
        show queue=topics/t/groups/g
        -> ready=1 why=target_down trigger=d-1 since=0 until=0
        lease queue=topics/t/groups/g look
        -> a#1 deliveries=1 until=0
        show queue=topics/t/groups/g
        -> ready=1 why=target_down trigger=d-1 since=0 until=0",
    );
}

#[test]
fn a_group_that_was_only_pushed_to_is_kept_as_long_as_any_after_its_trigger_is_gone() {
    check(
        "create topics/t retention=1h
        create topics/t/groups/g
        trigger x topic=t group=g
        -> x t>g
        -> pushers look again
        after 200h
        lease queue=topics/t/groups/g pushes
        -> nothing
        untrigger x
        -> x t>g
        -> pushers look again
        after 100h
        list groups
        -> topics/t/groups/g why=empty
        after 100h
        list groups
        -> none",
    );
}

#[test]
fn a_group_that_a_trigger_feeds_stays_although_nobody_polls_it() {
    check(
        "create topics/t retention=1h
        create topics/t/groups/g
        create topics/t/groups/h
        trigger x topic=t group=g
        -> x t>g
        -> pushers look again
        after 200h
        list groups
        -> topics/t/groups/g why=empty",
    );
}
