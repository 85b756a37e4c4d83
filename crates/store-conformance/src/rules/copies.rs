//! Copies of contents that are stored: new messages, with chunks of their own.

use std::sync::Arc;

use millpond_core::id::Sequence;
use millpond_core::row::{ChunkRow, Data, DataKind, MessageContent, MessageRow};
use millpond_core::{ChangeSet, ChunkRange, DeliveryChange, MessageCopy};
use millpond_store::StoreErrorKind;

use super::contents::odd_contents;
use crate::Place;
use crate::rows::{
    Owner, assert_fails, chunk, counters, delivery, insert_copy, queue, secret, segment, trigger,
};

/// A message with data in so many chunks.
fn insert(changes: &mut ChangeSet, sequence: u64, content: Arc<MessageContent>, chunks: u32) {
    changes.messages.push(MessageRow { sequence: Sequence(sequence), content, chunks });
    changes.deliveries.push(DeliveryChange::Insert(delivery(sequence)));
}

/// Message 1 in its row, 2 in one chunk, 3 in four chunks, of which the last is short.
fn fill(owner: &mut Owner) {
    let content = |data: Data| {
        Arc::new(MessageContent { attributes: "{\"a\":1}".into(), data_kind: DataKind::Binary, data })
    };
    let parts = parts();
    owner.commit(|changes| {
        insert(changes, 1, content(vec![1; 9].into()), 0);
        insert(changes, 2, content(parts[0].clone().into()), 1);
        changes.chunks = (0..)
            .zip(&parts)
            .map(|(number, data)| ChunkRow { sequence: Sequence(3), number, data: data.as_slice().into() })
            .collect();
        let bytes = parts.iter().map(Vec::len).sum::<usize>();
        let bytes = u64::try_from(bytes).expect("it is small");
        insert(changes, 3, content(Data::Chunked { bytes }), 4);
        // Somebody else's on both sides of them.
        changes.chunks.extend([chunk(4, 0), chunk(4, 1)]);
    });
}

fn parts() -> Vec<Vec<u8>> {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let whole = |first: u8| [&[first], &all_bytes.repeat(1_024)[1..]].concat();
    vec![whole(7), whole(8), whole(9), vec![10]]
}

fn range(sequence: u64, until: u32) -> ChunkRange {
    ChunkRange { sequence: Sequence(sequence), from: 0, until }
}

/// The data of `sequence` and all its chunks are those of message 3.
fn assert_is_third(owner: &mut Owner, sequence: u64) {
    let parts = parts();
    let content = owner.content(sequence).expect("it is there");
    let bytes = u64::try_from(parts.iter().map(Vec::len).sum::<usize>()).expect("it is small");
    assert_eq!(content.data, Data::Chunked { bytes });
    for (number, part) in (0..).zip(&parts) {
        assert!(owner.chunk(sequence, number).as_ref() == Some(part), "chunk {number} of {sequence}");
    }
    assert_eq!(owner.chunk(sequence, 4), None);
}

pub(super) fn a_copy_has_the_content_byte_for_byte_and_outlives_its_source(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    let contents: Vec<Arc<MessageContent>> = odd_contents().into_iter().map(Arc::new).collect();
    let numbered = || (1..).zip(&contents);
    owner.commit(|changes| {
        numbered().for_each(|(sequence, content)| insert(changes, sequence, Arc::clone(content), 0));
    });
    owner.commit(|changes| {
        numbered().for_each(|(sequence, _)| insert_copy(changes, sequence, delivery(100 + sequence)));
    });
    for (sequence, content) in numbered() {
        assert!(owner.content(sequence).as_ref() == Some(content), "message {sequence} changed");
    }
    owner.remove(numbered().map(|(sequence, _)| sequence));
    let assert_all_there = |owner: &mut Owner| {
        for (sequence, content) in numbered() {
            assert_eq!(owner.content(sequence), None);
            assert!(
                owner.content(100 + sequence).as_ref() == Some(content),
                "the copy of {sequence} differs"
            );
            assert_eq!(owner.delivery(100 + sequence), Some(delivery(100 + sequence)));
        }
    };
    assert_all_there(&mut owner);
    owner.close();
    assert_all_there(&mut Owner::open(factory.as_ref()));
    owner = Owner::open(factory.as_ref());
    owner.remove([101]);
    assert_eq!((owner.delivery(101), owner.content(101)), (None, None), "it leaves with its delivery");
}

