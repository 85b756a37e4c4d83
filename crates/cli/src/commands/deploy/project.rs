//! Reads a project directory: `vercel.json`, and `pyproject.toml` there and in the folder of each service.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::app::{App, Apps};
use super::files::find;
use super::group_name::group_name;
use super::plan::{Planned, Trigger};
use super::policy::Policy;
use super::python::Python;
use super::route::{is_dynamic, url_path};
use super::source::Source;
use super::topic::is_name;
use super::vercel_json::{Declared, Document, Function};
use super::{pyproject, vercel_json};
use crate::exit::{Failure, Outcome};

/// What is looked at, and what holds for every trigger of it.
#[derive(Debug)]
pub(super) struct Project<'a> {
    pub(super) directory: &'a Path,
    pub(super) apps: &'a [App],
    pub(super) deployment: &'a str,
    pub(super) python: Option<&'a Path>,
    pub(super) subscriber_path: &'a str,
    pub(super) lease: Duration,
    pub(super) dead_letter_queue: Option<&'a str>,
}

/// The triggers of a project.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) planned: Vec<Planned>,
    /// What is passed over or may surprise, in sentences for people.
    pub(super) notes: Vec<String>,
}

impl Project<'_> {
    /// Finds the triggers; none at all is an error.
    pub(super) async fn read(&self) -> Outcome<Found> {
        if !self.directory.is_dir() {
            let why = format!("{} is no directory", self.directory.display());
            return Err(Failure::usage("cannot read the project", why));
        }
        let source = vercel_json::source(self.directory);
        let document = vercel_json::read(&source)?;
        let has_document = document.is_some();
        let Document { functions, services, notes } = document.unwrap_or_default();
        let apps = Apps::of(self.apps, &services)?;
        let mut found = Found { planned: Vec::new(), notes };
        for function in &functions {
            self.function(&source, &apps, function, &mut found)?;
        }
        let mut folders: Vec<(Option<&str>, PathBuf)> = vec![(None, self.directory.to_owned())];
        for service in &services {
            let folder = self.directory.join(&service.root);
            // A service that is the whole project has the project's file.
            match folders.iter_mut().find(|(_, other)| is_one(other, &folder)) {
                Some((name, _)) if name.is_none() => *name = Some(&service.name),
                Some(_) => {}
                None => folders.push((Some(&service.name), folder)),
            }
        }
        let mut has_project = false;
        for (service, folder) in &folders {
            has_project |= self.subscribers(&apps, *service, folder, &mut found).await?;
        }
        if found.planned.is_empty() {
            return Err(self.nothing(has_document, has_project));
        }
        Ok(found)
    }

    fn function(&self, source: &Source, apps: &Apps, function: &Function, found: &mut Found) -> Outcome<()> {
        let Function { service, key, place, triggers } = function;
        let folder =
            service.as_ref().map_or_else(|| self.directory.to_owned(), |one| self.directory.join(&one.root));
        let file = find(&folder, key).map_err(|no_file| {
            let failure = source.refuse(place, no_file.why).detail(no_file.found);
            failure.advise("name one file: its path tells under which address the app serves it")
        })?;
        let path = url_path(&file);
        if is_dynamic(&file) {
            found.notes.push(format!("{file} serves any value: messages go to {path}"));
        }
        let service = service.as_ref().map(|service| service.name.as_str());
        let target = apps.target(service, &path)?;
        for Declared { consumer, topic, policy } in triggers {
            let own =
                || group_name(&service.map_or_else(|| key.clone(), |service| format!("{service}~{key}")));
            let group = consumer.clone().unwrap_or_else(own);
            if !is_name(&group) {
                let why = format!("makes a group's name of {} characters, limit 255", group.len());
                return Err(source.refuse(place, why).advise("shorten the path of the function"));
            }
            let trigger = self.trigger(topic, &group, &target, policy.clone());
            found.planned.push(Planned { trigger, source: format!("vercel.json: {place}") });
        }
        Ok(())
    }

    /// Adds what the Python code of a folder subscribes to, and answers whether the folder has a `pyproject.toml`.
    async fn subscribers(
        &self,
        apps: &Apps,
        service: Option<&str>,
        folder: &Path,
        found: &mut Found,
    ) -> Outcome<bool> {
        let source = pyproject::source(folder);
        let Some(project) = pyproject::read(&source)? else { return Ok(false) };
        if project.subscribers.is_empty() {
            return Ok(true);
        }
        let target = apps.target(service, self.subscriber_path)?;
        let python = Python::of(self.python, &[folder, self.directory], self.deployment)?;
        for subscriber in &project.subscribers {
            for one in python.subscriptions(&source, subscriber, &project.adapters).await? {
                let trigger = self.trigger(&one.topic, &one.group, &target, one.policy);
                let source = format!("pyproject.toml: {}", subscriber.entrypoint);
                found.planned.push(Planned { trigger, source });
            }
        }
        Ok(true)
    }

    fn trigger(&self, topic: &str, group: &str, target: &str, policy: Policy) -> Trigger {
        Trigger {
            topic: topic.to_owned(),
            group: group.to_owned(),
            target: target.to_owned(),
            policy,
            dead_letter_queue: self.dead_letter_queue.map(str::to_owned),
            lease: self.lease,
        }
    }

    fn nothing(&self, has_document: bool, has_project: bool) -> Failure {
        let here = self.directory.display();
        let why = match (has_document, has_project) {
            (false, false) => format!("{here} has neither vercel.json nor pyproject.toml"),
            (true, false) => format!("no function in {here}/vercel.json has experimentalTriggers for queues"),
            (false, true) => format!("{here}/pyproject.toml has no [[tool.vercel.subscribers]]"),
            (true, true) => {
                format!(
                    "{here} has experimentalTriggers in vercel.json for no queue, and no subscribers in pyproject.toml"
                )
            }
        };
        let is_program = !has_document && self.directory.join("vercel.ts").is_file();
        let advice = match is_program {
            true => "vercel.ts is not run: write what it makes to vercel.json",
            false => "name the directory that holds them; docs/deploy.md shows both",
        };
        Failure::usage("cannot find triggers", why).advise(advice)
    }
}

/// Whether both are one folder.
fn is_one(one: &Path, other: &Path) -> bool {
    let full = |path: &Path| path.canonicalize().ok();
    full(one).is_some_and(|one| full(other) == Some(one))
}
