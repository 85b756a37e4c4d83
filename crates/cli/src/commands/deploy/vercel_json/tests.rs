//! What is taken of a `vercel.json`, and what is refused with which words.

use std::time::Duration;

use serde_json::json;

use super::*;

fn read_text(text: &str) -> Outcome<Document> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("vercel.json"), text).expect("written");
    read(&source(directory.path())).map(|document| document.expect("it is there"))
}

/// What is said about a document that is refused, without the name of the file.
#[track_caller]
fn refused(document: &Value) -> String {
    let told = read_text(&document.to_string()).expect_err("it is refused").text();
    let (first, rest) = told.split_once("vercel.json: ").expect("it names the file");
    assert!(first.starts_with("millpond: cannot use "), "{told}");
    rest.trim_end().replace("\n  what to do: ", " | ")
}

/// A document with one trigger.
fn with(trigger: Value) -> Value {
    json!({"functions": {"api/x.ts": {"experimentalTriggers": [trigger]}}})
}

#[test]
fn triggers_of_functions_and_services_are_read() {
    let document = json!({
        "version": 2,
        "functions": {
            "app/api/x/route.ts": {"maxDuration": 60, "experimentalTriggers": [{
                "type": "queue/v2beta", "topic": "user-*", "retryAfterSeconds": 5, "initialDelaySeconds": 0.5,
                "maxDeliveries": 3, "maxConcurrency": 10
            }]},
            "api/none.ts": {"memory": 512},
            "api/empty.ts": {"experimentalTriggers": []},
        },
        "services": {
            "web": {"root": "apps/web", "framework": "nextjs", "functions": {"api/w.ts": {"experimentalTriggers": [
                {"type": "queue/v1beta", "topic": "a", "consumer": "one"},
                {"type": "queue/v1beta", "topic": "b", "consumer": "two"},
            ]}}},
            "docs": {"root": "docs"},
        },
    });
    let document = read_text(&document.to_string()).expect("it is read");
    let [first, second] = &document.functions[..] else { panic!("{document:?}") };
    assert_eq!((first.key.as_str(), &first.service), ("app/api/x/route.ts", &None));
    assert_eq!(first.place, "functions[\"app/api/x/route.ts\"]");
    let policy = Policy {
        retry_after: Duration::from_secs(5),
        initial_delay: Duration::from_millis(500),
        max_deliveries: Some(3),
        max_concurrency: Some(10),
    };
    assert_eq!(first.triggers, [Declared { consumer: None, topic: "user-*".to_owned(), policy }]);
    let web = Service { name: "web".to_owned(), root: "apps/web".into() };
    assert_eq!(second.service, Some(web));
    assert_eq!(second.place, "services.web.functions[\"api/w.ts\"]");
    let consumers: Vec<_> = second.triggers.iter().map(|trigger| trigger.consumer.as_deref()).collect();
    assert_eq!(consumers, [Some("one"), Some("two")]);
    assert_eq!(second.triggers.first().map(|trigger| &trigger.policy), Some(&Policy::default()));
    let names: Vec<&str> = document.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!((names, document.notes), (vec!["docs", "web"], Vec::new()));
}

#[test]
fn triggers_of_other_types_are_passed_over_with_a_note() {
    let document = with(json!({"type": "cron/v1", "schedule": "* * * * *"}));
    let document = read_text(&document.to_string()).expect("it is read");
    assert!(document.functions.is_empty());
    assert_eq!(
        document.notes,
        [
            "functions[\"api/x.ts\"].experimentalTriggers[0] is passed over: its type cron/v1 is not for queues"
        ]
    );
}

