//! Whose turn it is to run a slot.
//!
//! Invariant: at most one thread is between `Running` and `Idle`, and a turn begins after everything that was brought
//! before it was asked for. What is asked for while one runs makes it run again; the decision is one atomic step, because
//! a turn may end between a look and what follows from it.

use std::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const RUN_AGAIN: u8 = 3;

pub(super) struct Turn(AtomicU8);

impl Turn {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// Takes the turn if nobody has it; `false`: whoever has it, or will, sees what was brought.
    pub(super) fn take(&self) -> bool {
        self.advance(IDLE, RUNNING)
    }

    /// Takes the turn that [`Turn::queue`] set aside.
    pub(super) fn take_queued(&self) -> bool {
        self.advance(QUEUED, RUNNING)
    }

    /// Sets the turn aside for a thread that will take it, if nobody has it; `false` as for [`Turn::take`].
    pub(super) fn queue(&self) -> bool {
        self.advance(IDLE, QUEUED)
    }

    /// Ends the turn; `false`: something was brought meanwhile, go on.
    pub(super) fn end(&self) -> bool {
        let ended = self.0.compare_exchange(RUNNING, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !ended {
            self.0.store(RUNNING, Ordering::SeqCst);
        }
        ended
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        let next = |turn| match turn {
            RUNNING => Some(RUN_AGAIN),
            turn if turn == from => Some(to),
            // Queued, or asked already.
            _ => None,
        };
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::{hint, thread};

    use super::*;

    /// Two threads bring something at nearly the same moment, again and again; nobody is there to ask once more.
    #[test]
    fn nothing_that_is_brought_while_a_turn_ends_is_left_lying() {
        const ROUNDS: u64 = 20_000;
        let turn = Turn::new();
        let (brought, seen) = (AtomicU64::new(0), AtomicU64::new(0));
        let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let reach = |counter: &AtomicU64, round: u64| {
            let mut spins = 0u32;
            while counter.load(Ordering::SeqCst) < round {
                spins += 1;
                if spins.is_multiple_of(1_000) { thread::yield_now() } else { hint::spin_loop() }
            }
        };
        let bring = |pause: u64| {
            (0..pause).for_each(|_| hint::spin_loop());
            brought.fetch_add(1, Ordering::SeqCst);
            if turn.take() {
                loop {
                    seen.store(brought.load(Ordering::SeqCst), Ordering::SeqCst);
                    if turn.end() {
                        return;
                    }
                }
            }
        };
        let lost = thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    reach(&begun, round);
                    bring(round % 7);
                    done.store(round, Ordering::SeqCst);
                }
            });
            let lost = (1..=ROUNDS).find(|&round| {
                begun.store(round, Ordering::SeqCst);
                bring(round % 11);
                reach(&done, round);
                seen.load(Ordering::SeqCst) != 2 * round
            });
            begun.store(ROUNDS, Ordering::SeqCst);
            lost
        });
        assert_eq!(lost, None, "the round in which something was left lying");
    }
}
