//! Power cuts under the real SQLite: what was answered is there afterwards (design-holes A1), a failed flush leaves an
//! outcome that can be resolved (A4), and a full disk still takes removals (B15).

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::{DeliveryState, Hold, TriggerRow};
use millpond_core::{ChangeSet, DeliveryChange};
use millpond_store::{Lineage, MemoryDisk, Opened, Resolution, StoreError, StoreErrorKind, StoreFactory};
use millpond_store_conformance::rows::{
    ENVIRONMENT, Owner, delivery, insert, insert_copy, odd_trigger, run, secret, segment, trigger,
};
use millpond_store_conformance::{Place, exercise};
use millpond_store_sqlite::power_cut::{Backup, Disk};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings, Synchronous};

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn settings(synchronous: Synchronous, checkpoint_bytes: u64) -> SqliteSettings {
    SqliteSettings { synchronous, checkpoint_wake_bytes: checkpoint_bytes, ..SqliteSettings::default() }
}

fn new_disk() -> Disk {
    Disk::new().expect("SQLite takes a file layer")
}

/// What was answered, and what was under way when the power went.
struct Played {
    disk: Disk,
    memory: MemoryDisk,
    under_way: Option<ChangeSet>,
}

/// Random sends, copies, changes and removals, with a segment, a run, triggers and a secret that tell the commit.
fn fill(random: &mut SplitMix, live: &mut Vec<u64>, next: &mut u64, changes: &mut ChangeSet) {
    let before = live.clone();
    for _ in 0..random.below(12) {
        *next += 1;
        live.push(*next);
        if !before.is_empty() && random.below(4) == 0 {
            let at = random.below(before.len() as u64);
            insert_copy(changes, before[usize::try_from(at).unwrap_or(0)], delivery(*next));
            continue;
        }
        insert(changes, delivery(*next));
        if let Some(message) = changes.messages.last_mut() {
            message.chunks = u32::from(random.below(3) == 0);
        }
    }
    let commit = changes.commit.0;
    changes.triggers_removed.push(format!("t-{}", commit.wrapping_sub(3)).into());
    changes.triggers_put.push(trigger(&format!("t-{commit}")));
    changes.triggers_put.push(TriggerRow { number: commit, ..odd_trigger("t") });
    changes.secret = random.below(4).eq(&0).then(|| secret(commit.cast_signed()));
    changes.segments_put.push(segment(1, *next));
    changes.runs_put.push(run(2, 1, changes.commit.0));
    let fresh = changes.messages.len() + changes.copies.len();
    let mut at = 0;
    while at + fresh < live.len() {
        match random.below(5) {
            0 => {
                let sequence = live.remove(at);
                changes.deliveries.push(DeliveryChange::Remove(Sequence(sequence)));
                continue;
            }
            1 => {
                let mut row = delivery(live[at]);
                row.state = DeliveryState::Leased;
                row.hold = if random.below(2) == 0 { Hold::Extended } else { Hold::Reserved };
                row.delivery_count = u32::try_from(random.below(1_000)).unwrap_or(0);
                changes.deliveries.push(DeliveryChange::Update(row));
            }
            _ => {}
        }
        at += 1;
    }
}

/// Commits to a disk and to memory beside it until the power goes in the middle of something.
fn play(seed: u64, synchronous: Synchronous, disk: Disk) -> Played {
    let mut random = SplitMix(seed);
    let memory = MemoryDisk::new();
    let checkpoint_bytes = [0, 20_000, 200_000, u64::MAX / 2][usize::try_from(random.below(4)).unwrap_or(0)];
    let factory = disk.factory(settings(synchronous, checkpoint_bytes)).expect("an empty disk works");
    let mut owner = Owner::open(&factory);
    let mut reference = Owner::open(&memory);
    let (mut live, mut next) = (Vec::new(), 0);
    let cut_at = disk.operations() + random.below(1_500);
    disk.fail_after(cut_at - disk.operations());
    let mut under_way = None;
    for _ in 0..10_000 {
        let mut made = ChangeSet::default();
        let result = owner.try_commit(|changes| {
            fill(&mut random, &mut live, &mut next, changes);
            made = changes.clone();
        });
        if let Err(error) = result {
            assert!(disk.has_failed(), "seed {seed}: only the power may fail: {error}");
            let expected = [StoreErrorKind::Unknown, StoreErrorKind::Unavailable];
            assert!(expected.contains(&error.kind), "seed {seed}: {error}: {:?}", error.source);
            if error.kind == StoreErrorKind::Unknown {
                under_way = Some(made);
            }
            break;
        }
        reference.commit(|changes| *changes = made);
    }
    assert!(disk.has_failed(), "seed {seed}: the power went");
    drop(owner);
    disk.power_cut(&mut || random.next());
    Played { disk, memory, under_way }
}