#[test]
fn a_trigger_that_is_wrong_is_refused_by_its_place_key_and_range() {
    let v2 = |key: &str, value: Value| {
        let mut trigger = json!({"type": "queue/v2beta", "topic": "t"});
        trigger[key] = value;
        trigger
    };
    let place = "functions[\"api/x.ts\"].experimentalTriggers[0]";
    for (trigger, wanted) in [
        (
            v2("retries", json!(3)),
            " has the unknown key retries | correct or remove it; known are initialDelaySeconds, \
             maxConcurrency, maxDeliveries, retryAfterSeconds, topic, type",
        ),
        (
            json!({"type": "queue/v1beta", "topic": "t", "consumer": "c", "group": "g"}),
            " has the unknown key group | correct or remove it; known are consumer, initialDelaySeconds, \
             maxConcurrency, maxDeliveries, retryAfterSeconds, topic, type",
        ),
        (
            v2("consumer", json!("c")),
            " has a consumer, which only queue/v1beta has | remove it: the group's name follows from the \
             function's path",
        ),
        (json!({"type": "queue/v1beta", "topic": "t"}), " has no consumer"),
        (json!({"type": "queue/v2beta"}), " has no topic"),
        (json!({"topic": "t"}), " has no type"),
        (v2("type", json!(2)), ".type is a number, expected a text of one character or more"),
        (v2("topic", json!("")), ".topic is an empty text, expected a text of one character or more"),
        (
            v2("topic", json!("a*b")),
            ".topic is a*b, expected 1 to 255 of A-Z, a-z, 0-9, _ and -, or * behind the beginning of such a \
             name",
        ),
        (
            json!({"type": "queue/v1beta", "topic": "t", "consumer": "a.b"}),
            ".consumer is a.b, expected 1 to 255 of A-Z, a-z, 0-9, _ and -",
        ),
        (
            v2("retryAfterSeconds", json!(0)),
            ".retryAfterSeconds is 0, expected a number of seconds from 0.001 to 86400, with at most three decimals",
        ),
        (
            v2("initialDelaySeconds", json!(-1)),
            ".initialDelaySeconds is -1, expected a number of seconds from 0 to 86400, with at most three decimals",
        ),
        (v2("maxDeliveries", json!(0)), ".maxDeliveries is 0, expected a whole number from 1 to 1000000"),
        (
            v2("maxConcurrency", json!(1.5)),
            ".maxConcurrency is 1.5, expected a whole number from 1 to 4294967295",
        ),
        (json!("queue/v2beta"), " is a text, expected an object"),
    ] {
        assert_eq!(refused(&with(trigger)), format!("{place}{wanted}"));
    }
}

#[test]
fn a_function_has_one_trigger_whose_group_follows_from_it() {
    let [one, other] = ["a", "b"].map(|topic| json!({"type": "queue/v2beta", "topic": topic}));
    let named = json!({"type": "queue/v1beta", "topic": "c", "consumer": "c"});
    for triggers in [json!([one, other]), json!([one, named])] {
        let told = refused(&json!({"functions": {"api/x.ts": {"experimentalTriggers": triggers}}}));
        let wanted =
            "functions[\"api/x.ts\"].experimentalTriggers has 2 triggers, limit 1 where one is queue/v2beta";
        assert!(told.starts_with(wanted), "{told}");
    }
}

#[test]
fn what_has_another_shape_is_refused() {
    for (document, wanted) in [
        (json!([]), "it is a list, expected an object"),
        (json!({"functions": []}), "functions is a list, expected an object"),
        (json!({"functions": {"a": null}}), "functions[\"a\"] is null, expected an object"),
        (
            json!({"functions": {"a": {"experimentalTriggers": {}}}}),
            "functions[\"a\"].experimentalTriggers is an object, expected a list",
        ),
        (json!({"services": {"web": {}}}), "services.web has no root"),
        (
            json!({"services": {"web": {"root": "../x"}}}),
            "services.web.root is ../x, expected a folder below the project",
        ),
        (
            json!({"services": {"web": {"root": "/x"}}}),
            "services.web.root is /x, expected a folder below the project",
        ),
    ] {
        assert_eq!(refused(&document), wanted);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_with_the_place() {
    let told = read_text("{\n  \"functions\": {,}\n}").expect_err("no JSON").text();
    assert!(told.contains("cannot read ") && told.contains("line 2 column 17"), "{told}");
    let told = read_text(&" ".repeat((1 << 20) + 1)).expect_err("too large").text();
    assert!(told.contains("has 1048577 bytes, limit 1048576"), "{told}");
    assert!(read_text("\u{feff}{}").is_ok());
    let nowhere = tempfile::tempdir().expect("a directory");
    assert!(read(&source(nowhere.path())).expect("it is not there").is_none());
}
