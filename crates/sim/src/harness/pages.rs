//! At rest, what those who look see is exactly what is stored and neither gone nor over.

use std::collections::BTreeMap;

use millpond_core::command::{Browse, Cursor, WaiterId};
use millpond_core::id::QueueNumber;
use millpond_core::row::{DeliveryRow, DeliveryState, QueueRow};
use millpond_core::{Command, Outcome};
use millpond_store::MemoryDump;

use super::World;
use crate::auditor::{Breach, Verdict, demand, is_gone};
use crate::names::{Kind, kind_of};

const STATES: [DeliveryState; 6] = [
    DeliveryState::Delayed,
    DeliveryState::Ready,
    DeliveryState::Leased,
    DeliveryState::Completed,
    DeliveryState::Dead,
    DeliveryState::Cancelled,
];

impl World {
    /// Pages through every queue in every state and compares.
    pub(super) fn compare_pages(&mut self, dump: &MemoryDump) -> Verdict {
        let now = self.environment.stamp();
        let queues: BTreeMap<QueueNumber, &QueueRow> =
            dump.queues.iter().map(|row| (row.number, row)).collect();
        let mut stored: BTreeMap<(QueueNumber, DeliveryState), BTreeMap<Cursor, &DeliveryRow>> =
            BTreeMap::new();
        for row in &dump.deliveries {
            let gone = queues.get(&row.queue).is_none_or(|queue| is_gone(row, queue));
            let over = row.expires_at <= now && row.state != DeliveryState::Leased;
            if !gone && !over {
                stored.entry((row.queue, row.state)).or_default().insert(Cursor::of(row), row);
            }
        }
        let names = self.auditor.names.iter().filter(|(name, _)| kind_of(name) != Kind::Group);
        let names: Vec<_> = names.map(|(name, number)| (name.clone(), *number)).collect();
        for (name, number) in names {
            for state in STATES {
                let expected = stored.remove(&(number, state)).unwrap_or_default();
                let shown = self.page_through(&name, state)?;
                demand!(
                    shown.iter().eq(expected.values().copied()),
                    "{name} shows as {state:?} {shown:?}, stored are {expected:?}"
                );
            }
        }
        Ok(())
    }

    fn page_through(&mut self, name: &str, state: DeliveryState) -> Result<Vec<DeliveryRow>, Breach> {
        let mut shown = Vec::new();
        let mut after = None;
        loop {
            let browse = Browse {
                queue: name.into(),
                state,
                after,
                from: None,
                until: None,
                limit: self.streams.latency.size(1, 6),
                contents: self.streams.latency.chance(200),
                waiter: WaiterId(0),
            };
            let answer = self.ask(Command::Browse(browse))?;
            let Outcome::Browsed(page) = answer.outcome else {
                return Err(Breach(format!("{name} cannot be paged through: {:?}", answer.outcome)));
            };
            shown.extend(page.deliveries);
            after = page.next;
            if after.is_none() {
                return Ok(shown);
            }
        }
    }
}
