//! Scripts in Rust.
fn main() {}
