//! `millpond queue update`: reads the queue, changes what was named, and writes it if nobody else has changed it since.

use std::collections::BTreeMap;

use clap::Args;
use millpond_client::{Client, ErrorCode, Queue, QueueUpdate};
use serde_json::{Map, Value};

use super::spec_of;
use crate::commands::Common;
use crate::exit::{Exit, Failure, Outcome};
use crate::value::{self, Assignment};

/// Others may change the queue between read and write so many times.
const TRIES: u32 = 5;

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Id or name of the queue
    queue: String,

    /// A policy, as visibility_timeout=30s or backoff.initial=1s (docs/queues.md); can be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = value::assignment)]
    set: Vec<Assignment>,

    /// A policy that is to have its default again; can be repeated
    #[arg(long = "unset", value_name = "FIELD", value_parser = value::removal)]
    unset: Vec<Assignment>,

    /// A label to set; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = value::pair)]
    labels: Vec<(String, String)>,

    /// A label to take away; can be repeated
    #[arg(long = "unlabel", value_name = "KEY")]
    unlabel: Vec<String>,

    /// A name for people; empty takes it away
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,

    /// Only if the queue has this etag
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,

    /// Check everything and change nothing
    #[arg(long)]
    validate_only: bool,

    #[command(flatten)]
    common: Common,
}

impl Update {
    pub(super) async fn run(&self) -> Outcome {
        let what = format!("update queue {}", self.queue);
        let nothing = self.set.is_empty() && self.unset.is_empty() && self.labels.is_empty();
        if nothing && self.unlabel.is_empty() && self.display_name.is_none() {
            let failure = Failure::usage(format!("cannot {what}"), "nothing was named to change");
            return Err(failure.advise("name something, as with --set max_deliveries=10"));
        }
        let client = self.common.client()?;
        let mut tries = 0;
        let updated = loop {
            tries += 1;
            match self.try_once(&client).await? {
                Ok(updated) => break updated,
                Err(error) if error.code() == Some(&ErrorCode::EtagMismatch) && self.etag.is_none() => {
                    if tries == TRIES {
                        return Err(Failure::call(&what, &error));
                    }
                }
                Err(error) => return Err(Failure::call(&what, &error)),
            }
        };
        let done = if self.validate_only { "could update" } else { "updated" };
        self.common.format.show(&updated, || format!("{done} queue {}", updated.id()))?;
        Ok(Exit::Done)
    }

    async fn try_once(&self, client: &Client) -> Outcome<Result<Queue, millpond_client::Error>> {
        let current = match client.get_queue(&self.queue).await {
            Ok(current) => current,
            Err(error) => return Ok(Err(error)),
        };
        let update = self.change_of(&current)?;
        Ok(client.update_queue(&self.queue, &update).await)
    }

    /// What turns this queue into the wanted one.
    fn change_of(&self, current: &Queue) -> Outcome<QueueUpdate> {
        let mut mask: Vec<String> = Vec::new();
        let mut spec = Map::new();
        let current_spec = serde_json::to_value(&current.spec).expect("a spec can be written as JSON");
        for assignment in self.set.iter().chain(&self.unset) {
            let (field, path) = (assignment.field(), format!("spec.{}", assignment.field()));
            if !mask.contains(&path) {
                mask.push(path);
                // Of a field with parts, those that are not named stay as they are.
                let old = current_spec.get(field).filter(|_| assignment.path.len() > 1);
                spec.extend(old.map(|old: &Value| (field.to_owned(), old.clone())));
            }
            assignment.apply(&mut spec);
        }
        let labels = (!self.labels.is_empty() || !self.unlabel.is_empty()).then(|| {
            mask.push("meta.labels".to_owned());
            let mut labels: BTreeMap<String, String> = current.meta.labels.clone();
            labels.extend(self.labels.iter().cloned());
            labels.retain(|key, _| !self.unlabel.contains(key));
            labels
        });
        if self.display_name.is_some() {
            mask.push("meta.display_name".to_owned());
        }
        Ok(QueueUpdate {
            spec: spec_of(spec)?,
            labels,
            display_name: self.display_name.clone().filter(|name| !name.is_empty()),
            update_mask: Some(mask),
            etag: Some(self.etag.clone().unwrap_or_else(|| current.meta.etag.clone())),
            validate_only: self.validate_only,
            ..QueueUpdate::default()
        })
    }
}
