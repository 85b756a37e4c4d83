//! Subscribers of `pyproject.toml`, and which of Vercel's adapters its dependencies call for.

use std::path::Path;

use serde_json::Value;

use super::source::Source;
use super::topic::{NAME, is_pattern};
use crate::exit::Outcome;

const FILE: &str = "pyproject.toml";
const KEYS: [&str; 2] = ["entrypoint", "topics"];
/// Keys that an older SDK had here.
const OLD_KEYS: [&str; 4] =
    ["initial_delay_seconds", "max_concurrency", "max_deliveries", "retry_after_seconds"];

/// What turns the queues of a framework into subscriptions.
#[derive(Debug, PartialEq)]
pub(super) struct Adapter {
    /// The framework.
    dependency: &'static str,
    pub(super) package: &'static str,
    pub(super) module: &'static str,
    pub(super) installer: &'static str,
}

/// Those that Vercel's build activates, after the import of the subscriber.
const ADAPTERS: [Adapter; 2] = [
    Adapter {
        dependency: "celery",
        package: "vercel-celery",
        module: "vercel.integrations.celery",
        installer: "install_vercel_celery_integration",
    },
    Adapter {
        dependency: "dramatiq",
        package: "vercel-dramatiq",
        module: "vercel.integrations.dramatiq",
        installer: "install_vercel_dramatiq_integration",
    },
];

/// What the file says.
#[derive(Debug, PartialEq)]
pub(super) struct Project {
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) adapters: Vec<&'static Adapter>,
}

/// A module that subscribes to topics when it is imported.
#[derive(Debug, PartialEq)]
pub(super) struct Subscriber {
    /// `MODULE` or `MODULE:OBJECT`, as it is written.
    pub(super) entrypoint: String,
    pub(super) module: String,
    /// Which of its topics count; all of them unless told.
    pub(super) topics: Option<Vec<String>>,
    /// Where it stands in the file.
    pub(super) place: String,
}

pub(super) fn source(directory: &Path) -> Source {
    Source::new(directory, FILE)
}

/// Reads the file, unless it is not there.
pub(super) fn read(source: &Source) -> Outcome<Option<Project>> {
    let Some(text) = source.text()? else { return Ok(None) };
    let value: Value = toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let place =
            before.map_or_else(String::new, |text| format!("line {}: ", text.matches('\n').count() + 1));
        source.unreadable(&format!("{place}{}", error.message()))
    })?;
    let mut subscribers: Vec<Subscriber> = Vec::new();
    if let Some(value) = value.pointer("/tool/vercel/subscribers") {
        for (number, value) in source.list("tool.vercel.subscribers", value)?.iter().enumerate() {
            let read = subscriber(source, format!("tool.vercel.subscribers[{number}]"), value)?;
            if subscribers.iter().any(|other| other.entrypoint == read.entrypoint) {
                let why = format!("is {}, which another subscriber has", read.entrypoint);
                return Err(source.refuse(&format!("{}.entrypoint", read.place), why));
            }
            subscribers.push(read);
        }
    }
    let adapters = adapters(value.pointer("/project/dependencies"));
    Ok(Some(Project { subscribers, adapters }))
}

fn subscriber(source: &Source, place: String, value: &Value) -> Outcome<Subscriber> {
    let fields = source.object(&place, value)?;
    source.only(&place, fields, &KEYS).map_err(|failure| {
        match fields.keys().any(|key| OLD_KEYS.contains(&key.as_str())) {
            true => failure.advise(
                "say it where the code subscribes: @subscribe(topic=…, max_attempts=…, retry_after=…)",
            ),
            false => failure,
        }
    })?;
    let entrypoint = source.text_of(&place, fields, "entrypoint")?;
    let Some(module) = module(entrypoint) else {
        let why = format!("is {entrypoint}, expected MODULE or MODULE:OBJECT, with dots as in an import");
        return Err(source.refuse(&format!("{place}.entrypoint"), why));
    };
    let topics = fields
        .get("topics")
        .map(|topics| patterns(source, &format!("{place}.topics"), topics))
        .transpose()?;
    Ok(Subscriber { entrypoint: entrypoint.to_owned(), module: module.to_owned(), topics, place })
}

fn patterns(source: &Source, place: &str, value: &Value) -> Outcome<Vec<String>> {
    let list = source.list(place, value)?;
    if list.is_empty() {
        return Err(source
            .refuse(place, "is empty, expected one topic or more")
            .advise("remove it to take all topics"));
    }
    let pattern = |(number, value): (usize, &Value)| match value.as_str().filter(|text| is_pattern(text)) {
        Some(pattern) => Ok(pattern.to_owned()),
        None => {
            let why = format!("is {value}, expected {NAME}, or * behind the beginning of such a name");
            Err(source.refuse(&format!("{place}[{number}]"), why))
        }
    };
    list.iter().enumerate().map(pattern).collect()
}

/// The module of an entrypoint. `worker.py` is taken for the name of a file.
fn module(entrypoint: &str) -> Option<&str> {
    let (module, object) = match entrypoint.split_once(':') {
        Some((module, object)) => (module, Some(object)),
        None => (entrypoint, None),
    };
    let is_file = object.is_none() && module.ends_with(".py");
    let names = module.split('.').chain(object).all(is_identifier);
    (names && !is_file).then_some(module)
}

