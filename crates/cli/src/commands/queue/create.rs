//! `millpond queue create`.

use clap::Args;

use crate::commands::Common;
use crate::commands::policies::Made;
use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its id: 1 to 63 of a-z, 0-9 and -
    queue: String,

    #[command(flatten)]
    made: Made,

    #[command(flatten)]
    common: Common,
}

impl Create {
    pub(super) async fn run(&self) -> Outcome {
        let made = self.common.client()?.create_queue(&self.made.of(&self.queue)?).await;
        let made = made.map_err(|error| Failure::call(&format!("make queue {}", self.queue), &error))?;
        self.common.format.show(&made, || format!("{} queue {}", self.made.done(), made.id()))?;
        Ok(Exit::Done)
    }
}
