//! Asks the app's own Python what its subscribers subscribe to, in the surroundings that Vercel's build gives them.

use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::policy::{Names, Policy};
use super::pyproject::{Adapter, Subscriber};
use super::source::Source;
use super::topic::{is_name, is_pattern};
use crate::exit::{Failure, Outcome};

const SCRIPT: &str = include_str!("subscriptions.py");
/// How long a module may take to be imported.
const IMPORT_MAX: Duration = Duration::from_secs(120);
/// The region unless the environment names one; clients want some.
const REGION: &str = "iad1";
const NAMES: Names = Names {
    retry_after: "retry_after_seconds",
    initial_delay: "initial_delay_seconds",
    max_deliveries: "max_attempts",
    max_concurrency: "max_concurrency",
};

/// An interpreter, and what it is run with.
#[derive(Debug)]
pub(super) struct Python {
    program: PathBuf,
    directory: PathBuf,
    deployment: String,
}

/// What a module subscribes to.
#[derive(Debug, PartialEq)]
pub(super) struct Subscription {
    pub(super) topic: String,
    pub(super) group: String,
    pub(super) policy: Policy,
}

/// What the script answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Failed(Failed),
    Subscriptions(Vec<Map<String, Value>>),
}

/// What went wrong in Python.
#[derive(Debug, Deserialize)]
struct Failed {
    /// The module that was imported or activated.
    step: String,
    /// The module that is not there, if that is the fault.
    missing: Option<String>,
    /// The end of the traceback.
    lines: Vec<String>,
}

impl Python {
    /// The interpreter that was given, else that of the environment in one of the folders, else the one that is found
    /// by its name. Modules are looked for in the first folder.
    pub(super) fn of(given: Option<&Path>, folders: &[&Path], deployment: &str) -> Outcome<Self> {
        let full = |path: &Path| {
            let failed = |error: io::Error| Failure::usage("cannot run Python", error.to_string());
            absolute(path).map_err(failed)
        };
        let own = || folders.iter().map(|folder| folder.join(".venv/bin/python")).find(|path| path.is_file());
        // A path counts from here, not from the folder that it is run in; a name is looked up.
        let program = match given.map(Path::to_owned).or_else(own) {
            Some(path) if path.components().count() > 1 => full(&path)?,
            Some(name) => name,
            None => PathBuf::from("python3"),
        };
        let directory = full(folders.first().copied().unwrap_or(Path::new(".")))?;
        Ok(Self { program, directory, deployment: deployment.to_owned() })
    }

    /// What a subscriber subscribes to, by its code and the filter that stands beside it.
    pub(super) async fn subscriptions(
        &self,
        source: &Source,
        subscriber: &Subscriber,
        adapters: &[&Adapter],
    ) -> Outcome<Vec<Subscription>> {
        let output = self.run(source, subscriber, adapters).await?;
        match serde_json::from_slice(&output.stdout) {
            Ok(Answer::Subscriptions(found)) => self::read(source, subscriber, &found),
            Ok(Answer::Failed(failed)) => Err(self.failure(source, subscriber, adapters, failed)),
            Err(_) => {
                let why = format!("{} ended without an answer: {}", self.program.display(), output.status);
                let advice = "name the interpreter of the app's environment with --python PATH";
                Err(source.refuse(&subscriber.place, format!("cannot be read: {why}")).advise(advice))
            }
        }
    }

    async fn run(&self, source: &Source, subscriber: &Subscriber, adapters: &[&Adapter]) -> Outcome<Output> {
        let asked: Vec<[&str; 2]> =
            adapters.iter().map(|adapter| [adapter.module, adapter.installer]).collect();
        let asked = json!({ "module": subscriber.module, "adapters": asked });
        let region = std::env::var_os("VERCEL_REGION").filter(|region| !region.is_empty());
        let mut command = Command::new(&self.program);
        command
            .args(["-c", SCRIPT, &asked.to_string()])
            .current_dir(&self.directory)
            .env("VERCEL", "1")
            .env("VERCEL_DEPLOYMENT_ID", &self.deployment)
            .env("VERCEL_REGION", region.unwrap_or_else(|| REGION.into()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let failed = |why: String, advice: &str| {
            let why = format!("cannot be read: {} {why}", self.program.display());
            source.refuse(&subscriber.place, why).advise(advice)
        };
        let advice = "name the interpreter of the app's environment with --python PATH, or make one in .venv";
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failed("is not there".to_owned(), advice),
            _ => failed(format!("cannot be run: {error}"), advice),
        })?;
        match tokio::time::timeout(IMPORT_MAX, child.wait_with_output()).await {
            Ok(output) => output.map_err(|error| failed(format!("cannot be read from: {error}"), advice)),
            Err(_) => {
                let why = format!("imported {} for {} seconds", subscriber.module, IMPORT_MAX.as_secs());
                Err(failed(why, "import it by hand to see what it waits for"))
            }
        }
    }

