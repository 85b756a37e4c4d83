//! The contract of [`millpond_store::Store`] as a suite: a backend is right when [`exercise`] passes over it.
//!
//! A backend's `tests/` implements [`Place`] and calls [`exercise`]; each rule gets a place of its own and is a
//! function named for what it demands. [`lifecycle`] is the load under which backends are measured.
//!
//! Not covered, and to be shown by each backend itself:
//! - loss of power and torn writes (design-holes A1): a dropped store loses nothing that the page cache holds;
//! - a full disk and the reserve (B15), an unreachable or damaged place, and an `Unknown` that the backend itself answers
//!   ([`Store::resolve`](millpond_store::Store::resolve) is exercised after commits whose outcome is known here);
//! - bounds on memory, on the log, and on the time of any call;
//! - that a scan of the first page costs the same however many rows were removed in front of it (only that it is right);
//! - how soon whoever watches is woken (only that it is), what a `complete` waits for, and transactions under other isolation levels
//!   than the backend's default, or with snapshots that are older than a claim;
//! - commits of two owners at the very same moment: owners here take turns;
//! - values outside their type's promise: sequences above 2^40, counters and numbers in a log above 2^63.

#![warn(missing_docs)]

mod beside;
pub mod lifecycle;
pub mod rows;
mod rules;

use millpond_store::StoreFactory;

pub use beside::Beside;
use rows::ENVIRONMENT;
pub use rules::{Rule, rules};

/// Where a backend keeps environments, for one rule. Empty at first; whatever it needs is gone when it is dropped.
pub trait Place {
    /// A factory over what the place holds now. Asked for again when everything that came of the last one is dropped,
    /// it stands for the next process.
    fn factory(&mut self) -> Box<dyn StoreFactory>;

    /// Takes a copy of the data as a backup would. Nothing of the place is open.
    fn back_up(&mut self);

    /// Puts the copy in place of the data. Nothing of the place is open.
    fn restore(&mut self);

    /// Begins a transaction beside the owner of an environment that is known; `None`: nobody writes here beside the owner. Several may
    /// be open at once.
    fn beside(&mut self, environment: &str) -> Option<Box<dyn Beside>> {
        let _ = environment;
        None
    }
}

/// Holds a backend to every rule, each over a new place. Answers the names of those that are left out: all about what is written beside
/// the owner, where nobody can.
///
/// # Panics
/// When a rule is broken; the last name printed is the rule's.
pub fn exercise(new_place: impl Fn() -> Box<dyn Place>) -> Vec<&'static str> {
    let mut probe = new_place();
    probe.factory().create_environment(ENVIRONMENT).expect("an environment can be made");
    let beside = probe.beside(ENVIRONMENT).is_some();
    drop(probe);
    let mut left_out = Vec::new();
    for rule in rules() {
        if rule.beside && !beside {
            println!("left out: {}", rule.name);
            left_out.push(rule.name);
            continue;
        }
        println!("{}", rule.name);
        (rule.check)(new_place().as_mut());
    }
    left_out
}
