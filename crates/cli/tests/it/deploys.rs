//! `deploy`: what a project's directory is read as, and what is said about one that cannot be.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::process::{Ran, millpond, run};
use crate::schema;

const APP: [&str; 2] = ["--app", "http://127.0.0.1:3000"];
const DEPLOYMENT: [&str; 2] = ["--deployment", "dpl_1"];

/// A directory with these files.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (file, text) in files {
        let path = directory.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    directory
}

/// A project with a function for `orders`.
fn shop() -> tempfile::TempDir {
    let document = json!({"functions": {"app/api/queue/orders/route.ts": {"experimentalTriggers": [
        {"type": "queue/v2beta", "topic": "orders", "retryAfterSeconds": 5, "maxDeliveries": 20},
    ]}}});
    project(&[("vercel.json", &document.to_string()), ("app/api/queue/orders/route.ts", "")])
}

/// `deploy` of a directory, with nothing of the surroundings.
fn deploy(directory: &Path) -> Command {
    let mut command = millpond();
    command.arg("deploy").arg(directory);
    for name in ["VERCEL", "VERCEL_DEPLOYMENT_ID", "VERCEL_REGION"] {
        command.env_remove(name);
    }
    command
}

/// A look at what would be registered.
fn dry(directory: &Path, options: &[&str]) -> Ran {
    Ran::of(run(deploy(directory).args(APP).args(DEPLOYMENT).arg("--dry-run").args(options)))
}

/// As [`dry`], as a program reads it.
#[track_caller]
fn object(directory: &Path, options: &[&str]) -> Value {
    let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
    let mut lines = schema::check("deploy", &dry(directory, &options).done());
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

#[test]
fn a_function_becomes_a_trigger() {
    let shop = shop();
    let lines = dry(shop.path(), &[]).done();
    let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.split_whitespace().collect()).collect();
    let group = "app_Sapi_Squeue_Sorders_Sroute_Dts";
    let target = "http://127.0.0.1:3000/api/queue/orders";
    assert_eq!(lines.first(), Some(&vec!["GROUP", "TOPIC", "TARGET", "RETRY", "LIMITS"]));
    assert_eq!(lines.get(1), Some(&vec![group, "orders", target, "5s", "20", "deliveries"]));
    assert_eq!(
        object(shop.path(), &["--lease", "60", "--dead-letter-queue", "orders-dead"]),
        json!({"deployment": "dpl_1", "registered": false, "triggers": [{
            "topic": "orders", "group": group, "target": target, "retry_after": "5s", "initial_delay": "0s",
            "visibility_timeout": "60s", "max_deliveries": 20, "dead_letter_queue": "orders-dead",
            "source": "vercel.json: functions[\"app/api/queue/orders/route.ts\"]",
        }]})
    );
}

#[test]
fn services_have_addresses_of_their_own() {
    let trigger = |topic: &str| json!({"experimentalTriggers": [{"type": "queue/v2beta", "topic": topic}]});
    let document = json!({"services": {
        "web": {"root": "apps/web", "functions": {"app/**/route.ts": trigger("a")}},
        "jobs": {"root": "jobs", "functions": {"api/run.py": trigger("b")}},
    }});
    let project = project(&[
        ("vercel.json", &document.to_string()),
        ("apps/web/src/app/api/a/route.ts", ""),
        ("jobs/api/run.py", ""),
    ]);
    let found = object(project.path(), &["--app", "web=http://web.internal/base"]);
    let told = |number: usize| {
        let trigger = &found["triggers"][number];
        ["group", "target"].map(|name| trigger[name].as_str().expect("a text").to_owned())
    };
    assert_eq!(told(0), ["jobs_7Eapi_Srun_Dpy", "http://127.0.0.1:3000/api/run"]);
    assert_eq!(told(1), ["web_7Eapp_S_2A_2A_Sroute_Dts", "http://web.internal/base/api/a"]);
}

