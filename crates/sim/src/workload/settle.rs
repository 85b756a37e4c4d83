//! Ends and extends leases, and sends along with it.

use std::time::Duration;

use millpond_core::command::{Holder, Require, Settle, SettleAction, Settlement};
use millpond_core::id::MessageId;
use millpond_core::limits::{DELAY_MAX, LEASE_MAX, LEASE_MIN};
use millpond_core::outcome::Sent;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, Rejection};

use super::{Hand, Scene, send};
use crate::auditor::{Answered, Auditor, Hold, Life, Verdict, demand};
use crate::names::{Kind, id_of, kind_of};
use crate::random::Random;

fn draw_action(random: &mut Random) -> SettleAction {
    match random.below(100) {
        0..38 => SettleAction::Ack,
        38..58 => SettleAction::Reserve,
        58..65 => SettleAction::EndCall,
        65..68 => SettleAction::Extend(Some(random.millis(1_000, 20_000))),
        // Beyond the end of a message that does not live for long.
        68..72 => SettleAction::Extend(Some(random.millis(20_000, 4_000_000))),
        72..74 => SettleAction::Extend(None),
        74..86 => SettleAction::Nack(None),
        86..97 => SettleAction::Nack(Some(random.millis(0, 5_000))),
        97 => SettleAction::Extend(Some(LEASE_MAX)),
        98 => SettleAction::Extend(Some(Duration::ZERO)),
        _ => SettleAction::Nack(Some(DELAY_MAX + LEASE_MIN)),
    }
}

/// Whether the work on a message of a topic fails for ever.
pub fn is_poisoned(auditor: &Auditor, message: &MessageId) -> bool {
    let Some((token, known)) = auditor.by_id.get(message).zip(auditor.message(message)) else { return false };
    token % 100 == 7 && auditor.queues.get(&known.queue).is_some_and(|log| log.role.is_log())
}

/// What a holder says beside its lease, and where it took it from; now and then not the truth.
fn draw_holder(scene: &mut Scene<'_>, hand: &mut Hand) -> Holder {
    if kind_of(&hand.queue) != Kind::Group && !scene.random.chance(5) {
        return Holder::default();
    }
    let log = scene.auditor.message(&hand.lease.message);
    let log = log.and_then(|message| scene.auditor.queues.get(&message.queue));
    let own = log.filter(|log| kind_of(&log.name) == Kind::Partition).map(|log| id_of(&log.name).into());
    let partition = match scene.random.below(100) {
        0..12 => own,
        12..15 => Some(scene.partition_id().into()),
        _ => None,
    };
    match scene.random.below(100) {
        0..3 => hand.queue = scene.anything(),
        3 => hand.lease.delivery = hand.lease.message.sequence,
        _ => {}
    }
    // A clock of its own.
    let asked_at = scene.random.chance(250).then(|| Timestamp::ZERO.plus(scene.random.millis(0, 6)));
    Holder { asked_at, partition }
}

/// A lease of a group that was acked lately: who did not hear that its ack came asks again.
fn last_acked(scene: &Scene<'_>) -> Option<Hand> {
    let is_acked = |hand: &&Hand| {
        let reader = scene.auditor.reader_named(&hand.queue);
        let own = scene.auditor.delivery(reader, &hand.lease.message).filter(|_| reader.is_some());
        own.is_some_and(|own| own.life == Life::Acked)
    };
    scene.workload.retired.iter().rev().take(40).find(is_acked).cloned()
}

/// One of the last leases of groups.
fn fresh_of_group(scene: &mut Scene<'_>) -> Option<Hand> {
    let of_group = |hand: &&Hand| kind_of(&hand.queue) == Kind::Group;
    let hands: Vec<&Hand> = scene.workload.hands.iter().rev().filter(of_group).take(3).collect();
    scene.random.pick(&hands).map(|hand| (*hand).clone())
}

/// A lease that was extended or reserved.
fn not_as_granted(scene: &mut Scene<'_>) -> Option<Hand> {
    let auditor = scene.auditor;
    let is_other = |hand: &&Hand| {
        let own = auditor.delivery(auditor.reader_named(&hand.queue), &hand.lease.message);
        let grant = own.and_then(|own| own.grants.get(&hand.lease.generation));
        grant.is_some_and(|grant| matches!(grant.hold, Hold::Extended | Hold::Reserved))
    };
    let hands: Vec<&Hand> = scene.workload.hands.iter().rev().filter(is_other).take(6).collect();
    scene.random.pick(&hands).map(|hand| (*hand).clone())
}

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let count = if scene.random.chance(300) { scene.random.size(2, 5) } else { 1 };
    let mut settlements: Vec<Settlement> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut action = draw_action(scene.random);
        let keep = matches!(action, SettleAction::Extend(_) | SettleAction::Reserve);
        let mut known = scene.workload.draw_hand(scene.random, keep);
        if action == SettleAction::EndCall && scene.random.chance(700) {
            known = not_as_granted(scene).or(known);
        }
        if action == SettleAction::Reserve && scene.random.chance(800) {
            known = fresh_of_group(scene).or(known);
        }
        let of_group = known.as_ref().is_some_and(|hand| kind_of(&hand.queue) == Kind::Group);
        if action == SettleAction::Reserve && !of_group && !scene.random.chance(30) {
            action = SettleAction::Extend(None);
        }
        let again = if scene.random.chance(60) { last_acked(scene) } else { None };
        if again.is_some() {
            action = SettleAction::Ack;
        }
        let Some(mut hand) = again.or(known) else { continue };
        if action == SettleAction::Ack && is_poisoned(scene.auditor, &hand.lease.message) {
            action = SettleAction::Nack(None);
        }
        let holder = draw_holder(scene, &mut hand);
        let again = settlements.iter().any(|settlement| settlement.lease == hand.lease);
        if !again {
            settlements.push(Settlement { queue: hand.queue, lease: hand.lease, action, holder });
        }
    }
    let sends = if scene.random.chance(250) { scene.random.size(1, 2) } else { 0 };
    Command::Settle(Settle {
        settlements,
        sends: (0..sends).map(|_| send::draw(scene)).collect(),
        require: if scene.random.chance(300) { Require::All } else { Require::Fresh },
    })
}

