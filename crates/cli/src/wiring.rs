//! Which store the server runs on. Nothing else in the workspace names a backend, tests apart.

use std::sync::Arc;

use millpond_server::Settings;
use millpond_store::{StoreError, StoreFactory};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};

pub(crate) fn open_store(settings: &Settings) -> Result<Arc<dyn StoreFactory>, StoreError> {
    let sqlite = SqliteSettings { assume_restart: settings.assume_restart, ..SqliteSettings::default() };
    Ok(Arc::new(SqliteFactory::open(&settings.data_dir, sqlite)?))
}