#[test]
fn what_is_passed_over_is_told() {
    let document = json!({"functions": {"pages/api/[id].ts": {"experimentalTriggers": [
        {"type": "queue/v2beta", "topic": "a"}, {"type": "cron", "schedule": "x"},
    ]}}});
    let project = project(&[("vercel.json", &document.to_string()), ("pages/api/[id].ts", "")]);
    let ran = dry(project.path(), &["--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.stderr,
        "functions[\"pages/api/[id].ts\"].experimentalTriggers[1] is passed over: its type cron is not for \
         queues\npages/api/[id].ts serves any value: messages go to /api/%5Bid%5D\n"
    );
}

#[test]
fn a_deployment_has_a_name() {
    let shop = shop();
    let told = Ran::of(run(deploy(shop.path()).args(APP).arg("--dry-run"))).failed(2);
    assert!(told.contains("the deployment has no name"), "{told}");
    assert!(told.contains("what to do: name one with --deployment ID or VERCEL_DEPLOYMENT_ID"), "{told}");
    let mut command = deploy(shop.path());
    let command = command.args(APP).args(["--dry-run", "--json"]).env("VERCEL_DEPLOYMENT_ID", "dpl_9");
    let found = schema::check("deploy", &Ran::of(run(command)).done());
    assert_eq!(found[0]["deployment"], "dpl_9");
    let told =
        Ran::of(run(deploy(shop.path()).args(APP).args(["--dry-run", "--deployment", "a b"]))).failed(2);
    assert!(told.contains("called \"a b\", expected 1 to 250 of A-Z"), "{told}");
}

#[test]
fn without_a_terminal_a_deploy_wants_yes() {
    let shop = shop();
    let told = Ran::of(run(deploy(shop.path()).args(APP).args(DEPLOYMENT))).failed(2);
    assert!(told.contains("there is no terminal to ask on") && told.contains("add --yes"), "{told}");
}

#[test]
fn wrong_options_are_refused() {
    let shop = shop();
    for (options, said) in [
        (&["--dry-run"][..], "--app"),
        (&["--dry-run", "--app", "127.0.0.1:3000"], "expected http://HOST:PORT"),
        (&["--dry-run", "--app", "http://h", "--lease", "0"], "1..=3600"),
        (&["--dry-run", "--app", "http://h", "--lease", "1.5"], "--lease"),
        (&["--dry-run", "--app", "http://h", "--subscriber-path", "x"], "expected one like /api/queue"),
        (&["--dry-run", "--app", "http://h", "--app", "web=http://w"], "there is no service web"),
        (&["--dry-run", "--app", "http://h", "--app", "http://i"], "two addresses"),
    ] {
        let output = run(deploy(shop.path()).args(DEPLOYMENT).args(options));
        let told = String::from_utf8(output.stderr).expect("utf-8");
        assert_eq!(output.status.code(), Some(2), "{options:?}: {told}");
        assert!(told.contains(said), "{options:?}: {told}");
    }
}

#[test]
fn a_project_without_triggers_is_refused() {
    for (files, said) in [
        (&[][..], "has neither vercel.json nor pyproject.toml"),
        (&[("vercel.ts", "")], "vercel.ts is not run"),
        (&[("vercel.json", "{}")], "has experimentalTriggers for queues"),
        (&[("pyproject.toml", "")], "has no [[tool.vercel.subscribers]]"),
        (&[("vercel.json", "{}"), ("pyproject.toml", "")], "and no subscribers in pyproject.toml"),
    ] {
        let project = project(files);
        let told = dry(project.path(), &[]).failed(2);
        assert!(told.contains("cannot find triggers") && told.contains(said), "{told}");
    }
    let told = dry(Path::new("/nowhere/at/all"), &[]).failed(2);
    assert!(told.contains("/nowhere/at/all is no directory"), "{told}");
}

#[test]
fn a_glob_that_means_several_files_is_refused_with_their_names() {
    let trigger = json!([{"type": "queue/v2beta", "topic": "a"}]);
    let document = json!({"functions": {"api/*.ts": {"experimentalTriggers": trigger}}});
    let project = project(&[("vercel.json", &document.to_string()), ("api/a.ts", ""), ("api/b.ts", "")]);
    let told = dry(project.path(), &[]).failed(2);
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[0].ends_with("functions[\"api/*.ts\"] means 2 files, and messages can go to one only"),
        "{told}"
    );
    assert_eq!(lines[1..3], ["    api/a.ts", "    api/b.ts"]);
    assert!(lines[3].starts_with("  what to do: name one file"), "{told}");
}

#[test]
fn errors_of_python_are_told_with_what_to_do() {
    const SUBSCRIBER: &str = "[[tool.vercel.subscribers]]\nentrypoint = \"worker:app\"\n";
    let failed = |worker: &str, python: &str| {
        let project = project(&[("pyproject.toml", SUBSCRIBER), ("worker.py", worker)]);
        dry(project.path(), &["--python", python])
    };
    let told = failed("", "/nowhere/python").failed(2);
    assert!(
        told.contains("tool.vercel.subscribers[0] cannot be read: /nowhere/python is not there"),
        "{told}"
    );
    assert!(
        told.contains("what to do: name the interpreter of the app's environment with --python"),
        "{told}"
    );
    let told = failed("", "true").failed(2);
    assert!(told.contains("true ended without an answer: exit status: 0"), "{told}");

    let ran =
        failed("def work():\n    raise ValueError('no \\x1b[2J')\n\n\nprint('noise')\nwork()\n", "python3");
    let told = ran.stderr.strip_prefix("noise\n").expect("what the module prints goes to stderr");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(lines[0].ends_with("cannot be read: python3 failed at worker"), "{told}");
    assert_eq!(lines[1], "    Traceback (most recent call last):");
    assert!(lines[2].contains("worker.py\", line 6, in <module>"), "{told}");
    assert_eq!(lines[lines.len() - 2], "    ValueError: no  [2J");
    assert!(lines[lines.len() - 1].contains("VERCEL=1 python3 -c 'import worker'"), "{told}");
}

#[test]
fn a_module_that_is_missing_or_leaves_is_told() {
    let subscriber = "[[tool.vercel.subscribers]]\nentrypoint = \"jobs.worker\"\n";
    for (worker, said) in [
        (None, "correct entrypoint: there is no jobs in "),
        (Some("import millpond_has_no_such_module"), "install what provides millpond_has_no_such_module"),
        (Some("raise SystemExit(3)"), "    SystemExit: 3"),
    ] {
        let mut files = vec![("pyproject.toml", subscriber)];
        files.extend(worker.map(|worker| ("jobs/worker.py", worker)));
        let project = project(&files);
        let told = dry(project.path(), &["--python", "python3"]).failed(2);
        assert!(told.contains(said), "{told}");
    }
}
