//! Grants whose answer is on its way to somebody (design-holes B13).

use std::sync::Arc;

use millpond_core::Command;
use millpond_core::command::LeaseRef;

use crate::driver::Slot;

/// Stands for grants on their way to a consumer. Dropped without [`Receipt::delivered`], they are taken back: ready again,
/// the delivery not counted.
#[derive(Debug)]
pub struct Receipt {
    slot: Arc<Slot>,
    leases: Vec<LeaseRef>,
}

impl Receipt {
    pub(crate) fn new(slot: Arc<Slot>, leases: Vec<LeaseRef>) -> Self {
        Self { slot, leases }
    }

    /// The answer reached its consumer, as far as that can be known.
    pub fn delivered(mut self) {
        self.leases.clear();
    }

    /// These grants were not put into the answer: they go back at once.
    pub(crate) fn give_back(&mut self, leases: Vec<LeaseRef>) {
        self.leases.retain(|lease| !leases.contains(lease));
        self.slot.notify(Command::Undo(leases));
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if !self.leases.is_empty() {
            self.slot.count_undone(self.leases.len());
            self.slot.notify(Command::Undo(std::mem::take(&mut self.leases)));
        }
    }
}
