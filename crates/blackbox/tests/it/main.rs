//! Promises that only the running binary can keep or break.

mod nothing_lost;
mod real_senders;
