//! Takes one message of a topic by its id.

use std::time::Duration;

use millpond_core::command::{LeaseMessage, Reading};
use millpond_core::id::MessageId;
use millpond_core::limits::LEASE_MIN;
use millpond_core::{Command, Outcome, Rejection};

use super::{Scene, lease};
use crate::auditor::{Answered, Auditor, Ended, Hold, Verdict, demand};
use crate::names::{Kind, id_of, kind_of};

/// A message that a group has reserved lately, if there is one.
fn reserved(scene: &mut Scene<'_>) -> Option<(Box<str>, MessageId)> {
    let reserved = scene.auditor.progress.iter().filter_map(|((group, _), own)| {
        let last = own.grants.values().next_back()?;
        let open = last.hold == Hold::Reserved && last.ended == Ended::Open;
        open.then_some((last.hold_changed, *group, own.id))
    });
    let mut reserved: Vec<_> = reserved.collect();
    reserved.sort_unstable();
    let late = reserved.split_off(reserved.len().saturating_sub(2));
    let (_, group, id) = scene.random.pick(&late).copied()?;
    let group = scene.auditor.queues.get(&group).filter(|group| group.alive)?;
    Some((group.name.clone(), id))
}

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let reserved = reserved(scene).filter(|_| scene.random.chance(850));
    let (queue, message) = reserved.unwrap_or_else(|| {
        let queue = if scene.random.chance(20) { scene.anything() } else { scene.group() };
        let message = scene.message_for(&queue);
        (queue, message)
    });
    let mut reading = lease::draw_reading(scene, 0);
    if scene.random.chance(200) {
        // The partition that it is in, if it is in one.
        let known = scene.auditor.message(&message).and_then(|known| scene.auditor.queues.get(&known.queue));
        let known = known.filter(|log| kind_of(&log.name) == Kind::Partition);
        let right = known.map(|log| id_of(&log.name).into()).filter(|_| scene.random.chance(700));
        reading.partition = Some(right.unwrap_or_else(|| scene.partition_id().into()));
    }
    let random = &mut *scene.random;
    let timeout = if random.chance(20) { Duration::from_millis(500) } else { random.millis(1_000, 15_000) };
    let visibility_timeout = random.chance(500).then_some(timeout);
    Command::LeaseMessage(LeaseMessage { queue, message, visibility_timeout, reading })
}

fn is_valid(lease: &LeaseMessage) -> bool {
    let Reading { in_flight_max, .. } = lease.reading;
    lease.visibility_timeout.is_none_or(|timeout| timeout >= LEASE_MIN) && in_flight_max != Some(0)
}

pub(super) fn predict(auditor: &mut Auditor, lease: &LeaseMessage, answered: &Answered<'_>) -> Verdict {
    let name = &lease.queue;
    match answered.outcome {
        Outcome::Leased(grants) => {
            demand!(is_valid(lease) && kind_of(name) == Kind::Group, "{lease:?} was taken");
            auditor.taken(lease, grants, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(auditor.queue(name).is_none(), "{name} was not found");
            Ok(())
        }
        Outcome::Rejected(Rejection::Unsuited { .. }) => {
            demand!(kind_of(name) != Kind::Group, "{name} is called no group");
            Ok(())
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!is_valid(lease), "{field} of {lease:?} was refused");
            Ok(())
        }
        Outcome::Rejected(rejection) => auditor.not_taken(lease, rejection, answered),
        _ => answered.out_of_place(),
    }
}
