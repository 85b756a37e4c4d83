//! Grants whose answer is on its way to somebody (design-holes B13).

use millpond_core::command::LeaseRef;

/// Stands for grants on their way to a consumer. Dropped without [`Receipt::delivered`], they are taken back: ready again,
/// the delivery not counted.
#[derive(Debug)]
pub struct Receipt {
    leases: Vec<LeaseRef>,
}

impl Receipt {
    /// The answer reached its consumer, as far as that can be known.
    pub fn delivered(mut self) {
        self.leases.clear();
    }
}
