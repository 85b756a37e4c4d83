//! store-conformance
