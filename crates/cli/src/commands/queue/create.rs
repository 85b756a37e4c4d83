//! `millpond queue create`.

use clap::Args;
use millpond_client::NewQueue;
use serde_json::Map;

use super::{apply_all, spec_of};
use crate::commands::Common;
use crate::exit::{Exit, Failure, Outcome};
use crate::value::{self, Assignment};

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its id: 1 to 63 of a-z, 0-9 and -
    queue: String,

    /// A policy, as visibility_timeout=30s, max_deliveries=5 or backoff.initial=1s (docs/queues.md); can be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = value::assignment)]
    set: Vec<Assignment>,

    /// A label, for selecting; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = value::pair)]
    labels: Vec<(String, String)>,

    /// A note for tools; can be repeated
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = value::pair)]
    annotations: Vec<(String, String)>,

    /// A name for people
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,

    /// Check everything and make nothing
    #[arg(long)]
    validate_only: bool,

    #[command(flatten)]
    common: Common,
}

impl Create {
    pub(super) async fn run(&self) -> Outcome {
        let mut spec = Map::new();
        apply_all(&self.set, &mut spec);
        let new = NewQueue {
            id: self.queue.clone(),
            spec: spec_of(spec)?,
            display_name: self.display_name.clone(),
            labels: self.labels.iter().cloned().collect(),
            annotations: self.annotations.iter().cloned().collect(),
            validate_only: self.validate_only,
        };
        let made = self.common.client()?.create_queue(&new).await;
        let made = made.map_err(|error| Failure::call(&format!("make queue {}", self.queue), &error))?;
        let done = if self.validate_only { "could make" } else { "made" };
        self.common.format.show(&made, || format!("{done} queue {}", made.id()))?;
        Ok(Exit::Done)
    }
}
