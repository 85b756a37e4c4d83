//! What tests of other crates rely on, on the store that they run on.

use std::sync::Arc;

use millpond_core::ChangeSet;
use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::ChunkRow;
use millpond_store::StoreFactory as _;
use millpond_test_stores::{Stored, new_store};

const ENVIRONMENT: &str = "orgs/o/projects/p/envs/e";

fn chunk(number: u32) -> ChunkRow {
    ChunkRow { sequence: Sequence(7), number, data: Arc::from(*b"data") }
}

#[test]
fn what_is_stored_is_read_back_and_what_was_not_committed_is_not() {
    let store = new_store();
    let (mut owner, opened) = store.open(ENVIRONMENT).expect("it opens");
    assert_eq!(store.stored(ENVIRONMENT), Stored::default());
    let commit = CommitSequence(opened.commit.0 + 1);
    let chunks = vec![chunk(0), chunk(1)];
    owner.commit(&ChangeSet { commit, chunks, ..ChangeSet::default() }).expect("it is written");
    let expected = vec![(Sequence(7), 0), (Sequence(7), 1)];
    assert_eq!(store.stored(ENVIRONMENT).chunks, expected);
    let refused = ChangeSet { commit, chunks: vec![chunk(2)], ..ChangeSet::default() };
    owner.commit(&refused).expect_err("that number is taken");
    assert_eq!(store.stored(ENVIRONMENT).chunks, expected);
    owner.close().expect("it closes");
    assert_eq!(store.stored(ENVIRONMENT).chunks, expected);
}

#[test]
fn stores_are_apart_and_clones_are_one() {
    let (one, other) = (new_store(), new_store());
    assert!(one.create_environment(ENVIRONMENT).expect("it is made"));
    assert!(one.clone().has_environment(ENVIRONMENT).expect("an answer"));
    assert!(!other.has_environment(ENVIRONMENT).expect("an answer"));
}
