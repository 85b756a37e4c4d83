//! Data in chunks: whose they are, and who may read them (docs/decisions/0012).

use crate::check::check;

#[test]
fn data_that_comes_whole_is_in_its_row_up_to_a_length_and_in_a_chunk_above() {
    check(
        "with inline=2 chunk=4
        create jobs
        send a bytes=2
        -> sent
        send b bytes=3
        -> sent
        send c bytes=4
        -> sent
        send d bytes=5
        -> refused: out_of_range data
        stored
        -> b:1 c:1
        lease max=3
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30
        ack a#1 b#1 c#1
        stored
        -> nothing",
    );
}

#[test]
fn data_sent_along_with_a_settle_may_be_in_a_chunk_but_does_not_come_in_many() {
    check(
        "with inline=1 chunk=4
        create jobs
        settle send=jobs:aaa
        -> sent
        stored
        -> aaa:1",
    );
}

/// A waiting call gets the message in the batch that sends it; here that batch also ends its life.
#[test]
fn chunks_leave_whatever_ends_their_message() {
    check(
        "with inline=1 chunk=4
        create jobs deliveries_max=1 at_limit=drop
        create other
        send acked bytes=3
        -> sent
        send nacked bytes=3
        -> sent
        send lost bytes=3
        -> sent
        send expired bytes=3 ttl=20 delay=10
        -> sent
        lease max=3
        -> acked#1 deliveries=1 until=30, nacked#1 deliveries=1 until=30, lost#1 deliveries=1 until=30
        ack acked#1
        nack nacked#1
        stored
        -> lost:1 expired:1
        after 20
        stored
        -> lost:1
        after 10
        stored
        -> nothing
        send purged bytes=3
        -> sent
        send deleted queue=other bytes=3
        -> sent
        purge
        -> purged 1
        delete other
        -> deleted
        stored
        -> nothing",
    );
}

#[test]
fn chunks_stay_with_a_message_that_moves() {
    check(
        "with chunk=4
        create dead
        create jobs deliveries_max=1 at_limit=move:dead
        begin a told=8
        -> begun
        append a
        append a
        finish a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        stored
        -> a:2
        lease queue=dead
        -> a#2 deliveries=1 until=30 dead_of=jobs reason=attemptsspent
        open a queue=dead lease=a#2
        -> data in chunks
        close it
        ack a#2
        stored
        -> nothing",
    );
}

#[test]
fn chunks_stay_with_a_dead_letter_that_is_revived_or_moved_until_it_is_removed() {
    check(
        "with inline=1 chunk=4
        create other
        create jobs deliveries_max=1
        send small bytes=3
        -> sent
        begin a told=8
        -> begun
        append a
        append a
        finish a
        -> sent
        lease max=2
        -> small#1 deliveries=1 until=30, a#1 deliveries=1 until=30
        nack small#1
        nack a#1
        reopen
        revive a
        -> a
        stored
        -> small:1 a:2
        lease
        -> a#2 deliveries=1 until=31
        nack a#2
        move a small to=other
        -> a to other, small to other
        show bytes queue=other
        -> waiting=15 in_all=15
        open a queue=other
        -> data in chunks
        close it
        stored
        -> small:1 a:2
        remove a queue=other
        -> removed
        stored
        -> small:1
        lease queue=other
        -> small#2 deliveries=1 until=31
        ack small#2
        stored
        -> nothing",
    );
}

#[test]
fn chunks_of_dead_letters_leave_with_a_purge_of_them() {
    check(
        "with chunk=4
        create jobs deliveries_max=1
        begin a told=8
        -> begun
        append a
        append a
        finish a
        -> sent
        lease
        -> a#1 deliveries=1 until=30
        nack a#1
        purge
        -> purged 0
        stored
        -> a:2
        purge dead
        -> purged 1
        stored
        -> nothing",
    );
}

#[test]
fn chunks_that_are_read_stay_until_the_last_reader_is_done() {
    check(
        "with chunk=4
        create jobs
        begin a told=8
        -> begun
        append a
        append a
        finish a
        -> sent
        open a as=r1
        -> data in chunks
        lease
        -> a#1 deliveries=1 until=30
        open a lease=a#1 as=r2
        -> data in chunks
        ack a#1
        stored
        -> (a:2)
        close r1
        stored
        -> (a:2)
        close r2
        stored
        -> nothing",
    );
}

#[test]
fn a_reader_of_an_earlier_opening_holds_nothing_and_frees_nothing() {
    check(
        "with chunk=4
        create jobs
        begin a told=8
        -> begun
        append a
        append a
        finish a
        -> sent
        open a as=old
        -> data in chunks
        reopen
        open a as=new
        -> data in chunks
        lease
        -> waits
        -> it: a#1 deliveries=1 until=31
        ack a#1
        close old
        stored
        -> (a:2)
        close new
        stored
        -> nothing",
    );
}

#[test]
fn data_of_a_leased_message_is_for_its_holder() {
    check(
        "with chunk=4
        create jobs
        create other
        send a
        -> sent
        open a
        -> data whole
        open nobody
        -> refused: message_not_found
        open a queue=other
        -> refused: message_not_found
        open a queue=none
        -> refused: queue_not_found
        lease
        -> a#1 deliveries=1 until=30
        open a
        -> refused: message_leased
        open a lease=a#1
        -> data whole
        nack a#1
        open a lease=a#1
        -> refused: 1 stale
        lease
        -> a#2 deliveries=2 until=30
        open a lease=a#1
        -> refused: 1 stale
        ack a#2
        open a lease=a#2
        -> refused: message_not_found",
    );
}

#[test]
fn data_of_what_is_over_is_not_found() {
    check(
        "create jobs
        send a ttl=10
        -> sent
        send b
        -> sent
        purge
        -> purged 2
        open b
        -> refused: message_not_found
        send c ttl=10 delay=5
        -> sent
        open c
        -> data whole
        after 10
        open c
        -> refused: message_not_found",
    );
}

/// Memory holds one row of what is owed; the rest is read on, also after an opening.
#[test]
fn memory_holds_the_front_of_what_is_owed() {
    check(
        "with window=1 inline=1 chunk=4 remove=1
        create jobs
        send a b c d e f g h bytes=3
        -> sent
        purge
        -> purged 8
        stored
        -> nothing
        send i j k l m n o p bytes=3
        -> sent
        purge
        -> purged 8
        reopen
        stored
        -> nothing",
    );
}

/// More than a batch removes by itself: traffic of such messages must not leave more behind than goes.
#[test]
fn chunks_of_small_data_leave_as_fast_as_their_messages() {
    check(
        "with inline=1 chunk=4 remove=1
        create jobs
        send a b c d e f bytes=3
        -> sent
        lease max=6
        -> a#1 deliveries=1 until=30, b#1 deliveries=1 until=30, c#1 deliveries=1 until=30, d#1 deliveries=1 until=30, e#1 deliveries=1 until=30, f#1 deliveries=1 until=30
        ack a#1 b#1 c#1 d#1 e#1 f#1 rest=no
        stored
        -> (a:1) (b:1) (c:1) (d:1) (e:1) (f:1)
        batch
        stored
        -> nothing",
    );
}
