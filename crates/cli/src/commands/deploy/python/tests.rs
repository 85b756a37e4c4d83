//! What is made of the script's answers. That the script itself is right shows with the real packages only.

use super::super::pyproject;
use super::*;

const SUBSCRIBER: &str = "[[tool.vercel.subscribers]]\nentrypoint = \"jobs.worker:app\"\n";

/// The subscriber of a document.
fn project(text: &str) -> (tempfile::TempDir, Source, pyproject::Project) {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("pyproject.toml"), text).expect("written");
    let source = pyproject::source(directory.path());
    let project = pyproject::read(&source).expect("it is read").expect("it is there");
    (directory, source, project)
}

fn answered(text: &str, subscriptions: Value) -> Outcome<Vec<Subscription>> {
    let (_directory, source, project) = project(text);
    let answer = serde_json::from_value(json!({ "subscriptions": subscriptions })).expect("an answer");
    let Answer::Subscriptions(found) = answer else { panic!("{answer:?}") };
    read(&source, project.subscribers.first().expect("one"), &found)
}

#[test]
fn subscriptions_become_triggers_with_the_groups_of_the_sdk() {
    let found = answered(
        SUBSCRIBER,
        json!([
            {"topic": "emails-*", "consumer_group": "jobs_Dworker_Dsend__email"},
            {"topic": "a", "consumer_group": "g", "max_attempts": 3, "retry_after_seconds": 5,
             "initial_delay_seconds": 7, "max_concurrency": 2},
        ]),
    );
    let policy = Policy {
        retry_after: Duration::from_secs(5),
        initial_delay: Duration::from_secs(7),
        max_deliveries: Some(3),
        max_concurrency: Some(2),
    };
    let subscription = |topic: &str, group: &str, policy| Subscription {
        topic: topic.to_owned(),
        group: group.to_owned(),
        policy,
    };
    let wanted = [
        subscription("emails-*", "jobs_Dworker_Dsend__email", Policy::default()),
        subscription("a", "g", policy),
    ];
    assert_eq!(found.expect("it is read"), wanted);
}

#[test]
fn a_filter_takes_what_it_matches_and_has_to_match_something() {
    let all = json!([
        {"topic": "emails", "consumer_group": "a"},
        {"topic": "emails-*", "consumer_group": "b"},
        {"topic": "other", "consumer_group": "c"},
    ]);
    for (topics, groups) in [
        ("\"emails*\"", &["a", "b"][..]),
        ("\"other\"", &["c"]),
        ("\"*\"", &["a", "b", "c"]),
        ("\"emails-new\", \"other\"", &["b", "c"]),
    ] {
        let found = answered(&format!("{SUBSCRIBER}topics = [{topics}]\n"), all.clone()).expect("it is read");
        assert_eq!(found.iter().map(|one| one.group.as_str()).collect::<Vec<_>>(), groups, "{topics}");
    }
    let refused = answered(&format!("{SUBSCRIBER}topics = [\"other\", \"x*\"]\n"), all);
    let told = refused.expect_err("nothing matches").text();
    let wanted = "subscribers[0].topics[1] is x*, to which jobs.worker:app does not subscribe\n  \
                  what to do: it subscribes to emails, emails-*, other";
    assert!(told.contains(wanted), "{told}");
}

#[test]
fn what_a_subscription_cannot_be_is_refused_with_the_place() {
    for (found, wanted) in [
        (json!([]), "(jobs.worker:app) subscribes to nothing"),
        (json!([{"topic": "a b", "consumer_group": "g"}]), "subscribes to a b as g: no names"),
        (json!([{"topic": "a"}]), "subscribes to a as : no names"),
        (
            json!([{"topic": "a", "consumer_group": "g", "max_attempts": 0}]),
            "(jobs.worker:app) subscribes to a as g, and its max_attempts is 0, expected a whole number from 1",
        ),
    ] {
        let told = answered(SUBSCRIBER, found).expect_err(wanted).text();
        assert!(told.contains(wanted) && told.contains("tool.vercel.subscribers[0]"), "{told}");
    }
}

#[test]
fn a_failure_of_python_ends_with_its_traceback_and_what_to_do() {
    let (directory, source, project) =
        project(&format!("[project]\ndependencies = [\"celery\"]\n{SUBSCRIBER}"));
    let here = directory.path().display();
    let python = Python::of(Some(Path::new("python9")), &[directory.path()], "dpl_1").expect("a name");
    let subscriber = project.subscribers.first().expect("one");
    for (step, missing, advice) in [
        ("jobs.worker", Some("jobs"), format!("correct entrypoint: there is no jobs in {here}")),
        (
            "jobs.worker",
            Some("jobs.worker"),
            format!("correct entrypoint: there is no jobs.worker in {here}"),
        ),
        ("jobs.worker", Some("vercel"), "python9 -m pip install vercel-queue".to_owned()),
        ("jobs.worker", Some("vercel.integrations.django"), "pip install vercel-django-tasks".to_owned()),
        ("vercel.integrations.celery", Some("vercel"), "pip install vercel-celery".to_owned()),
        ("vercel.queue", Some("vercel.queue"), "pip install vercel-queue".to_owned()),
        ("jobs.worker", Some("numpy"), "install what provides numpy for python9".to_owned()),
        ("jobs.worker", None, format!("cd {here} && VERCEL=1 python9 -c 'import jobs.worker'")),
    ] {
        let lines = vec!["Traceback (most recent call last):".to_owned(), "ValueError: \u{1b}[2J".to_owned()];
        let failed = Failed { step: step.to_owned(), missing: missing.map(str::to_owned), lines };
        let told = python.failure(&source, subscriber, &project.adapters, failed).text();
        let lines: Vec<&str> = told.lines().collect();
        let first =
            format!("pyproject.toml: tool.vercel.subscribers[0] cannot be read: python9 failed at {step}");
        assert!(lines.first().is_some_and(|line| line.ends_with(&first)), "{told}");
        assert_eq!(
            lines.get(1..3),
            Some(&["    Traceback (most recent call last):", "    ValueError:  [2J"][..])
        );
        let told = lines.get(3).and_then(|line| line.strip_prefix("  what to do: ")).expect("advice");
        assert!(told.contains(&advice), "{told}");
    }
}

#[test]
fn the_interpreter_is_the_one_given_or_that_of_the_project() {
    let project = tempfile::tempdir().expect("a directory");
    let [root, inner] = [project.path().to_owned(), project.path().join("jobs")];
    let program = |given: Option<&str>| {
        Python::of(given.map(Path::new), &[&inner, &root], "dpl_1").expect("an interpreter").program
    };
    assert_eq!(program(None), Path::new("python3"));
    assert_eq!(program(Some("python3.12")), Path::new("python3.12"));
    assert_eq!(program(Some("./env/python")), std::env::current_dir().expect("here").join("env/python"));
    for folder in [&root, &inner] {
        let python = folder.join(".venv/bin/python");
        std::fs::create_dir_all(python.parent().expect("a parent")).expect("made");
        std::fs::write(&python, "").expect("written");
        assert_eq!(program(None), python);
    }
}
