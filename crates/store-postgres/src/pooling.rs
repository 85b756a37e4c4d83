//! A pooler between us and the database has to leave each of our connections its own: what is set, prepared and listened to on
//! one has to be there for its next transaction.

use millpond_store::{StoreError, StoreErrorKind};
use tokio_postgres::SimpleQueryMessage;

use crate::pool::Pool;
use crate::session::Session;

/// How often two connections are compared. A pooler gives the one that was just let go to who asks next; on a busy one others
/// may be faster, but not each time.
const ROUNDS: u32 = 8;

/// Refuses a pooler that gives each transaction whichever connection is free.
///
/// # Errors
/// `Unavailable`: two connections were seen on the same process of the server, or one on two; or there is no second one.
pub(crate) fn check_own_connections(pool: &Pool) -> Result<(), StoreError> {
    let one = pool.connect()?;
    let two = pool.connect_for(pool.settings().connect_timeout).map_err(|error| {
        let what = "a second connection cannot be had: the server needs a dozen, through a pooler (pool_size) as well";
        StoreError::new(error.kind, what).with_source(error)
    })?;
    let context = "comparing connections";
    let own = process_of(&one)?;
    for _ in 0..ROUNDS {
        two.batch("begin", context)?;
        let other = process_of(&two)?;
        two.batch("rollback", context)?;
        // Behind the transaction: there may be room for one only.
        if other == own || process_of(&one)? != own {
            let what = "the database is behind a pooler that shares connections between transactions, as PgBouncer does with \
                        pool_mode = transaction: use pool_mode = session for Millpond, or connect to the database itself";
            return Err(StoreError::new(StoreErrorKind::Unavailable, what));
        }
    }
    pool.give(one);
    Ok(())
}

/// Which process of the server answers. By text alone: what is prepared may be gone at the next statement.
fn process_of(session: &Session) -> Result<Option<String>, StoreError> {
    let answers = session
        .wait(session.client().simple_query("select pg_backend_pid()"), "asking which process answers")?;
    Ok(answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}
