//! `millpond queue update`: reads the queue, changes what was named, and writes it if nobody else has changed it since.

use clap::Args;
use millpond_client::{Client, Error, Queue};

use crate::commands::policies::Changed;
use crate::commands::{Common, retry};
use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Id or name of the queue
    queue: String,

    #[command(flatten)]
    changed: Changed,

    #[command(flatten)]
    common: Common,
}

impl Update {
    pub(super) async fn run(&self) -> Outcome {
        let what = format!("update queue {}", self.queue);
        self.changed.check(&what, "max_deliveries=10")?;
        let client = self.common.client()?;
        let updated = retry(&self.changed, async || self.try_once(&client).await).await?;
        let updated = updated.map_err(|error| Failure::call(&what, &error))?;
        self.common.format.show(&updated, || format!("{} queue {}", self.changed.done(), updated.id()))?;
        Ok(Exit::Done)
    }

    async fn try_once(&self, client: &Client) -> Outcome<Result<Queue, Error>> {
        let current = match client.get_queue(&self.queue).await {
            Ok(current) => current,
            Err(error) => return Ok(Err(error)),
        };
        let update = self.changed.of(&current.spec, &current.meta)?;
        Ok(client.update_queue(&self.queue, &update).await)
    }
}