pub(super) fn a_copy_has_the_chunks_of_its_source(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    fill(&mut owner);
    owner.commit(|changes| (1..=3).for_each(|from| insert_copy(changes, from, delivery(10 * from))));
    let assert_all_there = |owner: &mut Owner| {
        for sequence in [1, 10] {
            assert!(owner.content(sequence).is_some_and(|content| content.data == Data::from(vec![1; 9])));
            assert_eq!(owner.chunk(sequence, 0), None, "its data is in its row");
        }
        let first = parts().swap_remove(0);
        for sequence in [2, 20] {
            let content = owner.content(sequence).expect("it is there");
            assert!(content.data == Data::from(first.clone()) && content.data_kind == DataKind::Binary);
            assert!(owner.chunk(sequence, 0).as_ref() == Some(&first));
            assert_eq!(owner.chunk(sequence, 1), None);
        }
        assert_is_third(owner, 3);
        assert_is_third(owner, 30);
    };
    assert_all_there(&mut owner);
    owner.close();
    assert_all_there(&mut Owner::open(factory.as_ref()));
}

pub(super) fn a_copy_is_made_before_its_source_leaves(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    fill(&mut owner);
    owner.commit(|changes| {
        let removals = (1..=3).map(|sequence| DeliveryChange::Remove(Sequence(sequence)));
        changes.deliveries.extend(removals);
        changes.chunks_removed = vec![range(2, 1), range(3, 4)];
        (1..=3).for_each(|from| insert_copy(changes, from, delivery(10 * from)));
    });
    for sequence in 1..=3 {
        assert_eq!((owner.delivery(sequence), owner.content(sequence)), (None, None));
        assert_eq!((owner.chunk(sequence, 0), owner.chunk(sequence, 3)), (None, None));
    }
    assert!(owner.content(10).is_some_and(|content| content.data == Data::from(vec![1; 9])));
    assert!(owner.content(20).is_some_and(|content| content.data == Data::from(parts().swap_remove(0))));
    assert_is_third(&mut owner, 30);
}

pub(super) fn one_message_is_copied_many_times_and_so_is_a_copy(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    fill(&mut owner);
    owner.commit(|changes| {
        (10..40).for_each(|sequence| insert_copy(changes, 1, delivery(sequence)));
        [40, 41].into_iter().for_each(|sequence| insert_copy(changes, 3, delivery(sequence)));
    });
    owner.commit(|changes| {
        insert_copy(changes, 25, delivery(50));
        insert_copy(changes, 41, delivery(51));
        changes.deliveries.push(DeliveryChange::Remove(Sequence(41)));
        changes.chunks_removed.push(range(41, 4));
    });
    let source = owner.content(1);
    assert!((10..40).chain([50]).all(|sequence| owner.content(sequence) == source));
    assert_is_third(&mut owner, 40);
    assert_is_third(&mut owner, 51);
    assert_eq!((owner.content(41), owner.chunk(41, 0)), (None, None));
}

