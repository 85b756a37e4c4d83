//! Triggers: who is made, replaced, removed, refused; deployments; secrets.

use crate::check::check;

#[test]
fn triggers_are_made_listed_and_removed_and_survive_a_restart() {
    check(
        "triggers
        -> none
        trigger x topic=t group=g
        -> x t>g
        -> pushers look again
        trigger y topic=user-* group=g
        -> y user-*>g
        -> pushers look again
        trigger x topic=other group=h
        -> refused: trigger_already_exists
        triggers
        -> x t>g, y user-*>g
        create topics/t
        -> pushers see t
        create topics/user-1
        -> pushers see user-1
        create topics/elsewhere
        reopen
        -> pushers look again
        triggers
        -> x t>g, y user-*>g
        untrigger x
        -> x t>g
        -> pushers look again
        untrigger x
        -> refused: trigger_not_found
        triggers
        -> y user-*>g",
    );
}

#[test]
fn what_a_trigger_says_has_to_lie_in_its_range() {
    check(
        "trigger x! topic=t group=g
        -> refused: out_of_range trigger_id
        trigger x topic=* group=g retry=0
        -> refused: out_of_range retry_after
        trigger x topic=t* group=g retry=24.1h
        -> refused: out_of_range retry_after
        trigger x topic=t*u group=g
        -> refused: out_of_range topic
        trigger x topic=** group=g
        -> refused: out_of_range topic
        trigger x topic=t group=g/h
        -> refused: out_of_range group
        trigger x topic=t group=g delay=25h
        -> refused: out_of_range initial_delay
        trigger x topic=t group=g deliveries_max=0
        -> refused: out_of_range max_deliveries
        trigger x topic=t group=g concurrency=0
        -> refused: out_of_range max_concurrency
        trigger x topic=t group=g lease=0.5
        -> refused: out_of_range visibility_timeout
        trigger x topic=t group=g lease=13h
        -> refused: out_of_range visibility_timeout
        trigger x topic=t group=g dead=nowhere
        -> refused: dead_letter_queue missing
        trigger x topic=* group=g retry=24h delay=24h deliveries_max=1 concurrency=1 lease=12h
        -> x *>g
        -> pushers look again
        deploy d! x:t:g
        -> refused: out_of_range deployment
        deploy d
        -> refused: out_of_range triggers
        triggers
        -> x *>g",
    );
}

#[test]
fn of_one_group_and_deployment_no_two_triggers_are_for_the_same_topic() {
    check(
        "trigger x topic=user-* group=g
        -> x user-*>g
        -> pushers look again
        trigger y topic=user-1 group=g
        -> refused: trigger_overlaps
        trigger y topic=u* group=g
        -> refused: trigger_overlaps
        trigger y topic=* group=g
        -> refused: trigger_overlaps
        trigger y topic=user group=g
        -> y user>g
        -> pushers look again
        trigger z topic=user-1 group=h
        -> z user-1>h
        -> pushers look again
        deploy d a:user-1:g b:user-*:h
        -> a user-1>g of d current, b user-*>h of d current
        -> pushers look again
        deploy e a2:user-1:g b2:user-*:g
        -> refused: trigger_overlaps
        deploy e x:user-1:g
        -> refused: trigger_already_exists
        triggers
        -> a user-1>g of d current, b user-*>h of d current, x user-*>g, y user>g, z user-1>h",
    );
}

#[test]
fn a_deployment_is_replaced_as_a_whole_and_the_last_one_is_current() {
    check(
        "deploy d d-1:t:g d-2:t:h
        -> d-1 t>g of d current, d-2 t>h of d current
        -> pushers look again
        after 1
        deploy e e-1:t:g
        -> e-1 t>g of e current
        -> pushers look again
        triggers
        -> d-1 t>g of d, d-2 t>h of d, e-1 t>g of e current
        deploy d d-1:u:g
        -> d-1 u>g of d current
        -> pushers look again
        triggers
        -> d-1 u>g of d current, e-1 t>g of e
        undeploy d
        -> d-1 u>g of d current
        -> pushers look again
        triggers
        -> e-1 t>g of e current
        undeploy d
        -> refused: trigger_not_found
        deploy e e-1:t:g e-2:t:h only=check
        -> e-1 t>g of e current, e-2 t>h of e current
        triggers
        -> e-1 t>g of e current",
    );
}

#[test]
fn a_dead_letter_queue_of_a_trigger_is_in_use() {
    check(
        "create failed
        trigger x topic=t group=g dead=failed
        -> x t>g
        -> pushers look again
        delete failed
        -> refused: queue_in_use
        untrigger x
        -> x t>g
        -> pushers look again
        delete failed
        -> deleted",
    );
}

#[test]
fn a_secret_is_made_once_and_the_one_before_signs_for_a_while() {
    check(
        "secret one only
        -> one since=0
        -> pushers look again
        secret two only
        -> one since=0
        after 10
        secret three grace=1h
        -> three since=10, one until=3610
        -> pushers look again
        reopen
        secret four only
        -> three since=10, one until=3610
        secret five
        -> five since=11
        -> pushers look again
        secret six grace=721h
        -> refused: out_of_range grace",
    );
}
