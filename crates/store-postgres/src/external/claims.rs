//! The owner's claims on leases that SQL may end (design-holes A5): whoever stores the key of a lease first ends it.
//!
//! What an open transaction holds shows only to who waits for it. So a claim waits a moment and no longer: first for all keys at once,
//! then for each of them, within a time that one call may take. What was not come to in that time is answered as held, which is always
//! safe: it is asked for again in a second. Keys that were found to be held come last, so that no number of them keeps others waiting.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millpond_core::id::{LeaseGeneration, Sequence};
use millpond_core::{Claim, LeaseKey};
use millpond_store::{StoreError, StoreErrorKind};
use tokio_postgres::error::SqlState;

use crate::keyed::lookup;
use crate::row::{get, unsigned};
use crate::session::Session;

/// Only of leases that are held: a key of another would stay for ever.
pub(crate) const CLAIM: &str = concat!(
    "insert into settlement (environment, delivery, generation, owner) select $1, n.delivery, n.generation, true from ",
    lookup!(
        "unnest($2::bigint[], $3::bigint[]) n(delivery, generation)",
        "delivery",
        "t.sequence = n.delivery"
    ),
    " where t.state = 2 and t.lease_generation = n.generation and (select h.epoch from head h where h.environment = $1 order by h.commit_seq desc limit 1) = $4 \
     on conflict do nothing"
);
/// The same key by key; answers the places of those that are held.
const CLAIM_EACH: &str = "select claim_each($1, $2, $3, $4)";
pub(crate) const CLAIMED: &str = "select n.delivery, n.generation, \
     coalesce((select s.owner from settlement s where s.environment = $1 and s.delivery = n.delivery \
     and s.generation = n.generation), true), (select h.epoch from head h where h.environment = $1 \
     order by h.commit_seq desc limit 1) from unnest($2::bigint[], $3::bigint[]) n(delivery, generation)";

/// How long one call may try key by key.
const TIME: Duration = Duration::from_millis(200);
/// Keys of one transaction that tries key by key: each has a subtransaction, and of more the database keeps no list in memory.
const EACH_MOST: usize = 64;
/// Beyond so many, all that is known is forgotten: leases that end otherwise leave their keys behind.
const KNOWN_MOST: usize = 100_000;

/// What is known of leases of one environment that open transactions end.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: Mutex<HashSet<LeaseKey>>,
}

/// One call.
struct Call<'a> {
    session: &'a Session,
    environment: i32,
    epoch: i64,
    answers: HashMap<LeaseKey, Claim>,
}

impl Claims {
    /// Takes what is free of the right to end these leases. It takes a bounded time, however many of them are held.
    pub(crate) fn claim(
        &self,
        session: &Session,
        (environment, epoch): (i32, i64),
        keys: &[LeaseKey],
    ) -> Result<HashMap<LeaseKey, Claim>, StoreError> {
        let mut call = Call { session, environment, epoch, answers: HashMap::new() };
        let (mut last, mut first) = self.known(keys);
        fastrand::shuffle(&mut first);
        fastrand::shuffle(&mut last);
        if call.together(&first)? {
            first.clear();
        }
        let begun = Instant::now();
        for some in first.chunks(EACH_MOST).chain(last.chunks(EACH_MOST)) {
            if begun.elapsed() < TIME {
                self.note(some, &call.each(some)?);
            } else {
                call.answers.extend(some.iter().map(|key| (*key, Claim::Held)));
            }
        }
        Ok(call.answers)
    }

    /// Those that were found to be held, and the others.
    fn known(&self, keys: &[LeaseKey]) -> (Vec<LeaseKey>, Vec<LeaseKey>) {
        let held = self.lock();
        keys.iter().partition(|key| held.contains(key))
    }

    fn note(&self, keys: &[LeaseKey], found: &HashSet<LeaseKey>) {
        let mut held = self.lock();
        if held.len() > KNOWN_MOST {
            held.clear();
        }
        for key in keys {
            if found.contains(key) {
                held.insert(*key);
            } else {
                held.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<LeaseKey>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call<'_> {
    /// Claims all or nothing. `false`: one of them is held.
    fn together(&mut self, keys: &[LeaseKey]) -> Result<bool, StoreError> {
        if keys.is_empty() {
            return Ok(true);
        }
        let context = "claiming leases";
        let (deliveries, generations) = columns(keys);
        self.session.batch("begin; set local lock_timeout = '20ms'", context)?;
        let inserting = self.session.client();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&self.environment, &deliveries, &generations, &self.epoch];
        let inserted = self.session.run(inserting.execute(CLAIM, &values));
        match inserted {
            Some(Ok(_)) => self.session.batch("commit", context)?,
            Some(Err(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                self.session.batch("rollback", context)?;
                return Ok(false);
            }
            Some(Err(error)) => {
                // The error that counts is the one that led here.
                let _: Result<(), StoreError> = self.session.batch("rollback", context);
                return Err(crate::error::before_commit(context)(error));
            }
            None => {
                return Err(StoreError::new(StoreErrorKind::Unavailable, "claiming leases: no answer"));
            }
        }
        self.ask(keys)?;
        Ok(true)
    }

    /// Claims those that are free; answers those that are held.
    fn each(&mut self, keys: &[LeaseKey]) -> Result<HashSet<LeaseKey>, StoreError> {
        let (deliveries, generations) = columns(keys);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&self.environment, &deliveries, &generations, &self.epoch];
        let rows = self.session.query(CLAIM_EACH, &values, "claiming leases one by one")?;
        let mut held = HashSet::new();
        for row in &rows {
            let place = usize::try_from(get::<i32>(row, 0)?).ok().and_then(|place| place.checked_sub(1));
            held.extend(place.and_then(|place| keys.get(place)));
        }
        self.answers.extend(held.iter().map(|key| (*key, Claim::Held)));
        let others: Vec<_> = keys.iter().filter(|key| !held.contains(key)).copied().collect();
        self.ask(&others)?;
        Ok(held)
    }

    /// Whose these keys are, which nobody holds.
    fn ask(&mut self, keys: &[LeaseKey]) -> Result<(), StoreError> {
        let (deliveries, generations) = columns(keys);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&self.environment, &deliveries, &generations];
        for row in self.session.query(CLAIMED, &values, "claiming leases")? {
            if get::<i64>(&row, 3)? != self.epoch {
                return Err(StoreError::new(
                    StoreErrorKind::Fenced,
                    "leases are claimed by their owner alone",
                ));
            }
            let key = LeaseKey {
                delivery: Sequence(unsigned(&row, 0)?),
                generation: LeaseGeneration(unsigned(&row, 1)?),
            };
            self.answers.insert(key, if get(&row, 2)? { Claim::Free } else { Claim::Settled });
        }
        Ok(())
    }
}

fn columns(keys: &[LeaseKey]) -> (Vec<i64>, Vec<i64>) {
    keys.iter().map(|key| (key.delivery.0.cast_signed(), key.generation.0.cast_signed())).unzip()
}
