//! Lease ids to settlements, and stale leases back in the order of the request.
//!
//! An id that is no message id names nothing that could be held: it is stale, and never gets to the core.

use std::collections::BTreeSet;

use millpond_api::name::{EnvironmentName, Kind};
use millpond_api::settle::{LeaseId, SendTo, SettleRequest, SettleSend};
use millpond_core::command::{
    CreateQueue, Holder, LeaseRef, NewMessage, Require, Send, Settle, SettleAction, Settlement, Start,
};
use millpond_core::id::{LeaseGeneration, MessageId, Sequence};
use millpond_core::outcome::Stale;

use crate::convert::message::new_message;
use crate::convert::name::called;
use crate::convert::queue::{queue_of, topic_of};
use crate::error::ApiError;
use crate::making::make;

/// What the core is asked to settle.
pub(crate) fn settlements(queue: &str, leases: &[LeaseId], action: SettleAction) -> Vec<Settlement> {
    let known = leases.iter().filter_map(lease_ref);
    known.map(|lease| settlement(queue, lease, action)).collect()
}

fn settlement(queue: &str, lease: LeaseRef, action: SettleAction) -> Settlement {
    Settlement { queue: queue.into(), lease, action, holder: Holder::default() }
}

/// Whether the core can be asked about this lease.
pub(crate) fn could_be_held(id: &LeaseId) -> bool {
    lease_ref(id).is_some()
}

/// A settle call as a command. `own` is where sends go that do not say. Leases that could not be held are left out.
pub(crate) fn to_settle(
    queue: &str,
    own: &str,
    request: SettleRequest,
    environment: &EnvironmentName,
) -> Result<Settle, ApiError> {
    let acks = request.acks.iter().map(|lease| (lease, SettleAction::Ack));
    let nacks = request.nacks.iter().map(|(lease, delay)| (lease, SettleAction::Nack(*delay)));
    let extends = request.extends.iter();
    let extends = extends.map(|(lease, own)| (lease, SettleAction::Extend(*own)));
    let settlements = acks
        .chain(nacks)
        .chain(extends)
        .filter_map(|(id, action)| Some(settlement(queue, lease_ref(id)?, action)));
    let settlements = settlements.collect();
    let sends = request.sends.into_iter().enumerate();
    let sends = sends.map(|(at, send)| to_send(at, send, own, environment)).collect::<Result<_, _>>()?;
    let require = if request.require_all { Require::All } else { Require::Fresh };
    Ok(Settle { settlements, sends, require })
}

fn to_send(at: usize, send: SettleSend, own: &str, environment: &EnvironmentName) -> Result<Send, ApiError> {
    let queue = match send.to {
        SendTo::Own => own.into(),
        SendTo::Queue(reference) => queue_of(&format!("sends[{at}].queue"), &reference, environment)?,
        SendTo::Topic { topic, partition } => {
            let topic = topic.map(|topic| topic_of(&format!("sends[{at}].topic"), topic, environment));
            let topic = topic.transpose()?.unwrap_or_else(|| own.into());
            match partition {
                Some(partition) => format!("{topic}/{}/{partition}", Kind::Partition.collection()).into(),
                None => topic,
            }
        }
    };
    let message = |event| NewMessage {
        priority: send.priority,
        time_to_live: send.time_to_live,
        ..new_message(event, send.delay)
    };
    Ok(Send { queue, messages: send.events.into_iter().map(message).collect(), idempotency: None })
}

/// The partitions that a settle call sends to, which it makes if they are not there.
pub(crate) fn partitions_of(settle: &Settle) -> Vec<CreateQueue> {
    let names: BTreeSet<_> = settle.sends.iter().map(|send| &send.queue).collect();
    let partitions = names.into_iter().filter(|name| called(name).0 == Kind::Partition);
    partitions.map(|name| make(name.clone(), Start::default())).collect()
}

/// The path under which a client of a settle call knows a field that only the core refuses. The core does not say which
/// entry it stood in.
pub(crate) fn path_in_settle(field: &str) -> String {
    match field {
        "visibility_timeout" => "extends[].visibility_timeout".to_owned(),
        "data" | "delay" | "ttl" => format!("sends[].{field}"),
        other => other.to_owned(),
    }
}

/// The leases to answer as stale: those that the core lists and those that it never saw. `stale` are its leases in
/// request order; a lease that was named twice is taken to be stale where it stood last.
pub(crate) fn stale_of(leases: Vec<LeaseId>, stale: &[Stale]) -> Vec<LeaseId> {
    let mut rest = stale;
    let mut answer: Vec<LeaseId> = leases
        .into_iter()
        .rev()
        .filter(|id| match (lease_ref(id), rest.split_last()) {
            (None, _) => true,
            (Some(lease), Some((last, before))) if lease == last.lease => {
                rest = before;
                true
            }
            (Some(_), _) => false,
        })
        .collect();
    answer.reverse();
    answer
}

fn lease_ref(id: &LeaseId) -> Option<LeaseRef> {
    let message: MessageId = id.message_id.parse().ok()?;
    let generation = LeaseGeneration(id.lease_generation);
    let delivery = id.delivery.map_or(message.sequence, Sequence);
    Some(LeaseRef { delivery, message, generation })
}

#[cfg(test)]
mod tests {
    use millpond_core::outcome::WhyStale;
    use millpond_core::time::Timestamp;

    use super::*;

    fn lease(number: u64) -> LeaseRef {
        let message = MessageId { sent_at: Timestamp::from_millis(1), sequence: Sequence(number), nonce: 7 };
        LeaseRef { delivery: message.sequence, message, generation: LeaseGeneration(number) }
    }

    fn stale(number: u64) -> Stale {
        Stale { lease: lease(number), why: WhyStale::Over }
    }

    fn id(number: u64) -> LeaseId {
        LeaseId { message_id: lease(number).message.to_string(), lease_generation: number, delivery: None }
    }

    fn unknown() -> LeaseId {
        LeaseId { message_id: "nothing".to_owned(), lease_generation: 0, delivery: None }
    }

    #[test]
    fn what_is_no_message_id_is_stale_in_its_place() {
        let leases = vec![unknown(), id(1), unknown(), id(2), id(3)];
        assert_eq!(settlements("q", &leases, SettleAction::Ack).len(), 3);
        assert_eq!(stale_of(leases.clone(), &[stale(2)]), [unknown(), unknown(), id(2)]);
        assert_eq!(stale_of(leases, &[]), [unknown(), unknown()]);
    }

    #[test]
    fn a_lease_named_twice_is_listed_as_often_as_the_core_says() {
        let leases = vec![id(1), unknown(), id(1)];
        assert_eq!(stale_of(leases.clone(), &[stale(1)]), [unknown(), id(1)]);
        assert_eq!(stale_of(leases.clone(), &[stale(1), stale(1)]), leases);
    }
}
