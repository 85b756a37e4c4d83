//! Chunks and the rows that say whose they are not. Which of them have to be there is for the core to say.

use std::sync::Arc;

use millpond_core::id::Sequence;
use millpond_core::row::{ChunkRow, Data, DataKind, MessageContent, MessageRow, UploadRow};
use millpond_core::{ChangeSet, ChunkRange, DeliveryChange, Scan};
use millpond_store::StoreErrorKind;

use crate::Place;
use crate::rows::{Owner, assert_fails, chunk, delivery};

fn upload(sequence: u64, chunks: u32) -> UploadRow {
    UploadRow { sequence: Sequence(sequence), chunks }
}

fn range(sequence: u64, from: u32, until: u32) -> ChunkRange {
    ChunkRange { sequence: Sequence(sequence), from, until }
}

/// A message with data in so many chunks.
fn insert(changes: &mut ChangeSet, sequence: u64, data: impl Into<Data>, chunks: u32) {
    let content =
        MessageContent { attributes: "{\"a\":1}".into(), data_kind: DataKind::Binary, data: data.into() };
    changes.messages.push(MessageRow { sequence: Sequence(sequence), content: Arc::new(content), chunks });
    let mut row = delivery(sequence);
    row.chunks = chunks;
    changes.deliveries.push(DeliveryChange::Insert(row));
}

fn present(owner: &mut Owner, sequence: u64) -> Vec<u32> {
    (0..8).filter(|&number| owner.chunk(sequence, number).is_some()).collect()
}

pub(super) fn chunks_come_back_byte_for_byte(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    let all_bytes: Vec<u8> = (0..=255).collect();
    let parts = [all_bytes.repeat(1_024), vec![0], all_bytes.repeat(16), vec![255; 70_000]];
    let rows = || {
        (0..).zip(&parts).map(|(number, data)| ChunkRow {
            sequence: Sequence(7),
            number,
            data: data.as_slice().into(),
        })
    };
    for row in rows() {
        let number = row.number;
        owner.commit(|changes| {
            changes.chunks.push(row);
            changes.uploads_put.push(upload(7, number + 1));
        });
    }
    let assert_all_there = |owner: &mut Owner| {
        for row in rows() {
            assert!(owner.chunk(7, row.number).as_deref() == Some(&*row.data), "chunk {}", row.number);
        }
        assert_eq!((owner.chunk(7, 4), owner.chunk(6, 0), owner.chunk(8, 0)), (None, None, None));
        assert_eq!(owner.uploads(), [upload(7, 4)]);
    };
    assert_all_there(&mut owner);
    owner.close();
    assert_all_there(&mut Owner::open(factory.as_ref()));
}

pub(super) fn whole_data_in_one_chunk_comes_back_whole(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let data: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    owner.commit(|changes| {
        insert(changes, 1, data.clone(), 1);
        insert(changes, 2, vec![2], 1);
        insert(changes, 3, vec![3], 0);
    });
    for (sequence, data) in [(1, &data[..]), (2, &[2]), (3, &[3])] {
        let content = owner.content(sequence).expect("it is there");
        assert!(content.data == Data::from(data), "data of message {sequence}");
        assert_eq!((&*content.attributes, content.data_kind), ("{\"a\":1}", DataKind::Binary));
    }
    assert_eq!(owner.delivery(1).map(|row| row.chunks), Some(1));
    assert!(owner.chunk(1, 0).is_some_and(|chunk| chunk == data));
    assert_eq!((owner.chunk(1, 1), owner.chunk(3, 0)), (None, None));
}

pub(super) fn data_in_many_chunks_is_named_by_its_length(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.commit(|changes| {
        changes.chunks.extend([chunk(1, 0), chunk(1, 1), chunk(1, 2)]);
        changes.uploads_put.push(upload(1, 3));
    });
    owner.commit(|changes| {
        insert(changes, 1, Data::Chunked { bytes: 6 }, 3);
        changes.uploads_removed.push(Sequence(1));
    });
    let content = owner.content(1).expect("it is there");
    assert_eq!(content.data, Data::Chunked { bytes: 6 });
    assert_eq!(&*content.attributes, "{\"a\":1}");
    assert_eq!((present(&mut owner, 1), owner.uploads()), (vec![0, 1, 2], Vec::new()));
}

