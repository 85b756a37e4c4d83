//! What a client sends and gets, through the public API of the crate.

mod error_pages;
