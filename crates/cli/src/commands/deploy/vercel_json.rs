//! Triggers of `vercel.json`: of functions, and of functions of services. Invariant: every trigger that is taken has
//! known keys only, and values in their ranges.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::policy::{Names, Policy};
use super::source::Source;
use super::topic::{NAME, is_name, is_pattern};
use crate::exit::{Failure, Outcome};

/// What the file is called.
const FILE: &str = "vercel.json";
/// Triggers whose group follows from the function.
const V2: &str = "queue/v2beta";
/// Triggers that name their group.
const V1: &str = "queue/v1beta";
const NAMES: Names = Names {
    retry_after: "retryAfterSeconds",
    initial_delay: "initialDelaySeconds",
    max_deliveries: "maxDeliveries",
    max_concurrency: "maxConcurrency",
};
/// Keys of a trigger; the first is for those that name their group.
const KEYS: [&str; 7] = [
    "consumer",
    "initialDelaySeconds",
    "maxConcurrency",
    "maxDeliveries",
    "retryAfterSeconds",
    "topic",
    "type",
];

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) functions: Vec<Function>,
    pub(super) services: Vec<Service>,
    /// What is passed over, in sentences for people.
    pub(super) notes: Vec<String>,
}

/// A part of the project with a folder and an address of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Service {
    pub(super) name: String,
    /// Its folder, from the project's on.
    pub(super) root: PathBuf,
}

/// A function that has triggers.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    pub(super) service: Option<Service>,
    pub(super) key: String,
    /// Where it stands in the file.
    pub(super) place: String,
    pub(super) triggers: Vec<Declared>,
}

/// A trigger as it is declared.
#[derive(Debug, PartialEq)]
pub(super) struct Declared {
    /// The group, where the trigger names it.
    pub(super) consumer: Option<String>,
    pub(super) topic: String,
    pub(super) policy: Policy,
}

/// The file, which others refer to when they refuse what it says.
pub(super) fn source(directory: &Path) -> Source {
    Source::new(directory, FILE)
}

/// Reads the file, unless it is not there.
pub(super) fn read(source: &Source) -> Outcome<Option<Document>> {
    let Some(text) = source.text()? else { return Ok(None) };
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = serde_json::from_str(text).map_err(|error| source.unreadable(&error.to_string()))?;
    let top = source.object("it", &value)?;
    let mut reader = Reader { source, document: Document::default() };
    reader.functions(None, "functions", top)?;
    if let Some(services) = top.get("services") {
        for (name, service) in source.object("services", services)? {
            reader.service(name, service)?;
        }
    }
    Ok(Some(reader.document))
}

struct Reader<'a> {
    source: &'a Source,
    document: Document,
}

impl Reader<'_> {
    fn service(&mut self, name: &str, value: &Value) -> Outcome<()> {
        let place = format!("services.{name}");
        let fields = self.source.object(&place, value)?;
        let root = self.source.text_of(&place, fields, "root")?;
        if root.starts_with('/') || root.split('/').any(|segment| segment == "..") {
            let why = format!("is {root}, expected a folder below the project");
            return Err(self.source.refuse(&format!("{place}.root"), why));
        }
        let service = Service { name: name.to_owned(), root: PathBuf::from(root) };
        self.functions(Some(&service), &format!("{place}.functions"), fields)?;
        self.document.services.push(service);
        Ok(())
    }

    fn functions(
        &mut self,
        service: Option<&Service>,
        place: &str,
        within: &Map<String, Value>,
    ) -> Outcome<()> {
        let Some(functions) = within.get("functions") else { return Ok(()) };
        for (key, value) in self.source.object(place, functions)? {
            let place = format!("{place}[\"{key}\"]");
            let fields = self.source.object(&place, value)?;
            let Some(triggers) = fields.get("experimentalTriggers") else { continue };
            let triggers = self.triggers(&format!("{place}.experimentalTriggers"), triggers)?;
            if !triggers.is_empty() {
                let (service, key) = (service.cloned(), key.clone());
                self.document.functions.push(Function { service, key, place, triggers });
            }
        }
        Ok(())
    }

    fn triggers(&mut self, place: &str, value: &Value) -> Outcome<Vec<Declared>> {
        let mut declared = Vec::new();
        for (number, value) in self.source.list(place, value)?.iter().enumerate() {
            let place = format!("{place}[{number}]");
            let fields = self.source.object(&place, value)?;
            match self.source.text_of(&place, fields, "type")? {
                V1 => declared.push(self.trigger(&place, fields, &KEYS)?),
                V2 => declared.push(self.trigger(&place, fields, &KEYS[1..])?),
                other => {
                    self.document
                        .notes
                        .push(format!("{place} is passed over: its type {other} is not for queues"));
                }
            }
        }
        let has_derived = declared.iter().any(|trigger| trigger.consumer.is_none());
        if has_derived && declared.len() > 1 {
            let why = format!("has {} triggers, limit 1 where one is {V2}", declared.len());
            let advice =
                "give each topic a function of its own, or let one pattern like user-* match them all";
            return Err(self.source.refuse(place, why).advise(advice));
        }
        Ok(declared)
    }

    fn trigger(&self, place: &str, fields: &Map<String, Value>, known: &[&str]) -> Outcome<Declared> {
        if !known.contains(&"consumer") && fields.contains_key("consumer") {
            let why = format!("has a consumer, which only {V1} has");
            let advice = "remove it: the group's name follows from the function's path";
            return Err(self.source.refuse(place, why).advise(advice));
        }
        self.source.only(place, fields, known)?;
        let topic = self.source.text_of(place, fields, "topic")?;
        if !is_pattern(topic) {
            let why = format!("is {topic}, expected {NAME}, or * behind the beginning of such a name");
            return Err(self.source.refuse(&format!("{place}.topic"), why));
        }
        let consumer = match known.contains(&"consumer") {
            true => Some(self.consumer(place, fields)?),
            false => None,
        };
        let policy = Policy::read(fields, &NAMES);
        let policy =
            policy.map_err(|wrong| self.source.refuse(&format!("{place}.{}", wrong.name), wrong.why))?;
        Ok(Declared { consumer, topic: topic.to_owned(), policy })
    }

    fn consumer(&self, place: &str, fields: &Map<String, Value>) -> Outcome<String> {
        let consumer = self.source.text_of(place, fields, "consumer")?;
        let wrong = || -> Failure {
            self.source.refuse(&format!("{place}.consumer"), format!("is {consumer}, expected {NAME}"))
        };
        if is_name(consumer) { Ok(consumer.to_owned()) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests;
