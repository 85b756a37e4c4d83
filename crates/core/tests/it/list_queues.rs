//! Lists of queues, a page at a time.

use crate::check::check;

#[test]
fn queues_come_in_the_order_of_their_names_with_their_counts() {
    check(
        "create mail
        create jobs
        create zoo
        send a b
        -> sent
        list
        -> jobs ready=2 why=no_consumer since=unknown, mail why=empty, zoo why=empty
        list descending
        -> zoo why=empty, mail why=empty, jobs ready=2 why=no_consumer since=unknown",
    );
}

#[test]
fn pages_join_whether_or_not_the_name_in_between_is_still_there() {
    check(
        "create a
        create b
        create c
        create d
        list limit=2
        -> a why=empty, b why=empty, and more
        delete b
        -> deleted
        list limit=2 after=b
        -> c why=empty, d why=empty
        list limit=1 after=d descending
        -> c why=empty, and more
        list limit=1 after=c descending
        -> a why=empty
        list after=d
        -> none",
    );
}

#[test]
fn a_deleted_queue_is_not_listed_while_its_rows_leave() {
    check(
        "with due=1
        create jobs
        send a b c
        -> sent
        delete jobs
        -> deleted
        list
        -> none",
    );
}

#[test]
fn a_page_has_one_queue_at_least_and_a_thousand_at_most() {
    check(
        "list limit=0
        -> refused: out_of_range page_size
        list limit=1001
        -> refused: out_of_range page_size
        list limit=1000
        -> none",
    );
}
