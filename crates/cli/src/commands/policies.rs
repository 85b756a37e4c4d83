//! Policies, labels and names of what is made or changed: of queues, topics and groups alike.

use std::collections::BTreeMap;

use clap::Args;
use millpond_client::queue::QueueMeta;
use millpond_client::request::{New, Update};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::exit::{Failure, Outcome};
use crate::value::{self, Assignment};

/// What something is made with.
#[derive(Debug, Args)]
pub(crate) struct Made {
    /// A policy, as visibility_timeout=30s, max_deliveries=5 or backoff.initial=1s (docs/queues.md, docs/topics.md); can be repeated
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
}

impl Made {
    pub(crate) fn of<Spec: DeserializeOwned>(&self, id: &str) -> Outcome<New<Spec>> {
        let mut spec = Map::new();
        self.set.iter().for_each(|assignment| assignment.apply(&mut spec));
        Ok(New {
            id: id.to_owned(),
            spec: spec_of(spec)?,
            display_name: self.display_name.clone(),
            labels: self.labels.iter().cloned().collect(),
            annotations: self.annotations.iter().cloned().collect(),
            validate_only: self.validate_only,
        })
    }

    /// What was done, in a word.
    pub(crate) fn done(&self) -> &'static str {
        if self.validate_only { "could make" } else { "made" }
    }
}

/// What is changed of something.
#[derive(Debug, Args)]
pub(crate) struct Changed {
    /// A policy, as visibility_timeout=30s or backoff.initial=1s (docs/queues.md, docs/topics.md); can be repeated
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

    /// Only if it has this etag
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,

    /// Check everything and change nothing
    #[arg(long)]
    validate_only: bool,
}

impl Changed {
    /// Refuses a change of nothing. `what` completes "cannot".
    pub(crate) fn check(&self, what: &str, example: &str) -> Outcome<()> {
        let nothing = self.set.is_empty() && self.unset.is_empty() && self.labels.is_empty();
        if nothing && self.unlabel.is_empty() && self.display_name.is_none() {
            let failure = Failure::usage(format!("cannot {what}"), "nothing was named to change");
            return Err(failure.advise(format!("name something, as with --set {example}")));
        }
        Ok(())
    }

    /// Whether the change is about one state, so that another is not to be changed.
    pub(crate) fn has_etag(&self) -> bool {
        self.etag.is_some()
    }

    /// What was done, in a word.
    pub(crate) fn done(&self) -> &'static str {
        if self.validate_only { "could update" } else { "updated" }
    }

    /// What turns this into the wanted.
    pub(crate) fn of<Spec: Serialize + DeserializeOwned>(
        &self,
        current: &Spec,
        meta: &QueueMeta,
    ) -> Outcome<Update<Spec>> {
        let mut mask: Vec<String> = Vec::new();
        let mut spec = Map::new();
        let current = serde_json::to_value(current).expect("a spec can be written as JSON");
        for assignment in self.set.iter().chain(&self.unset) {
            let (field, path) = (assignment.field(), format!("spec.{}", assignment.field()));
            if !mask.contains(&path) {
                mask.push(path);
                // Of a field with parts, those that are not named stay as they are.
                let old = current.get(field).filter(|_| assignment.path.len() > 1);
                spec.extend(old.map(|old: &Value| (field.to_owned(), old.clone())));
            }
            assignment.apply(&mut spec);
        }
        let labels = (!self.labels.is_empty() || !self.unlabel.is_empty()).then(|| {
            mask.push("meta.labels".to_owned());
            let mut labels: BTreeMap<String, String> = meta.labels.clone();
            labels.extend(self.labels.iter().cloned());
            labels.retain(|key, _| !self.unlabel.contains(key));
            labels
        });
        if self.display_name.is_some() {
            mask.push("meta.display_name".to_owned());
        }
        Ok(Update {
            spec: spec_of(spec)?,
            labels,
            annotations: None,
            display_name: self.display_name.clone().filter(|name| !name.is_empty()),
            update_mask: Some(mask),
            etag: Some(self.etag.clone().unwrap_or_else(|| meta.etag.clone())),
            allow_missing: false,
            validate_only: self.validate_only,
        })
    }
}

/// A spec from its fields. A value of the wrong kind is refused here, with its field; ranges are the server's matter.
fn spec_of<Spec: DeserializeOwned>(fields: Map<String, Value>) -> Outcome<Spec> {
    for (name, value) in &fields {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        if let Err(error) = serde_json::from_value::<Spec>(Value::Object(alone)) {
            let what = format!("cannot set {name} to {value}");
            let advice = "docs/queues.md and docs/topics.md list every field";
            return Err(Failure::usage(what, error.to_string()).advise(advice));
        }
    }
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| Failure::usage("cannot read the policies", error.to_string()))
}