/// Everything that is stored, whatever it is called.
fn everything(owner: &mut Owner) -> String {
    let scan = millpond_core::Scan::Expiry { after: None, limit: usize::MAX };
    let deliveries = owner.scan(&scan).deliveries;
    let sequences: Vec<Sequence> = deliveries.iter().map(|row| row.sequence).collect();
    let contents = owner.reader.contents(&sequences).expect("reads work");
    let Opened { commit, segments, runs, triggers, secret, .. } = &owner.opened;
    // `Debug` of a secret tells little of it.
    let secret = (&secret.current, &secret.previous, secret.since);
    format!("{commit:?} {deliveries:?} {contents:?} {segments:?} {runs:?} {triggers:?} {secret:?}")
}

/// `Err`: what is stored afterwards is neither what was answered, nor that and the commit under way.
fn nothing_is_lost(played: &Played, synchronous: Synchronous) -> Result<Lineage, String> {
    let factory = played.disk.factory(settings(synchronous, 0)).map_err(|error| error.to_string())?;
    let (mut store, opened) = factory.open(ENVIRONMENT).map_err(|error| error.to_string())?;
    let reader = store.reader().map_err(|error| error.to_string())?;
    let lineage = opened.lineage;
    let mut owner = Owner { store, reader, commit: opened.commit.0, opened };
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| everything(&mut owner)))
        .map_err(|_| "it cannot be read".to_owned())?;
    let mut reference = Owner::open(&played.memory);
    if found == everything(&mut reference) {
        return Ok(lineage);
    }
    let Some(under_way) = &played.under_way else { return Err(format!("found {found}")) };
    let mut reference = Owner::open(&played.memory);
    reference.commit(|changes| *changes = under_way.clone());
    reference = Owner::open(&played.memory);
    let with_it = everything(&mut reference);
    if found == with_it { Ok(lineage) } else { Err(format!("found {found}")) }
}

#[test]
fn every_commit_that_was_answered_is_there_after_a_power_cut() {
    let (mut cut_in_commit, mut kept) = (0, 0);
    for seed in 0..300 {
        let played = play(seed, Synchronous::Full, new_disk());
        cut_in_commit += u32::from(played.under_way.is_some());
        match nothing_is_lost(&played, Synchronous::Full) {
            Ok(lineage) => assert_eq!(lineage, Lineage::Restarted, "seed {seed}: a cut is a restart"),
            Err(found) => panic!("seed {seed}: {found}"),
        }
        kept += u32::from(Owner::open(&played.memory).opened.commit.0 > 0);
    }
    assert!(cut_in_commit > 20, "cuts fall into commits too: {cut_in_commit}");
    assert!(kept > 200, "most runs answer something: {kept}");
}

#[test]
fn without_flushes_the_same_test_notices_the_loss() {
    let lost = (0..40).filter(|&seed| {
        let played = play(seed, Synchronous::Off, new_disk());
        !matches!(nothing_is_lost(&played, Synchronous::Off), Ok(Lineage::Restarted))
    });
    let lost = lost.count();
    assert!(lost > 20, "only {lost} of 40 cuts were noticed");
}

#[test]
fn the_power_may_go_at_any_moment_of_the_first_opening() {
    for operations in 0..200 {
        let disk = new_disk();
        disk.fail_after(operations);
        let open = || {
            let factory = disk.factory(SqliteSettings::default()).ok()?;
            let owner = factory.open(ENVIRONMENT).ok()?;
            Some((factory, owner))
        };
        let opened = open();
        let mut random = SplitMix(operations);
        drop(opened);
        disk.power_cut(&mut || random.next());
        let factory = disk.factory(SqliteSettings::default()).expect("what is half made is made again");
        let mut owner = Owner::open(&factory);
        owner.send([delivery(1)]);
        assert_eq!(owner.delivery(1), Some(delivery(1)), "cut after {operations} operations");
    }
}

fn open(disk: &Disk) -> (SqliteFactory, Owner) {
    let factory = disk.factory(SqliteSettings::default()).expect("the disk works");
    let owner = Owner::open(&factory);
    (factory, owner)
}

/// Opens, commits a little, and lets the flush of commit `number` fail.
fn fail_a_flush(disk: &Disk, random: &mut SplitMix) -> (SqliteFactory, Owner, CommitSequence) {
    let (factory, mut owner) = open(disk);
    for sequence in 1..=random.below(20) + 1 {
        owner.send([delivery(sequence)]);
    }
    disk.fail_flushes(1 + random.below(2));
    let error = owner.try_commit(|changes| insert(changes, delivery(100))).expect_err("the flush fails");
    assert_eq!(error.kind, StoreErrorKind::Unknown);
    let again = owner.try_commit(|changes| insert(changes, delivery(100)));
    assert!(again.is_err(), "nothing is written before it is resolved");
    let number = CommitSequence(owner.commit + 1);
    (factory, owner, number)
}

