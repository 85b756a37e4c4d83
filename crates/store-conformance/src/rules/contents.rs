//! Contents of messages: exactly the bytes that were sent.

use std::sync::Arc;

use millpond_core::DeliveryChange;
use millpond_core::id::Sequence;
use millpond_core::row::{DataKind, MessageContent, MessageRow};

use crate::Place;
use crate::rows::{Owner, delivery, message};

pub(super) fn odd_contents() -> Vec<MessageContent> {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let data: Vec<(DataKind, Vec<u8>)> = vec![
        (DataKind::None, Vec::new()),
        (DataKind::Text, Vec::new()),
        (DataKind::Binary, vec![0]),
        (DataKind::Binary, all_bytes.clone()),
        (DataKind::Json, b"{ \"b\": 1.0, \"a\": 1e400,\n\"b\": null }".to_vec()),
        (DataKind::Text, "\u{feff}ü\u{0}\r\n".as_bytes().to_vec()),
        (DataKind::Binary, all_bytes.repeat(256)),
        (DataKind::Binary, all_bytes.repeat(4_096)),
    ];
    let attributes = ["{}", "", "{\"a\":\"\\u0000\u{7f}'\"}", "\u{0}x"];
    let with_attributes = data.into_iter().zip(attributes.iter().cycle());
    with_attributes
        .map(|((data_kind, data), attributes)| MessageContent {
            attributes: (*attributes).into(),
            data_kind,
            data: data.into(),
        })
        .collect()
}

pub(super) fn contents_come_back_byte_for_byte(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    let contents: Vec<Arc<MessageContent>> = odd_contents().into_iter().map(Arc::new).collect();
    owner.commit(|changes| {
        for (sequence, content) in (1..).zip(&contents) {
            let sequence = Sequence(sequence);
            let content = Arc::clone(content);
            changes.messages.push(MessageRow { sequence, content, chunks: 0 });
            changes.deliveries.push(DeliveryChange::Insert(delivery(sequence.0)));
        }
    });
    let assert_all_there = |owner: &mut Owner| {
        for (sequence, content) in (1..).zip(&contents) {
            let found = owner.content(sequence).expect("every message is there");
            assert!(found == *content, "message {sequence} came back as something else");
        }
    };
    assert_all_there(&mut owner);
    owner.close();
    assert_all_there(&mut Owner::open(factory.as_ref()));
}

pub(super) fn contents_leave_with_their_delivery(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1), delivery(2)]);
    let mut changed = delivery(1);
    changed.failure_count = 3;
    owner.commit(|changes| changes.deliveries.push(DeliveryChange::Update(changed)));
    assert_eq!(
        owner.content(1),
        Some(message(1).content),
        "an update of the delivery leaves the message alone"
    );
    owner.remove([1]);
    assert_eq!(owner.content(1), None);
    assert_eq!(owner.content(2), Some(message(2).content));
}
