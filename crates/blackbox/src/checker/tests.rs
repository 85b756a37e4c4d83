//! The checker has to find each kind of breach in a journal that is broken on purpose, and nothing in a good one.

use super::*;
use crate::client::Lease;

const SECOND: Duration = Duration::from_secs(1);

fn lease(generation: u64) -> Lease {
    Lease { message_id: "m1".to_owned(), generation }
}

/// One record every 10 ms.
fn check_all(whats: &[What]) -> (Totals, Vec<Breach>) {
    let at = |index: usize| Duration::from_millis(10) * u32::try_from(index).expect("few") + SECOND;
    let records = whats.iter().enumerate().map(|(index, what)| Record { at: at(index), what: what.clone() });
    check(&records.collect::<Vec<_>>())
}

fn breaches(whats: &[What]) -> Vec<Breach> {
    check_all(whats).1
}

fn send() -> [What; 2] {
    let tag = || "t1".to_owned();
    [What::SendBegun { tag: tag() }, What::Sent { tag: tag(), message_id: "m1".to_owned() }]
}

fn leased_for(generation: u64, held_until: Duration) -> What {
    What::Leased { tag: "t1".to_owned(), lease: lease(generation), held_until }
}

fn leased(generation: u64) -> What {
    leased_for(generation, Duration::ZERO)
}

fn begun(settle: Settle, generation: u64) -> What {
    What::SettleBegun { lease: lease(generation), settle }
}

fn settled(settle: Settle, generation: u64, stale: bool) -> What {
    What::Settled { lease: lease(generation), settle, stale }
}

fn ack(generation: u64) -> [What; 2] {
    [begun(Settle::Ack, generation), settled(Settle::Ack, generation, false)]
}

#[test]
fn a_message_sent_leased_and_acked_is_no_breach() {
    let whats = [&send()[..], &[leased(1)], &ack(1)].concat();
    let totals = Totals { sent: 1, leased: 1, acked: 1, perhaps_acked: 0, stale: 0 };
    assert_eq!(check_all(&whats), (totals, Vec::new()));
}

#[test]
fn a_nacked_message_may_come_back_before_its_lease_would_have_ended() {
    let nack = [begun(Settle::Nack, 1), settled(Settle::Nack, 1, false)];
    let whats =
        [&send()[..], &[leased_for(1, 30 * SECOND)], &nack, &[leased_for(2, 30 * SECOND)], &ack(2)].concat();
    assert_eq!(breaches(&whats), []);
}

#[test]
fn an_unanswered_ack_may_have_happened_or_not() {
    let twice = [begun(Settle::Ack, 1), begun(Settle::Ack, 1), settled(Settle::Ack, 1, true)];
    let gone = [&send()[..], &[leased(1)], &twice].concat();
    let (totals, found) = check_all(&gone);
    assert_eq!((totals.perhaps_acked, totals.stale, found), (1, 1, Vec::new()));
    let back = [&gone[..], &[leased(2)], &ack(2)].concat();
    assert_eq!(breaches(&back), []);
}

#[test]
fn a_send_without_an_answer_owes_nothing() {
    assert_eq!(breaches(&send()[..1]), []);
}

#[test]
fn canary_a_lost_send_is_found() {
    let lost = [Breach::Lost { tag: "t1".to_owned(), message_id: "m1".to_owned() }];
    assert_eq!(breaches(&send()), lost);
    let stale = [begun(Settle::Ack, 1), settled(Settle::Ack, 1, true)];
    assert_eq!(breaches(&[&send()[..], &[leased(1)], &stale].concat()), lost);
}

#[test]
fn canary_an_acked_message_that_is_delivered_again_is_found() {
    let whats = [&send()[..], &[leased(1)], &ack(1), &[leased(2)]].concat();
    assert_eq!(breaches(&whats), [Breach::CameBack { message_id: "m1".to_owned(), acked: 1, leased: 2 }]);
}

#[test]
fn canary_an_ack_under_two_leases_is_found() {
    let whats = [&send()[..], &[leased(1), leased(2)], &ack(2), &ack(1)].concat();
    let found = breaches(&whats);
    assert!(
        found.contains(&Breach::AckedTwice { message_id: "m1".to_owned(), generations: [1, 2] }),
        "{found:?}"
    );
}

#[test]
fn canary_a_message_held_by_two_is_found() {
    let whats = [&send()[..], &[leased_for(1, 30 * SECOND), leased_for(2, 30 * SECOND)], &ack(2)].concat();
    assert_eq!(breaches(&whats), [Breach::HeldTwice { message_id: "m1".to_owned(), generations: [1, 2] }]);
}

#[test]
fn canary_a_generation_given_twice_is_found() {
    let whats = [&send()[..], &[leased(1), leased(1)], &ack(1)].concat();
    assert_eq!(breaches(&whats), [Breach::GenerationReused { message_id: "m1".to_owned(), generation: 1 }]);
}

#[test]
fn canary_a_send_stored_twice_is_found() {
    let again = What::Leased {
        tag: "t1".to_owned(),
        lease: Lease { message_id: "m2".to_owned(), generation: 1 },
        held_until: Duration::ZERO,
    };
    let found = breaches(&[&send()[..], &[leased(1)], &ack(1), &[again]].concat());
    assert!(
        matches!(&found[..], [Breach::SentTwice { message_ids, .. }] if message_ids.len() == 2),
        "{found:?}"
    );
}

#[test]
fn canary_a_message_that_nobody_sent_is_found() {
    assert_eq!(breaches(&[leased(1)]), [Breach::Phantom { tag: "t1".to_owned() }]);
}