pub(super) fn chunks_outlive_their_delivery(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.commit(|changes| {
        insert(changes, 1, vec![1; 9], 1);
        insert(changes, 2, vec![2; 9], 1);
    });
    owner.commit(|changes| {
        changes.deliveries.push(DeliveryChange::Remove(Sequence(1)));
        changes.uploads_put.push(upload(1, 1));
    });
    assert_eq!((owner.delivery(1), owner.content(1)), (None, None));
    assert_eq!(owner.chunk(1, 0), Some(vec![1; 9]));
    owner.commit(|changes| {
        changes.chunks_removed.push(range(1, 0, 1));
        changes.uploads_removed.push(Sequence(1));
    });
    assert_eq!((owner.chunk(1, 0), owner.uploads()), (None, Vec::new()));
    assert!(owner.content(2).is_some_and(|content| content.data == Data::from(vec![2; 9])));
}

pub(super) fn ranges_of_chunks_are_removed_exactly(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.commit(|changes| {
        for sequence in [4, 5, 6] {
            changes.chunks.extend((0..6).map(|number| chunk(sequence, number)));
        }
    });
    owner.commit(|changes| changes.chunks_removed.push(range(5, 4, 6)));
    assert_eq!(present(&mut owner, 5), [0, 1, 2, 3]);
    owner.commit(|changes| changes.chunks_removed.extend([range(5, 1, 2), range(4, 0, 6)]));
    assert_eq!(present(&mut owner, 5), [0, 2, 3]);
    assert_eq!(present(&mut owner, 4), [] as [u32; 0]);
    assert_eq!(present(&mut owner, 6), [0, 1, 2, 3, 4, 5]);
}

pub(super) fn chunks_that_do_not_fit_change_nothing(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.commit(|changes| changes.chunks.extend([chunk(1, 0), chunk(1, 1)]));
    let twice = owner.try_commit(|changes| changes.chunks.extend([chunk(1, 2), chunk(1, 1)]));
    assert_fails(twice, StoreErrorKind::Corrupt);
    let with_message = owner.try_commit(|changes| insert(changes, 1, vec![1], 1));
    assert_fails(with_message, StoreErrorKind::Corrupt);
    let missing = owner.try_commit(|changes| {
        changes.chunks_removed.push(range(1, 1, 3));
        changes.uploads_put.push(upload(1, 1));
    });
    assert_fails(missing, StoreErrorKind::Corrupt);
    assert_eq!((present(&mut owner, 1), owner.uploads()), (vec![0, 1], Vec::new()));
    assert_eq!((owner.delivery(1), owner.chunk(1, 1)), (None, Some(chunk(1, 1).data.to_vec())));
}

pub(super) fn uploads_are_written_over_and_removed(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| changes.uploads_put.extend([upload(3, 1), upload(2, u32::MAX)]));
    owner.commit(|changes| changes.uploads_put.push(upload(3, 2)));
    assert_eq!(owner.uploads(), [upload(2, u32::MAX), upload(3, 2)]);
    // One that is not there is no error.
    owner.commit(|changes| changes.uploads_removed.extend([Sequence(2), Sequence(9)]));
    owner.close();
    assert_eq!(Owner::open(factory.as_ref()).uploads(), [upload(3, 2)]);
}

pub(super) fn uploads_are_scanned_in_order_of_their_sequence(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.commit(|changes| changes.uploads_put.extend([9, 1, 5, 7].map(|sequence| upload(sequence, 1))));
    let mut page = |after: Option<u64>, limit| {
        let page = owner.scan(&Scan::Uploads { after: after.map(Sequence), limit });
        let sequences: Vec<u64> = page.uploads.iter().map(|row| row.sequence.0).collect();
        (sequences, page.end, page.snapshot.0)
    };
    assert_eq!(page(None, 2), (vec![1, 5], false, 1));
    assert_eq!(page(Some(5), 2), (vec![7, 9], true, 1));
    assert_eq!(page(Some(5), 1), (vec![7], false, 1));
    assert_eq!(page(Some(6), 9), (vec![7, 9], true, 1));
    assert_eq!(page(Some(9), 9), (vec![], true, 1));
    assert_eq!(page(None, 0), (vec![], false, 1));
}
