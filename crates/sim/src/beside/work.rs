//! What transactions and callers do, and what becomes of it.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{
    Lease, LeaseRef, NewMessage, Reading, Require, Settle, SettleAction, Settlement, WaiterId,
};
use millpond_core::external::ExternalSend;
use millpond_core::id::{MessageId, Sequence};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};
use millpond_engine::environment::{EnvironmentAnswer, Ticket};
use millpond_store::BesideError;

use super::ledger::{Hand, Written};
use super::{ENVIRONMENT, Open, QUEUE, World};
use crate::auditor::{Breach, Verdict, demand};

/// Transactions that are open at once, at most.
const OPEN_MAX: usize = 5;
/// Keys that messages are sent with.
const KEYS: u64 = 12;

impl World {
    /// Somebody does something, or nobody.
    pub(super) fn act(&mut self) -> Verdict {
        match self.streams.workload.below(12) {
            0 => self.begin(),
            1 | 2 => self.send(),
            3 | 4 => self.lease(2),
            5..=7 => self.use_a_hand()?,
            8 => self.write_more(),
            9 | 10 => {
                let late = self.streams.workload.chance(500);
                if !self.open.is_empty() && !late {
                    let index = self.streams.workload.size(0, self.open.len() - 1);
                    let open = self.open.swap_remove(index);
                    self.end(open)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self) {
        if self.open.len() < OPEN_MAX {
            let mut beside = millpond_store::MemoryDisk::beside(&self.disk, ENVIRONMENT);
            beside.set_now(self.now());
            let written = Written { began: self.ledger.moment(), ..Written::default() };
            self.open.push(Open { beside, written });
        }
    }

    /// One of the transactions, to do more in it.
    fn some_open(&mut self) -> Option<&mut Open> {
        if self.open.is_empty() {
            self.begin();
        }
        let index = self.streams.workload.size(0, self.open.len() - 1);
        let now = self.now();
        let open = self.open.get_mut(index)?;
        open.beside.set_now(now);
        Some(open)
    }

    fn send(&mut self) {
        let random = &mut self.streams.workload;
        let key = random.chance(150).then(|| format!("key {}", random.below(KEYS)).into());
        let bytes = random.size(0, 50);
        let content = MessageContent {
            attributes: "{}".into(),
            data_kind: DataKind::Binary,
            data: vec![7u8; bytes].into(),
        };
        let send = ExternalSend {
            queue: QUEUE.into(),
            partition: None,
            message: MessageId { sent_at: Timestamp::ZERO, sequence: Sequence(0), nonce: 0 },
            content: NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None },
            visible_at: None,
            key,
        };
        let key = send.key.clone();
        let Some(open) = self.some_open() else { return };
        if let Ok(id) = open.beside.send(send) {
            open.written.sends.push((id, key));
            self.trace.note(|| format!("{id} is sent from beside"));
        }
    }

    pub(super) fn allow_settle(&mut self) -> Verdict {
        let mut beside = self.disk.beside(ENVIRONMENT);
        let allowed = beside.allow_settle(QUEUE).and_then(|()| beside.commit());
        demand!(allowed == Ok(()), "it cannot be allowed: {allowed:?}");
        Ok(())
    }

    fn write_more(&mut self) {
        let ids = self.ledger.ids();
        let random = &mut self.streams.workload;
        let by = random.millis(1_000, 60_000);
        let cancelled = random.pick(&ids).copied().filter(|_| random.chance(80));
        let hand = random.pick(&self.hands).copied();
        let Some(open) = self.some_open() else { return };
        if let Some(id) = cancelled {
            if open.beside.cancel(QUEUE, id).is_ok() {
                open.written.cancels.push(id);
            }
        } else if let Some(hand) = hand {
            // Whether it is held by then is not known.
            let _ = open.beside.extend(QUEUE, hand.lease, by);
        }
    }

    fn lease(&mut self, most: u32) {
        let lease = Lease {
            queue: QUEUE.into(),
            max_messages: most,
            min_messages: 1,
            visibility_timeout: Some(self.streams.workload.millis(1_000, 20_000)),
            wait: Duration::ZERO,
            max_wait: None,
            waiter: WaiterId(0),
            reading: Reading::default(),
        };
        self.submit(Command::Lease(lease));
    }

    /// Whoever has a lease does something with it, in a transaction most of the time.
    fn use_a_hand(&mut self) -> Verdict {
        if self.hands.is_empty() {
            return Ok(());
        }
        let index = self.streams.workload.size(0, self.hands.len() - 1);
        let hand = self.hands.swap_remove(index);
        match self.streams.workload.below(10) {
            0..=5 => self.settle_beside(hand, true),
            6 => self.settle_beside(hand, false),
            7 => self.settle(hand, SettleAction::Ack),
            8 => self.settle(hand, SettleAction::Nack(None)),
            // It forgets about it.
            _ => {}
        }
        Ok(())
    }

    fn settle_beside(&mut self, hand: Hand, complete: bool) {
        let Some(open) = self.some_open() else { return };
        let done = if complete {
            open.beside.complete(hand.lease, None)
        } else {
            open.beside.fail(hand.lease, None)
        };
        if done.is_ok() {
            let list = if complete { &mut open.written.completes } else { &mut open.written.fails };
            list.push(hand);
        }
        self.trace
            .note(|| format!("{:?} is settled from beside, complete: {complete}: {done:?}", hand.lease));
    }

    fn settle(&mut self, hand: Hand, action: SettleAction) {
        let settlement =
            Settlement { queue: QUEUE.into(), lease: hand.lease, action, holder: Default::default() };
        let settle = Settle { settlements: vec![settlement], sends: Vec::new(), require: Require::Fresh };
        self.submit(Command::Settle(settle));
    }

    /// A transaction ends, one way or the other.
    pub(super) fn end(&mut self, open: Open) -> Verdict {
        let Open { beside, written } = open;
        if self.streams.workload.chance(300) {
            self.trace.note(|| format!("rolled back: {written:?}"));
            self.met.rolled_back += 1;
            beside.roll_back();
            return Ok(());
        }
        let late = written.completes.iter().filter(|hand| hand.until <= self.now()).count();
        self.met.late += u64::try_from(late).unwrap_or(0);
        match beside.commit() {
            Ok(()) => {
                self.trace.note(|| format!("committed: {written:?}"));
                self.met.sent += u64::try_from(written.sends.len()).unwrap_or(0);
                self.met.settled += u64::try_from(written.completes.len()).unwrap_or(0);
                self.ledger.committed(&written)
            }
            Err(BesideError::Over) => Ok(()),
            Err(error) => Err(Breach(format!("a transaction did not commit: {error:?}"))),
        }
    }

    /// Leases that open transactions settle.
    fn held(&self) -> Vec<LeaseRef> {
        let settled = |open: &Open| {
            let hands = open.written.completes.iter().chain(&open.written.fails);
            hands.map(|hand| hand.lease).collect::<Vec<_>>()
        };
        self.open.iter().flat_map(settled).collect()
    }

    pub(super) fn answered(&mut self, ticket: Ticket, answer: &EnvironmentAnswer) -> Verdict {
        let Some(command) = self.tickets.remove(&ticket) else { return Ok(()) };
        self.trace.note(|| format!("#{ticket} is answered {:?}", answer.outcome));
        match (&command, &answer.outcome) {
            (Command::Lease(_), Outcome::Leased(grants)) => {
                let held = self.held();
                for grant in grants {
                    self.ledger.granted(grant, &held)?;
                    self.hands.push(Hand { lease: grant.lease(), until: grant.lease_until });
                }
                Ok(())
            }
            (Command::Settle(settle), Outcome::Settled { stale, .. }) => {
                for settlement in &settle.settlements {
                    let acked = settlement.action == SettleAction::Ack && stale.is_empty();
                    if acked {
                        self.ledger.is_done_under(&settlement.lease)?;
                    }
                }
                Ok(())
            }
            (Command::CreateQueue(_), Outcome::Queue(_)) => Ok(()),
            (command, outcome) => Err(Breach(format!("{command:?} was answered {outcome:?}"))),
        }
    }

    /// The end of all work: what is left is leased, and acked or completed.
    pub(super) fn finish_or_lease(&mut self) -> Verdict {
        let Some(hand) = self.hands.pop() else {
            self.lease(5);
            return Ok(());
        };
        if self.streams.workload.chance(500) {
            self.settle(hand, SettleAction::Ack);
            return Ok(());
        }
        let mut beside = self.disk.beside(ENVIRONMENT);
        beside.set_now(self.now());
        let mut written = Written { began: self.ledger.moment(), ..Written::default() };
        if beside.complete(hand.lease, None).is_ok() {
            written.completes.push(hand);
        }
        let committed = beside.commit();
        demand!(committed == Ok(()), "a transaction did not commit: {committed:?}");
        self.ledger.committed(&written)
    }
}
