//! The right to write one environment: one transaction a change set, and what becomes of it when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond_core::ChangeSet;
use millpond_core::id::{CommitSequence, Incarnation};
use millpond_store::{Resolution, Store, StoreError, StoreErrorKind, StoreReader, StoreStats};

use crate::external::{Claims, LowWater};
use crate::factory::{OpenStore, Place};
use crate::lineage::Seen;
use crate::reader::PostgresReader;
use crate::session::Session;
use crate::write::{self, Beside};

/// The owner of one environment.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    place: Arc<Place>,
    environment: i32,
    epoch: i64,
    /// The hold of the server's place under which it was opened.
    hold: u64,
    /// The last commit that is known to be durable.
    durable: Arc<AtomicU64>,
    low_water: Arc<LowWater>,
    claims: Arc<Claims>,
    /// A commit whose outcome is unknown; nothing is written before it is resolved.
    unresolved: Option<CommitSequence>,
    /// Its number was asked for, and what became of that is not known either.
    claim_sent: bool,
    /// Whether the database knows the environment as one that is being imported; none: that was not looked at.
    importing: Option<bool>,
    /// Last, so that all is over when the place learns of it.
    open: OpenStore,
}

impl PostgresStore {
    pub(crate) fn new(open: OpenStore, environment: i32, seen: Seen, hold: u64) -> Self {
        Self {
            place: Arc::clone(&open.place),
            environment,
            epoch: seen.epoch,
            hold,
            durable: Arc::new(AtomicU64::new(seen.commit.0)),
            low_water: Arc::default(),
            claims: Arc::default(),
            unresolved: None,
            claim_sent: false,
            importing: None,
            open,
        }
    }

    fn note_durable(&self, commit: CommitSequence) {
        self.durable.store(commit.0, Ordering::Release);
        self.open.note(Seen { epoch: self.epoch, commit });
    }

    fn check_hold(&self) -> Result<(), StoreError> {
        match self.place.presence.hold() {
            Some(hold) if hold == self.hold => Ok(()),
            Some(_) => Err(StoreError::new(StoreErrorKind::Fenced, "another server was here since")),
            None => Err(StoreError::new(StoreErrorKind::Unavailable, "this server's place is not held")),
        }
    }
}

impl Store for PostgresStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        if let Some(commit) = self.unresolved {
            let context = format!("commit {commit} has to be resolved first");
            return Err(StoreError::new(StoreErrorKind::Unavailable, context));
        }
        self.check_hold()?;
        let importing = Some(changes.environment.incarnation == Incarnation::IMPORTING);
        let beside = Beside {
            intake_floor: self.low_water.to_store(self.place.watcher.floor(), &changes.external_taken),
            importing: importing.filter(|_| self.importing != importing),
        };
        let mut session = self.place.pool.take()?;
        let result = write::commit(&mut session, self.environment, self.epoch, changes, beside);
        match &result {
            Ok(()) => {
                self.importing = importing;
                self.place.pool.give(session);
                self.place.upkeep.note(changes);
                self.note_durable(changes.commit);
            }
            Err(error) => match error.kind {
                StoreErrorKind::Unknown => self.unresolved = Some(changes.commit),
                // Who is fenced may have talked to a database that is not served any more.
                StoreErrorKind::Fenced | StoreErrorKind::Unavailable => self.place.pool.forget_free(),
                StoreErrorKind::Full => self.place.note_full(),
                _ => self.place.pool.give(session),
            },
        }
        result
    }

    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
        self.check_hold()?;
        // The connections that are free may be of a server that is gone.
        self.place.pool.forget_free();
        let session = self.place.pool.connect()?;
        let was_sent = std::mem::replace(&mut self.claim_sent, true);
        let resolution = claim_number(&session, self.environment, self.epoch, commit)?;
        self.place.pool.give(session);
        if was_sent && resolution == Resolution::Happened {
            // The number may be taken by the claim before, whose answer was lost.
            let context = format!("commit {commit} was asked for twice");
            return Err(StoreError::new(StoreErrorKind::Unknown, context));
        }
        (self.unresolved, self.claim_sent) = (None, false);
        self.note_durable(commit);
        Ok(resolution)
    }

    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(PostgresReader::new(
            Arc::clone(&self.place),
            (self.environment, self.epoch),
            Arc::clone(&self.durable),
            Arc::clone(&self.low_water),
            Arc::clone(&self.claims),
        )))
    }

    fn stats(&mut self) -> Result<StoreStats, StoreError> {
        self.place.stats()
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// `Lost` if the number was free and is now taken, `Happened` if this owner's commit has it. The first statement waits for a
/// transaction under way that takes the number.
fn claim_number(
    session: &Session,
    environment: i32,
    epoch: i64,
    commit: CommitSequence,
) -> Result<Resolution, StoreError> {
    let context = "claiming a number";
    let number = commit.0.cast_signed();
    let sql = "update head set commit_seq = $3 where environment = $1 and epoch = $2 and commit_seq = $3::bigint - 1 returning 1";
    if !session.query(sql, &[&environment, &epoch, &number], context)?.is_empty() {
        return Ok(Resolution::Lost);
    }
    // A write, so that it waits for whoever the commit has to wait for: what is there is not yet what a failover keeps.
    let sql =
        "update head set epoch = $2 where environment = $1 and epoch = $2 and commit_seq = $3 returning 1";
    session.take_warning();
    let found = session.query(sql, &[&environment, &epoch, &number], context)?;
    if !found.is_empty() && session.take_warning() {
        let context = format!("commit {commit} is there, but the database warns that a failover may lose it");
        return Err(StoreError::new(StoreErrorKind::Unknown, context));
    }
    if !found.is_empty() {
        return Ok(Resolution::Happened);
    }
    let context = format!("commit {commit} of epoch {epoch} is not what is stored");
    Err(StoreError::new(StoreErrorKind::Fenced, context))
}