#[test]
fn a_failed_flush_is_unknown_until_it_is_resolved_and_stays_what_was_said() {
    for seed in 0..200 {
        let (disk, mut random) = (new_disk(), SplitMix(seed));
        let (_factory, Owner { mut store, reader, .. }, number) = fail_a_flush(&disk, &mut random);
        let _reader = random.below(2).eq(&0).then_some(reader);
        let resolution = loop {
            match store.resolve(number) {
                Ok(resolution) => break resolution,
                Err(error) => assert_eq!(error.kind, StoreErrorKind::Unknown, "seed {seed}: {error}"),
            }
        };
        drop(store);
        disk.power_cut(&mut || random.next());
        let (_factory, mut owner) = open(&disk);
        assert_eq!(owner.opened.commit, number, "seed {seed}: the number is spent");
        assert_eq!(owner.delivery(100).is_some(), resolution == Resolution::Happened, "seed {seed}");
        assert_eq!(owner.delivery(1), Some(delivery(1)), "seed {seed}");
    }
}

#[test]
fn who_opens_again_after_a_failed_flush_builds_on_what_is_durable() {
    for seed in 0..200 {
        let (disk, mut random) = (new_disk(), SplitMix(seed));
        let (factory, owner, _) = fail_a_flush(&disk, &mut random);
        disk.fail_flushes(0);
        drop(owner);
        let mut owner = Owner::open(&factory);
        let happened = owner.delivery(100).is_some();
        owner.send([delivery(200)]);
        owner.send([delivery(201)]);
        let last = owner.commit;
        drop((owner, factory));
        disk.power_cut(&mut || random.next());
        let (_factory, mut owner) = open(&disk);
        assert_eq!((owner.opened.commit.0, owner.delivery(100).is_some()), (last, happened), "seed {seed}");
        assert_eq!(owner.delivery(201), Some(delivery(201)), "seed {seed}");
    }
}

#[test]
fn nobody_builds_on_an_opening_whose_flush_failed() {
    for (seed, is_new) in (0..60).flat_map(|seed| [(seed, true), (seed, false)]) {
        let (disk, mut random) = (new_disk(), SplitMix(seed));
        let factory = disk.factory(SqliteSettings::default()).expect("the disk works");
        factory.create_environment(ENVIRONMENT).expect("it is made");
        if !is_new {
            Owner::open(&factory).send([delivery(1)]);
        }
        disk.fail_flushes(1 + random.below(4));
        while disk.failing_flushes() > 0 {
            // Each try meets one failing flush or more. In a new file SQLite makes up for some.
            let _: Result<_, StoreError> = factory.open(ENVIRONMENT);
        }
        let mut owner = Owner::open(&factory);
        owner.send([delivery(2)]);
        drop((owner, factory));
        disk.power_cut(&mut || random.next());
        let (_factory, mut owner) = open(&disk);
        assert_eq!(owner.delivery(2), Some(delivery(2)), "seed {seed}, new: {is_new}");
    }
}

#[test]
fn a_full_disk_refuses_sends_and_takes_removals_from_the_reserve() {
    let disk = new_disk();
    let (_factory, mut owner) = open(&disk);
    disk.set_reserve(1 << 20);
    disk.set_capacity(Some(disk.used_bytes() + (3 << 20)));
    assert!(!owner.store.stats().expect("it is open").space_low);
    let mut sent = 0;
    while !owner.store.stats().expect("it is open").space_low {
        let rows: Vec<_> = (sent + 1..=sent + 100).map(delivery).collect();
        owner.send(rows);
        sent += 100;
        assert!(sent < 1_000_000, "the disk must become full");
    }
    let last = owner.commit;
    owner.remove([1]);
    assert_eq!((owner.commit, owner.delivery(1)), (last + 1, None), "removals go on");

    // The engine stops sending when it is told; who goes on meets the end, and nothing of that commit is there.
    let error = loop {
        let rows: Vec<_> = (sent + 1..=sent + 100).map(delivery).collect();
        let result = owner.try_commit(|changes| rows.into_iter().for_each(|row| insert(changes, row)));
        match result {
            Ok(()) => sent += 100,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, StoreErrorKind::Full, "{:?}", error.source);
    assert_eq!(owner.delivery(sent + 1), None);
    disk.set_capacity(None);
    owner.send([delivery(sent + 1)]);
}

struct OnDisk(Disk, Option<Backup>);

impl Place for OnDisk {
    fn factory(&mut self) -> Box<dyn StoreFactory> {
        Box::new(self.0.factory(SqliteSettings::default()).expect("the disk works"))
    }

    fn back_up(&mut self) {
        self.1 = Some(self.0.back_up());
    }

    fn restore(&mut self) {
        self.0.restore(self.1.as_ref().expect("a backup was made"));
    }
}

#[test]
fn the_store_keeps_the_contract_over_this_disk_too() {
    let left_out = exercise(|| Box::new(OnDisk(new_disk(), None)));
    assert!(!left_out.is_empty(), "nobody writes beside the owner");
}