fn is_identifier(text: &str) -> bool {
    let allowed = |character: char| character == '_' || character.is_alphanumeric();
    text.chars().all(allowed) && text.starts_with(|first: char| first == '_' || first.is_alphabetic())
}

/// The adapters of what the project itself depends on.
fn adapters(dependencies: Option<&Value>) -> Vec<&'static Adapter> {
    let dependencies = dependencies.and_then(Value::as_array).into_iter().flatten();
    let names: Vec<String> = dependencies.filter_map(Value::as_str).map(package_name).collect();
    ADAPTERS.iter().filter(|adapter| names.iter().any(|name| name == adapter.dependency)).collect()
}

/// The name in a requirement like `Celery[redis]>=5; python_version > "3.9"`, as packages are compared.
fn package_name(requirement: &str) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let requirement = requirement.trim_start();
    let end = requirement.find(|character| !is_part(character)).unwrap_or(requirement.len());
    requirement.get(..end).unwrap_or_default().replace(['_', '.'], "-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Outcome<Project> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(FILE), text).expect("written");
        read(&source(directory.path())).map(|project| project.expect("it is there"))
    }

    #[test]
    fn subscribers_are_read_with_their_topics() {
        let project = read_text(
            "[[tool.vercel.subscribers]]\nentrypoint = \"jobs.worker:app\"\ntopics = [\"emails*\", \"a\"]\n\
             [[tool.vercel.subscribers]]\nentrypoint = \"site.wsgi\"\n",
        );
        let project = project.expect("it is read");
        let subscriber =
            |entrypoint: &str, module: &str, topics: Option<&[&str]>, number: usize| Subscriber {
                entrypoint: entrypoint.to_owned(),
                module: module.to_owned(),
                topics: topics.map(|topics| topics.iter().map(|&topic| topic.to_owned()).collect()),
                place: format!("tool.vercel.subscribers[{number}]"),
            };
        assert_eq!(
            project.subscribers,
            [
                subscriber("jobs.worker:app", "jobs.worker", Some(&["emails*", "a"]), 0),
                subscriber("site.wsgi", "site.wsgi", None, 1)
            ]
        );
        assert!(project.adapters.is_empty());
        assert!(read_text("[project]\nname = \"x\"").expect("it is read").subscribers.is_empty());
    }

    #[test]
    fn adapters_follow_from_the_dependencies_of_the_project() {
        for (dependencies, packages) in [
            ("\"celery\"", &["vercel-celery"][..]),
            (
                "\"Celery[redis]>=5; python_version > '3.9'\", \"dramatiq == 2.*\"",
                &["vercel-celery", "vercel-dramatiq"],
            ),
            ("\"celery-types\", \"vercel-celery\", \"django\"", &[]),
            ("", &[]),
        ] {
            let project =
                read_text(&format!("[project]\ndependencies = [{dependencies}]")).expect("it is read");
            let found: Vec<&str> = project.adapters.iter().map(|adapter| adapter.package).collect();
            assert_eq!(found, packages, "{dependencies}");
        }
    }

    #[test]
    fn a_subscriber_that_is_wrong_is_refused_by_its_place() {
        let one = |fields: &str| format!("[[tool.vercel.subscribers]]\n{fields}\n");
        let entrypoint = "expected MODULE or MODULE:OBJECT, with dots as in an import";
        for (text, wanted) in [
            (one("topics = [\"a\"]"), "subscribers[0] has no entrypoint".to_owned()),
            (
                one("entrypoint = \"worker.py\""),
                format!("subscribers[0].entrypoint is worker.py, {entrypoint}"),
            ),
            (one("entrypoint = \"a/b:app\""), format!("subscribers[0].entrypoint is a/b:app, {entrypoint}")),
            (one("entrypoint = \"a:b.c\""), format!("subscribers[0].entrypoint is a:b.c, {entrypoint}")),
            (one("entrypoint = \"a\"\ntopics = []"), "subscribers[0].topics is empty".to_owned()),
            (
                one("entrypoint = \"a\"\ntopics = \"b\""),
                "subscribers[0].topics is a text, expected a list".to_owned(),
            ),
            (
                one("entrypoint = \"a\"\ntopics = [\"b*c\"]"),
                "subscribers[0].topics[0] is \"b*c\", expected 1 to".to_owned(),
            ),
            (one("entrypoint = \"a\"\ngroup = \"b\""), "subscribers[0] has the unknown key group".to_owned()),
            (
                one("entrypoint = \"a\"\nmax_deliveries = 3"),
                "what to do: say it where the code subscribes".to_owned(),
            ),
            (
                one("entrypoint = \"a\"") + &one("entrypoint = \"a\""),
                "subscribers[1].entrypoint is a, which another".to_owned(),
            ),
            (
                "[tool.vercel.subscribers]\nentrypoint = \"a\"".to_owned(),
                "subscribers is an object, expected a list".to_owned(),
            ),
            ("[project]\nx = \n".to_owned(), "line 2: ".to_owned()),
        ] {
            let told = read_text(&text).expect_err(&text).text();
            assert!(told.contains(&wanted) && told.contains("pyproject.toml"), "{text}: {told}");
        }
    }
}