fn takes_settlements(name: &str) -> bool {
    matches!(kind_of(name), Kind::Group | Kind::Queue)
}

fn is_valid(settle: &Settle) -> bool {
    let in_range = |settlement: &Settlement| match settlement.action {
        SettleAction::Ack
        | SettleAction::EndCall
        | SettleAction::Extend(None)
        | SettleAction::Nack(None)
        | SettleAction::Reserve => true,
        SettleAction::Extend(Some(timeout)) => (LEASE_MIN..=LEASE_MAX).contains(&timeout),
        SettleAction::Nack(Some(delay)) => delay <= DELAY_MAX,
    };
    !(settle.settlements.is_empty() && settle.sends.is_empty()) && settle.settlements.iter().all(in_range)
}

pub(super) fn predict(auditor: &mut Auditor, settle: &Settle, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Settled { stale, sent } => {
            demand!(is_valid(settle), "{settle:?} was taken");
            let whole = settle.require == Require::All || !settle.sends.is_empty();
            demand!(!whole || stale.is_empty(), "{settle:?} was carried out in part, stale: {stale:?}");
            for (at, settlement) in settle.settlements.iter().enumerate() {
                // A lease that is named again in the same call is settled once.
                if settle.settlements.get(..at).is_some_and(|before| before.contains(settlement)) {
                    continue;
                }
                demand!(
                    auditor.queue(&settlement.queue).is_some() && takes_settlements(&settlement.queue),
                    "a lease of {} was settled, which is not there",
                    settlement.queue
                );
                if let Some(stale) = stale.iter().find(|stale| stale.lease == settlement.lease) {
                    auditor.check_stale(settlement, Some(stale.why), answered)?;
                } else {
                    auditor.settled(settlement, answered)?;
                }
            }
            predict_sends(auditor, settle, sent, answered)
        }
        Outcome::Rejected(rejection) => predict_refusal(auditor, settle, rejection, answered),
        _ => answered.out_of_place(),
    }
}

fn predict_sends(auditor: &mut Auditor, settle: &Settle, sent: &[Sent], answered: &Answered<'_>) -> Verdict {
    demand!(sent.len() == settle.sends.len(), "{} of {} sends answered", sent.len(), settle.sends.len());
    for (send, sent) in settle.sends.iter().zip(sent) {
        demand!(send::is_valid(auditor, send), "{send:?} was taken");
        auditor.send_answered(send, sent, answered)?;
    }
    Ok(())
}

fn predict_refusal(
    auditor: &Auditor,
    settle: &Settle,
    rejection: &Rejection,
    answered: &Answered<'_>,
) -> Verdict {
    let by_send = settle.sends.iter().any(|send| send::may_be_refused(auditor, send, rejection, answered));
    let allowed = match rejection {
        Rejection::LeaseStale { stale } => {
            for settlement in settle.settlements.iter().filter(|one| stale.contains(&one.lease)) {
                auditor.check_stale(settlement, None, answered)?;
            }
            !stale.is_empty() && (settle.require == Require::All || !settle.sends.is_empty())
        }
        Rejection::ByteLimit { .. } | Rejection::MessageLimit { .. } => {
            auditor.may_exceed(&settle.sends, rejection)
        }
        Rejection::BeyondExpiry { .. } => {
            auditor.may_be_beyond_expiry(&settle.settlements, rejection, answered)
        }
        Rejection::Unsuited { name, .. } => {
            let reserves =
                |one: &Settlement| one.action == SettleAction::Reserve && kind_of(name) == Kind::Queue;
            let odd = |one: &Settlement| one.queue == *name && (!takes_settlements(name) || reserves(one));
            by_send || settle.settlements.iter().any(odd)
        }
        Rejection::QueueNotFound { name } => auditor.queue(name).is_none(),
        Rejection::OutOfRange { field, .. } => {
            // An extension beyond the longest hold depends on the time of the grant.
            let extends =
                |one: &Settlement| matches!(one.action, SettleAction::Extend(None | Some(LEASE_MAX)));
            let far = *field == "visibility_timeout" && settle.settlements.iter().any(extends);
            far || !is_valid(settle) || by_send
        }
        Rejection::IdempotencyKeyReused { key } => {
            let alike = |send: &&millpond_core::command::Send| {
                send.idempotency.as_ref().is_some_and(|idempotency| idempotency.key == *key)
            };
            by_send || settle.sends.iter().filter(alike).count() > 1
        }
        Rejection::DedupLimit { limit } => {
            let keyed = settle.sends.iter().filter(|send| send.idempotency.is_some()).count();
            let known = auditor.dedup.len() + auditor.calls.len();
            keyed > 0 && known + keyed > usize::try_from(*limit).unwrap_or(usize::MAX)
        }
        _ => by_send,
    };
    demand!(allowed, "{settle:?} was refused: {rejection:?}");
    Ok(())
}
