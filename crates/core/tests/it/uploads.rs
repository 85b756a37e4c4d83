//! Uploads: data that comes chunk by chunk (docs/decisions/0012).

use crate::check::check;

#[test]
fn an_upload_becomes_a_message_when_it_is_finished() {
    check(
        "with chunk=4
        create jobs
        begin a told=10
        -> begun
        append a
        append a
        stored
        -> (a:2)
        show
        -> why=empty
        append a bytes=2
        finish a
        -> sent
        stored
        -> a:3
        lease
        -> a#1 deliveries=1 until=30
        ack a#1
        stored
        -> nothing",
    );
}

#[test]
fn what_can_be_refused_is_refused_before_the_first_byte() {
    check(
        "with chunk=4
        begin a told=10
        -> refused: queue_not_found
        create jobs
        begin a told=4
        -> refused: out_of_range data
        begin a told=104857601
        -> refused: out_of_range data
        begin a delay=200h
        -> refused: out_of_range delay
        begin a ttl=0
        -> refused: out_of_range ttl
        space low
        begin a told=10
        -> refused: storage_full",
    );
}

#[test]
fn chunks_come_in_order_and_whole_but_for_the_last() {
    check(
        "with chunk=4
        create jobs
        begin a
        -> begun
        append a number=1
        -> refused: out_of_range number
        append a bytes=5
        -> refused: out_of_range data
        append a bytes=0
        -> refused: out_of_range data
        append a
        append a number=0
        -> refused: out_of_range number
        append a bytes=3
        append a bytes=1
        -> refused: out_of_range data
        stored
        -> (a:2)",
    );
}

#[test]
fn an_upload_is_finished_with_as_many_bytes_as_came() {
    check(
        "with chunk=4
        create jobs
        begin a
        -> begun
        append a
        append a
        finish a bytes=9
        -> refused: upload_lost
        finish a bytes=4
        -> refused: out_of_range data
        finish a
        -> sent
        finish a
        -> refused: upload_lost",
    );
}

#[test]
fn an_upload_that_is_given_up_leaves_nothing() {
    check(
        "with chunk=4
        create jobs
        begin a
        -> begun
        append a
        append a
        stored
        -> (a:2)
        give_up a
        stored
        -> nothing
        append a
        -> refused: upload_lost
        finish a bytes=12
        -> refused: upload_lost
        begin b
        -> begun
        give_up b
        stored
        -> nothing",
    );
}

#[test]
fn an_upload_without_a_chunk_for_a_minute_is_given_up() {
    check(
        "with chunk=4
        create jobs
        begin a
        -> begun
        begin b
        -> begun
        after 59
        append a
        after 1
        append b
        -> refused: upload_lost
        append a
        after 59
        stored
        -> (a:2)
        after 1
        stored
        -> nothing
        finish a
        -> refused: upload_lost",
    );
}

#[test]
fn uploads_found_at_open_are_swept() {
    check(
        "with chunk=4
        create jobs
        begin a
        -> begun
        append a
        append a
        begin b told=8
        -> begun
        append b
        append b
        finish b
        -> sent
        reopen
        stored
        -> b:2
        append a
        -> refused: upload_lost
        finish a
        -> refused: upload_lost",
    );
}

/// The sequence of an upload of which nothing was stored may be drawn again.
#[test]
fn an_upload_is_not_taken_for_another_after_a_failure() {
    check(
        "with chunk=4
        create jobs
        begin a
        -> begun
        reopen
        begin b
        -> begun
        append b
        append a
        -> refused: upload_lost
        give_up a
        stored
        -> (b:1)",
    );
}

#[test]
fn chunks_of_nobody_are_removed_in_bounded_steps_from_the_high_end() {
    check(
        "with chunk=4 remove=2
        create jobs
        begin a told=28
        -> begun
        append a
        append a
        append a
        append a
        append a
        append a
        append a
        reopen
        stored
        -> nothing",
    );
}

#[test]
fn there_are_at_most_so_many_uploads() {
    check(
        "with chunk=4 uploads=2
        create jobs
        begin a
        -> begun
        begin b
        -> begun
        begin c
        -> refused: upload_limit
        give_up a
        begin c
        -> begun",
    );
}

#[test]
fn there_are_at_most_so_many_bytes_of_uploads() {
    check(
        "with chunk=4 upload_bytes=20
        create jobs
        begin a told=12
        -> begun
        begin b told=9
        -> refused: upload_limit
        begin b told=8
        -> begun
        append a
        append a
        append a
        finish a
        -> sent
        begin c told=12
        -> begun",
    );
}

