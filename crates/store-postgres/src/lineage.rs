//! Tells a restart from a restored copy (design-holes A3).
//!
//! What is not copied with a database: the cluster's system identifier, its timeline and the database's number. A dump that is
//! loaded gets another number, another cluster has another identifier. A raised timeline may be a failover, where everything
//! goes on, or a recovery to a point in time. A data directory that was put back under a running server looks the same; that
//! server remembers what it saw.

use millpond_core::id::CommitSequence;
use millpond_store::{Lineage, StoreError};

use crate::row::get;
use crate::session::Session;

/// Where a database is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) system: String,
    pub(crate) timeline: i64,
    pub(crate) database: u32,
}

/// What an owner saw last of an environment, while the process lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) epoch: i64,
    pub(crate) commit: CommitSequence,
}

/// What is stored of an environment before it is taken over.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) identity: Identity,
    pub(crate) epoch: i64,
    pub(crate) commit: CommitSequence,
}

impl Identity {
    /// Of the database that a session is connected to.
    pub(crate) fn of(session: &Session) -> Result<Self, StoreError> {
        let sql = "select (select system_identifier::text from pg_control_system()), \
                   ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint, \
                   (select oid from pg_database where datname = current_database())";
        let rows = session.query(sql, &[], "asking which database this is")?;
        match rows.first() {
            Some(row) => Ok(Self { system: get(row, 0)?, timeline: get(row, 1)?, database: get(row, 2)? }),
            None => Ok(Self::default()),
        }
    }
}

/// What an environment is. `lived_lately`: a server was there within the last minute, as this database knows.
pub(crate) fn judge(stored: &Stored, found: &Identity, seen: Option<Seen>, lived_lately: bool) -> Lineage {
    if stored.epoch == 0 {
        return Lineage::New;
    }
    let own = seen.filter(|seen| seen.epoch >= stored.epoch);
    if let Some(seen) = own {
        let went_back = seen.epoch > stored.epoch || seen.commit > stored.commit;
        return if went_back { Lineage::Restored } else { Lineage::Restarted };
    }
    let Identity { system, timeline, database } = &stored.identity;
    let same_place = *system == found.system && *database == found.database;
    if same_place && (*timeline == found.timeline || (*timeline < found.timeline && lived_lately)) {
        return Lineage::Restarted;
    }
    Lineage::Restored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(system: &str, timeline: i64, database: u32) -> Identity {
        Identity { system: system.to_owned(), timeline, database }
    }

    #[test]
    fn a_copy_elsewhere_is_a_restore_and_a_failover_is_not() {
        let stored = Stored { identity: identity("a", 3, 7), epoch: 5, commit: CommitSequence(9) };
        let judged = |found, lately| judge(&stored, &found, None, lately);
        assert_eq!(judged(identity("a", 3, 7), false), Lineage::Restarted);
        assert_eq!(judged(identity("a", 3, 8), true), Lineage::Restored);
        assert_eq!(judged(identity("b", 3, 7), true), Lineage::Restored);
        assert_eq!(judged(identity("a", 4, 7), true), Lineage::Restarted, "a failover");
        assert_eq!(judged(identity("a", 4, 7), false), Lineage::Restored, "a recovery to a point in time");
        assert_eq!(judged(identity("a", 2, 7), true), Lineage::Restored, "timelines only rise");
    }

    #[test]
    fn an_owner_that_lives_on_knows_better() {
        let found = identity("a", 4, 7);
        let stored =
            |epoch, commit| Stored { identity: identity("a", 3, 7), epoch, commit: CommitSequence(commit) };
        let seen = Some(Seen { epoch: 5, commit: CommitSequence(9) });
        let judged = |epoch, commit| judge(&stored(epoch, commit), &found, seen, false);
        assert_eq!(judged(5, 9), Lineage::Restarted);
        assert_eq!(judged(5, 10), Lineage::Restarted, "a commit whose answer was lost");
        assert_eq!(judged(5, 8), Lineage::Restored);
        assert_eq!(judged(4, 12), Lineage::Restored);
        assert_eq!(judged(6, 12), Lineage::Restored, "somebody else had it since: what is not copied tells");
        assert_eq!(judge(&stored(0, 0), &found, None, false), Lineage::New);
    }
}
