//! The example that shows how to embed the engine does what it shows, in memory and on disk.

use std::sync::Arc;

use millpond_store::MemoryDisk;
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};

#[allow(dead_code, reason = "its main is for people")]
#[path = "../../examples/embed.rs"]
mod embed;

#[tokio::test]
async fn what_is_sent_is_worked_on_without_http() {
    let done = embed::deliver(Arc::new(MemoryDisk::new()), &["a", "b", "c"]).await;
    assert_eq!(done.expect("it works"), ["a", "b", "c"]);
}

#[tokio::test]
async fn on_disk_a_second_start_finds_the_queue_of_the_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let factory = SqliteFactory::open(directory.path(), SqliteSettings::default());
    let factory = Arc::new(factory.expect("it opens"));
    assert_eq!(embed::deliver(factory.clone(), &["a"]).await.expect("it works"), ["a"]);
    let again = embed::deliver(factory, &["b"]).await.expect_err("the queue is there");
    assert!(again.to_string().contains("QueueAlreadyExists"), "{again}");
}