#[test]
fn an_upload_that_did_not_say_how_much_comes_counts_as_it_comes() {
    check(
        "with chunk=4 upload_bytes=12
        create jobs
        begin a
        -> begun
        begin b
        -> begun
        append a
        append a
        append b
        append b
        -> refused: upload_limit
        give_up b
        append a
        append a",
    );
}

#[test]
fn who_finds_no_room_waits_in_line() {
    check(
        "with chunk=4 upload_bytes=20
        create jobs
        begin a told=20
        -> begun
        begin b told=16 wait=20 as=w1
        -> waits
        begin c told=8 wait=10 as=w2
        -> waits
        after 10
        -> w2: refused: upload_limit
        begin d told=8 wait=10 as=w3
        -> waits
        begin e told=4
        -> refused: out_of_range data
        begin f told=6
        -> refused: upload_limit
        give_up a
        -> w1: begun
        give_up b
        -> w3: begun",
    );
}

#[test]
fn who_leaves_the_line_lets_the_next_ones_pass() {
    check(
        "with chunk=4 upload_bytes=20
        create jobs
        begin a told=8
        -> begun
        begin b told=16 wait=20 as=w1
        -> waits
        begin c told=12 wait=20 as=w2
        -> waits
        cancel w1
        -> w2: begun",
    );
}

#[test]
fn a_key_that_is_remembered_stores_nothing() {
    check(
        "with chunk=4
        create jobs
        begin a told=8 key=k
        -> begun
        append a
        append a
        finish a key=k digest=1
        -> sent
        begin b told=8 key=k
        -> remembered
        finish b bytes=8 key=k digest=1
        -> repeated a
        finish b bytes=8 key=k digest=2
        -> refused: idempotency_key_reused
        stored
        -> a:2",
    );
}

#[test]
fn of_two_uploads_under_one_key_the_first_to_end_wins() {
    check(
        "with chunk=4
        create jobs
        begin a told=8 key=k
        -> begun
        begin b told=8 key=k
        -> begun
        begin c told=8 key=k
        -> begun
        append a
        append a
        append b
        append b
        append c
        append c
        finish b key=k digest=1
        -> sent
        finish a key=k digest=1
        -> repeated b
        finish c key=k digest=2
        -> refused: idempotency_key_reused
        stored
        -> b:2 (c:2)
        give_up c
        stored
        -> b:2
        send d key=k digest=1
        -> repeated b",
    );
}

#[test]
fn while_there_is_no_room_uploads_stop() {
    check(
        "with chunk=4
        create jobs
        begin a
        -> begun
        append a
        append a
        space low
        append a
        -> refused: storage_full
        finish a
        -> refused: storage_full
        give_up a
        stored
        -> nothing",
    );
}

#[test]
fn an_upload_enters_its_queue_when_it_is_finished() {
    check(
        "with chunk=4
        create jobs
        begin a told=8
        -> begun
        append a
        append a
        purge
        -> purged 0
        finish a
        -> sent
        show
        -> ready=1 why=no_consumer since=unknown
        purge
        -> purged 1
        stored
        -> nothing",
    );
}

#[test]
fn quotas_count_all_bytes_of_an_upload_before_and_after_it_is_a_message() {
    check(
        "with chunk=4 bytes=20
        create jobs
        begin a told=19
        -> refused: byte_limit
        begin a told=10
        -> begun
        begin b told=9
        -> refused: byte_limit
        append a
        append a
        append a bytes=2
        finish a
        -> sent
        show bytes
        -> waiting=12 in_all=12
        begin b told=7
        -> refused: byte_limit
        begin c
        -> begun
        append c
        append c
        finish c
        -> refused: byte_limit
        give_up c
        stored
        -> a:3
        lease
        -> a#1 deliveries=1 until=30
        show bytes
        -> leased=12 in_all=12
        ack a#1
        show bytes
        -> in_all=0
        begin d told=18
        -> begun",
    );
}

#[test]
fn an_upload_that_repeats_a_send_is_not_held_to_the_quotas() {
    check(
        "with chunk=4 messages=1
        create jobs
        begin a told=5 key=k
        -> begun
        append a
        append a bytes=1
        finish a key=k
        -> sent
        begin b told=5
        -> refused: message_limit
        begin c told=5 key=k
        -> remembered",
    );
}