    fn failure(
        &self,
        source: &Source,
        subscriber: &Subscriber,
        adapters: &[&Adapter],
        failed: Failed,
    ) -> Failure {
        let Failed { step, missing, lines } = failed;
        let python = self.program.display();
        let missing = missing.as_deref();
        let is_own = missing.is_some_and(|name| {
            subscriber.module == name || subscriber.module.starts_with(&format!("{name}."))
        });
        let advice = if let (true, Some(name)) = (is_own, missing) {
            format!("correct entrypoint: there is no {name} in {}", self.directory.display())
        } else if let Some(package) = missing.and_then(|name| package_of(&step, name, adapters)) {
            format!("install it where the app runs: {python} -m pip install {package}")
        } else if let Some(name) = missing {
            format!(
                "install what provides {name} for {python}, or name another interpreter with --python PATH"
            )
        } else {
            let here = self.directory.display();
            format!(
                "correct the error; to see it alone: cd {here} && VERCEL=1 {python} -c 'import {}'",
                subscriber.module
            )
        };
        let why = format!("cannot be read: {python} failed at {step}");
        source.refuse(&subscriber.place, why).detail(lines).advise(advice)
    }
}

/// The package of a module of Vercel's that is not there.
fn package_of(step: &str, missing: &str, adapters: &[&Adapter]) -> Option<String> {
    let is_vercel = missing == "vercel" || missing.starts_with("vercel.");
    let adapter = adapters.iter().find(|adapter| adapter.module == step || adapter.module == missing);
    match missing.strip_prefix("vercel.integrations.") {
        _ if !is_vercel => None,
        _ if adapter.is_some() => adapter.map(|adapter| adapter.package.to_owned()),
        Some("django") => Some("vercel-django-tasks".to_owned()),
        Some(name) => Some(format!("vercel-{name}")),
        None => Some("vercel-queue".to_owned()),
    }
}

/// Reads what the script found. A value that is out of its range comes from the code, so that is what the failure names.
fn read(
    source: &Source,
    subscriber: &Subscriber,
    found: &[Map<String, Value>],
) -> Outcome<Vec<Subscription>> {
    let refuse = |why: String| source.refuse(&subscriber.place, format!("({}) {why}", subscriber.entrypoint));
    let mut subscriptions = Vec::new();
    for fields in found {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (topic, group) = (text("topic"), text("consumer_group"));
        if !is_pattern(&topic) || !is_name(&group) {
            let why = format!("subscribes to {topic} as {group}: no names of a topic and a group");
            return Err(refuse(why));
        }
        let policy = Policy::read(fields, &NAMES);
        let policy = policy.map_err(|wrong| {
            refuse(format!("subscribes to {topic} as {group}, and its {} {}", wrong.name, wrong.why))
        })?;
        subscriptions.push(Subscription { topic, group, policy });
    }
    if subscriptions.is_empty() {
        let advice = "subscribe with @subscribe(topic=…) in that module or in one that it imports";
        return Err(refuse("subscribes to nothing".to_owned()).advise(advice));
    }
    chosen(source, subscriber, subscriptions)
}

/// Those that the filter lets through; each of its topics must let one.
fn chosen(source: &Source, subscriber: &Subscriber, all: Vec<Subscription>) -> Outcome<Vec<Subscription>> {
    let Some(topics) = &subscriber.topics else { return Ok(all) };
    let fits = |pattern: &String| all.iter().any(|one| super::topic::overlap(pattern, &one.topic));
    if let Some(number) = topics.iter().position(|pattern| !fits(pattern)) {
        let there: Vec<&str> = all.iter().map(|one| one.topic.as_str()).collect();
        let pattern = topics.get(number).map_or("", String::as_str);
        let why = format!("is {pattern}, to which {} does not subscribe", subscriber.entrypoint);
        let failure = source.refuse(&format!("{}.topics[{number}]", subscriber.place), why);
        return Err(failure.advise(format!("it subscribes to {}", there.join(", "))));
    }
    let wanted = |one: &Subscription| topics.iter().any(|pattern| super::topic::overlap(pattern, &one.topic));
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests;
