//! What an environment has stored.

use millpond_core::id::Sequence;
use millpond_core::row::{DeliveryRow, UploadRow};

/// Rows of one environment, each list in the order of its key. They are not of one moment if commits go on meanwhile.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stored {
    /// Deliveries of queues.
    pub deliveries: Vec<DeliveryRow>,
    /// Keys of chunks.
    pub chunks: Vec<(Sequence, u32)>,
    /// Uploads.
    pub uploads: Vec<UploadRow>,
}
