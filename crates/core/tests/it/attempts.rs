//! Attempt limits and backoff under the policies of the five systems (design.md, rule 4).

use crate::check::check;

#[test]
fn vercel_counts_deliveries_and_drops_at_the_limit() {
    check(
        "create jobs policy=vercel
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        lease
        -> a#2 deliveries=2 until=30
        after 30
        lease
        -> a#3 deliveries=3 until=60
        nack a#3
        show
        -> why=empty",
    );
}

#[test]
fn vercel_hands_out_fresh_messages_before_retried_ones() {
    check(
        "create jobs policy=vercel
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        send b
        -> sent
        lease max=2
        -> b#1 deliveries=1 until=30, a#2 deliveries=2 until=30",
    );
}

#[test]
fn runlot_doubles_its_backoff_and_moves_after_three_retries() {
    check(
        "create failed
        create jobs policy=runlot
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        show
        -> delayed=1 why=all_delayed until=10
        after 10
        lease
        -> a#2 deliveries=2 until=40
        nack a#2
        show
        -> delayed=1 why=all_delayed until=30
        after 20
        lease
        -> a#3 deliveries=3 until=60
        nack a#3
        show
        -> delayed=1 why=all_delayed until=70
        after 40
        lease
        -> a#4 deliveries=4 until=100
        nack a#4
        show
        -> why=empty
        show queue=failed
        -> ready=1 why=no_consumer since=unknown
        lease queue=failed
        -> a#5 deliveries=1 until=100 dead_of=jobs reason=attemptsspent",
    );
}

#[test]
fn runlot_does_not_count_lost_leases_but_ten_in_a_row_end_a_message() {
    check(
        "create failed
        create jobs policy=runlot timeout=1
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=1
        after 1
        lease
        -> a#2 deliveries=2 until=2
        after 1
        lease
        -> a#3 deliveries=3 until=3
        after 1
        lease
        -> a#4 deliveries=4 until=4
        after 1
        lease
        -> a#5 deliveries=5 until=5
        after 1
        lease
        -> a#6 deliveries=6 until=6
        after 1
        lease
        -> a#7 deliveries=7 until=7
        after 1
        lease
        -> a#8 deliveries=8 until=8
        after 1
        lease
        -> a#9 deliveries=9 until=9
        after 1
        lease
        -> a#10 deliveries=10 until=10
        after 1
        lease
        -> nothing
        lease queue=failed
        -> a#11 deliveries=1 until=40 dead_of=jobs reason=leaseslost",
    );
}

#[test]
fn runlot_forgets_lost_leases_after_an_answer() {
    check(
        "create failed
        create jobs policy=runlot timeout=1
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=1
        after 1
        lease
        -> a#2 deliveries=2 until=2
        nack a#2 delay=0
        lease
        -> a#3 deliveries=3 until=2
        after 1
        show
        -> ready=1 why=delivering",
    );
}

#[test]
fn sylphx_counts_lost_leases_and_keeps_the_dead_in_its_own_set() {
    check(
        "create jobs policy=sylphx deliveries_max=2 timeout=10
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=10
        nack a#1 delay=5
        show
        -> delayed=1 why=all_delayed until=5
        after 5
        lease
        -> a#2 deliveries=2 until=15
        after 10
        show
        -> dead=1 why=all_dead
        lease
        -> nothing",
    );
}

#[test]
fn pg_boss_keeps_the_place_of_a_retried_job_and_waits_its_fixed_delay() {
    check(
        "create jobs policy=pg-boss
        send a
        -> sent
        after 1
        send b
        -> sent
        lease
        -> a#1 deliveries=1 until=31
        nack a#1
        show
        -> ready=1 delayed=1 why=delivering
        after 5
        lease
        -> a#2 deliveries=2 until=36
        after 30
        after 5
        show
        -> ready=2 why=delivering
        lease
        -> a#3 deliveries=3 until=71
        nack a#3
        show
        -> ready=1 dead=1 why=delivering",
    );
}

#[test]
fn notusbase_jitters_its_backoff_around_the_doubling_and_fails_after_five() {
    check(
        "create jobs policy=notusbase
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        show
        -> delayed=1 why=all_delayed until=0.862
        after 2
        lease
        -> a#2 deliveries=2 until=32
        nack a#2
        show
        -> delayed=1 why=all_delayed until=4.650
        after 3
        lease
        -> a#3 deliveries=3 until=35
        nack a#3
        after 6
        lease
        -> a#4 deliveries=4 until=41
        nack a#4
        after 12
        lease
        -> a#5 deliveries=5 until=53
        nack a#5
        show
        -> dead=1 why=all_dead",
    );
}

#[test]
fn the_delay_of_a_nack_wins_over_the_backoff() {
    check(
        "create jobs policy=pg-boss
        send a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1 delay=60
        show
        -> delayed=1 why=all_delayed until=60",
    );
}
