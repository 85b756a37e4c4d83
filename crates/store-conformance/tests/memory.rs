//! The memory store keeps the contract.

use millpond_store::{MemoryDisk, StoreFactory};
use millpond_store_conformance::{Beside, Place, exercise};

#[derive(Default)]
struct Memory {
    disk: MemoryDisk,
    copy: MemoryDisk,
}

impl Place for Memory {
    fn factory(&mut self) -> Box<dyn StoreFactory> {
        Box::new(self.disk.clone())
    }

    fn back_up(&mut self) {
        self.copy = self.disk.copy();
    }

    fn restore(&mut self) {
        self.disk.restore(&self.copy);
    }

    fn beside(&mut self, environment: &str) -> Option<Box<dyn Beside>> {
        Some(Box::new(self.disk.beside(environment)))
    }
}

#[test]
fn the_memory_store_keeps_the_contract() {
    assert_eq!(exercise(|| Box::<Memory>::default()), [""; 0]);
}

#[test]
fn a_copy_opened_by_itself_is_a_restore() {
    let disk = MemoryDisk::new();
    drop(disk.open("e").expect("it opens"));
    let (_, opened) = disk.copy().open("e").expect("it opens");
    assert_eq!(opened.lineage, millpond_store::Lineage::Restored);
    assert_eq!(disk.open("e").expect("it opens").1.lineage, millpond_store::Lineage::Restarted);
}
