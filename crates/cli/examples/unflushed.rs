//! `millpond` without a single flush: the same command, the same server, on a store with `synchronous=OFF`.
//!
//! It exists to be caught: the test of the real binary that looks for a flush before each answer has to fail on it. An
//! example, so that no feature or flag of the product can turn flushing off.

#[path = "../src/descriptors.rs"]
mod descriptors;
#[path = "../src/log.rs"]
mod log;
#[path = "../src/serve.rs"]
mod serve;
#[path = "../src/serve_arguments.rs"]
mod serve_arguments;

use clap::Parser;

use serve_arguments::ServeArguments;

#[derive(Parser)]
enum Arguments {
    Serve(ServeArguments),
}

fn main() -> anyhow::Result<()> {
    let Arguments::Serve(arguments) = Arguments::parse();
    serve::run(arguments)
}

mod wiring {
    //! In the place of the product's wiring.

    use std::sync::Arc;

    use millpond_engine::clock::{Clock, SystemClock};
    use millpond_server::Settings;
    use millpond_store::{StoreError, StoreFactory};
    use millpond_store_sqlite::{SqliteFactory, SqliteSettings, Synchronous};

    pub(crate) struct Opened {
        pub(crate) factory: Arc<dyn StoreFactory>,
        pub(crate) clock: Arc<dyn Clock>,
        pub(crate) place: String,
    }

    pub(crate) fn open_store(settings: &Settings) -> Result<Opened, StoreError> {
        let sqlite = SqliteSettings { synchronous: Synchronous::Off, ..SqliteSettings::default() };
        Ok(Opened {
            factory: Arc::new(SqliteFactory::open(&settings.data_dir, sqlite)?),
            clock: Arc::new(SystemClock::default()),
            place: settings.data_dir.display().to_string(),
        })
    }
}