pub(super) fn chunks_of_a_copy_are_removed_without_those_of_its_source(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    fill(&mut owner);
    owner.commit(|changes| (2..=3).for_each(|from| insert_copy(changes, from, delivery(10 * from))));
    owner.remove([20, 30]);
    assert!(owner.chunk(20, 0).is_some() && owner.chunk(30, 3).is_some(), "chunks outlive their delivery");
    owner.commit(|changes| changes.chunks_removed = vec![range(20, 1), range(30, 4)]);
    assert!((0..4).all(|number| owner.chunk(20, number).or_else(|| owner.chunk(30, number)).is_none()));
    assert!(owner.content(2).is_some_and(|content| content.data == Data::from(parts().swap_remove(0))));
    assert_is_third(&mut owner, 3);
    assert_eq!(owner.chunk(4, 1), Some(chunk(4, 1).data.to_vec()));
}

/// A commit of everything in which `fill` asks for a copy that cannot be made: nothing of it may be there afterwards.
fn assert_does_not_fit(owner: &mut Owner, fill: impl FnOnce(&mut ChangeSet)) {
    let result = owner.try_commit(|changes| {
        changes.deliveries.push(DeliveryChange::Remove(Sequence(1)));
        changes.queues_put.push(queue(1));
        changes.counters.push(counters(1, 5));
        changes.segments_put.push(segment(1, 0));
        changes.triggers_put.push(trigger("t"));
        changes.secret = Some(secret(1));
        insert_copy(changes, 3, delivery(60));
        fill(changes);
    });
    assert_fails(result, StoreErrorKind::Corrupt);
    assert_eq!(owner.delivery(1), Some(delivery(1)));
    assert_eq!((owner.delivery(60), owner.content(60), owner.chunk(60, 0)), (None, None, None));
    assert_is_third(owner, 3);
}

/// Nothing but what [`fill`] wrote is found.
fn assert_opens_as_filled(owner: Owner, place: &mut dyn Place) {
    let commit = owner.commit;
    owner.close();
    let opened = Owner::open(place.factory().as_ref()).opened;
    assert_eq!((opened.commit.0, opened.queues, opened.segments), (commit, vec![], vec![]));
    assert_eq!((opened.triggers, opened.secret), (vec![], Default::default()));
}

pub(super) fn a_copy_of_nothing_changes_nothing(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    fill(&mut owner);
    assert_does_not_fit(&mut owner, |changes| insert_copy(changes, 9, delivery(70)));
    // Chunks alone are no message.
    assert_does_not_fit(&mut owner, |changes| insert_copy(changes, 4, delivery(70)));
    assert_does_not_fit(&mut owner, |changes| {
        crate::rows::insert(changes, delivery(9));
        insert_copy(changes, 9, delivery(70));
    });
    assert_does_not_fit(&mut owner, |changes| {
        insert_copy(changes, 1, delivery(70));
        insert_copy(changes, 70, delivery(71));
    });
    assert_eq!((owner.content(9), owner.content(70), owner.content(71)), (None, None, None));
    let last_chunk = ChunkRange { sequence: Sequence(3), from: 3, until: 4 };
    owner.commit(|changes| changes.chunks_removed.push(last_chunk));
    let damaged = owner.try_commit(|changes| insert_copy(changes, 3, delivery(70)));
    assert_fails(damaged, StoreErrorKind::Corrupt);
    assert_eq!((owner.content(70), owner.chunk(70, 0)), (None, None));
    assert_opens_as_filled(owner, place);
}

pub(super) fn a_copy_onto_something_changes_nothing(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    fill(&mut owner);
    let onto = |to| MessageCopy { from: Sequence(2), to: Sequence(to) };
    assert_does_not_fit(&mut owner, |changes| changes.copies.push(onto(3)));
    assert_does_not_fit(&mut owner, |changes| changes.copies.push(onto(2)));
    // Chunks that are there are somebody's.
    assert_does_not_fit(&mut owner, |changes| insert_copy(changes, 2, delivery(4)));
    assert_eq!((owner.content(4), owner.chunk(4, 0)), (None, Some(chunk(4, 0).data.to_vec())));
    assert!(owner.content(2).is_some_and(|content| content.data == Data::from(parts().swap_remove(0))));
    assert_opens_as_filled(owner, place);
}
