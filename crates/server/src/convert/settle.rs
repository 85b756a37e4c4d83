//! Lease ids to settlements, and stale leases back in the order of the request.
//!
//! An id that is no message id names nothing that could be held: it is stale, and never gets to the core.

use millpond_api::settle::LeaseId;
use millpond_core::command::{LeaseRef, SettleAction, Settlement};
use millpond_core::id::LeaseGeneration;

/// What the core is asked to settle.
pub(crate) fn settlements(queue: &str, leases: &[LeaseId], action: SettleAction) -> Vec<Settlement> {
    let known = leases.iter().filter_map(lease_ref);
    known.map(|lease| Settlement { queue: queue.into(), lease, action }).collect()
}

/// The leases to answer as stale: those that the core lists and those that it never saw. `stale` are its leases in
/// request order; a lease that was named twice is taken to be stale where it stood last.
pub(crate) fn stale_of(leases: Vec<LeaseId>, stale: &[LeaseRef]) -> Vec<LeaseId> {
    let mut rest = stale;
    let mut answer: Vec<LeaseId> = leases
        .into_iter()
        .rev()
        .filter(|id| match (lease_ref(id), rest.split_last()) {
            (None, _) => true,
            (Some(lease), Some((last, before))) if lease == *last => {
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
    let message = id.message_id.parse().ok()?;
    Some(LeaseRef { message, generation: LeaseGeneration(id.lease_generation) })
}

#[cfg(test)]
mod tests {
    use millpond_core::id::{MessageId, Sequence};
    use millpond_core::time::Timestamp;

    use super::*;

    fn lease(number: u64) -> LeaseRef {
        let message = MessageId { sent_at: Timestamp::from_millis(1), sequence: Sequence(number), nonce: 7 };
        LeaseRef { message, generation: LeaseGeneration(number) }
    }

    fn id(number: u64) -> LeaseId {
        LeaseId { message_id: lease(number).message.to_string(), lease_generation: number }
    }

    fn unknown() -> LeaseId {
        LeaseId { message_id: "nothing".to_owned(), lease_generation: 0 }
    }

    #[test]
    fn what_is_no_message_id_is_stale_in_its_place() {
        let leases = vec![unknown(), id(1), unknown(), id(2), id(3)];
        assert_eq!(settlements("q", &leases, SettleAction::Ack).len(), 3);
        assert_eq!(stale_of(leases.clone(), &[lease(2)]), [unknown(), unknown(), id(2)]);
        assert_eq!(stale_of(leases, &[]), [unknown(), unknown()]);
    }

    #[test]
    fn a_lease_named_twice_is_listed_as_often_as_the_core_says() {
        let leases = vec![id(1), unknown(), id(1)];
        assert_eq!(stale_of(leases.clone(), &[lease(1)]), [unknown(), id(1)]);
        assert_eq!(stale_of(leases.clone(), &[lease(1), lease(1)]), leases);
    }
}
