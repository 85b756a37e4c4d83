//! The OpenAPI document: every route and verb, what it takes, and every answer that it can give, errors by their codes.
//!
//! Built from the code's own limits, words, codes and routes, served at `/openapi.json` and kept as `docs/openapi.json`
//! (`cargo run -p millpond-server --example openapi > docs/openapi.json`). Router tests hold every answer that they get
//! against it (`tests/it/documented.rs`).

mod backups;
mod cache;
mod errors;
mod operation;
mod operations;
mod topics;
mod triggers;

use std::sync::LazyLock;

use millpond_api::schema;
use serde_json::{Map, Value, json};

use operation::Operation;

use crate::paths;

/// The document as it is served and kept: JSON with a line feed at its end.
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    &TEXT
}

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut responses = Map::new();
    for (path, operation) in placed() {
        let method = operation.method;
        let entry = paths.entry(path.clone()).or_insert_with(|| json!({}));
        entry[method] = operation.render(&path, &mut responses);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Millpond",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A durable queue server.",
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": [
            { "name": "queues", "description": "What a queue is and does." },
            { "name": "topics", "description": "What a topic and a partition are and do." },
            { "name": "groups", "description": "Readers of topics." },
            { "name": "messages", "description": "Sending, leasing, settling, looking." },
            { "name": "dead letters", "description": "Messages out of attempts." },
            { "name": "triggers", "description": "What pushes messages of topics, and what it signs with." },
            { "name": "deployments", "description": "Triggers that are put and removed together." },
            { "name": "environments", "description": "Units of isolation." },
            { "name": "cache", "description": "Values that programs for Vercel keep in memory; off unless the server is told." },
            { "name": "server", "description": "About the server itself." },
        ],
        "paths": paths,
        "components": {
            "headers": operation::headers(),
            "responses": responses,
            "schemas": schema::components(),
        },
    })
}

const DESCRIPTION: &str = "Paths directly below `/v1` mean the default environment; below \
    `/v1/orgs/{org}/projects/{project}/envs/{env}` any one. Durations are seconds such as `1.5s`, times RFC 3339, \
    64-bit numbers strings. In what is sent, a null is the same as an absent field, and fields and query parameters that \
    are not named here are refused. Refused calls store nothing. Every answer carries `Millpond-Request-Id`. What is not \
    HTTP at all, or has a head beyond the server's bounds, is answered with a bare 400, 414 or 431.";

/// Every operation with its path: those of what an environment holds twice, in the default environment and in any.
fn placed() -> Vec<(String, Operation)> {
    type Table = fn() -> Vec<Operation>;
    let collections: [(_, _, Table); 10] = [
        (paths::SHORT_QUEUES, "default.", operations::of_queues),
        (paths::QUEUES, "", operations::of_queues),
        (paths::SHORT_TOPICS, "default.", topics::of_topics),
        (paths::TOPICS, "", topics::of_topics),
        (paths::SHORT_TRIGGERS, "default.", triggers::of_triggers),
        (paths::TRIGGERS, "", triggers::of_triggers),
        (paths::SHORT_DEPLOYMENTS, "default.", triggers::of_deployments),
        (paths::DEPLOYMENTS, "", triggers::of_deployments),
        (paths::SHORT_SIGNING_SECRET, "default.", triggers::of_signing_secret),
        (paths::SIGNING_SECRET, "", triggers::of_signing_secret),
    ];
    let of_collections = collections.into_iter().flat_map(|(collection, prefix, table)| {
        table().into_iter().map(move |operation| {
            (format!("{collection}{}", operation.path), operation.with_id_prefix(prefix))
        })
    });
    let others = operations::others().into_iter().chain(backups::operations()).chain(cache::operations());
    let others = others.map(|operation| (operation.path.to_owned(), operation));
    of_collections.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millpond_api::ErrorCode;

    use super::*;
    use crate::handlers::queues::{GROUP_VERBS, TOPIC_VERBS, VERBS};

    fn paths_of(document: &Value) -> Vec<String> {
        document["paths"].as_object().expect("an object").keys().cloned().collect()
    }

    #[test]
    fn every_route_is_documented() {
        let document = document();
        let source = include_str!("paths.rs");
        let is_route = |text: &&str| text.starts_with('/') && !text.starts_with("//") && !text.ends_with('/');
        let routes: Vec<_> = source.split('"').filter(is_route).collect();
        assert!(routes.len() >= 8 && routes.contains(&paths::HEALTH), "{routes:?}");
        for route in routes {
            assert!(document["paths"].get(route).is_some(), "{route}");
        }
    }

    #[test]
    fn every_verb_is_documented_and_every_documented_verb_is_one() {
        let document = document();
        for (member, verbs) in [
            (paths::SHORT_QUEUE, &VERBS[..]),
            (paths::QUEUE, &VERBS),
            (paths::SHORT_TOPIC, &TOPIC_VERBS),
            (paths::TOPIC, &TOPIC_VERBS),
            (paths::SHORT_GROUP, &GROUP_VERBS),
            (paths::GROUP, &GROUP_VERBS),
        ] {
            let prefix = format!("{member}:");
            let documented = paths_of(&document).into_iter().filter(|path| path.starts_with(&prefix)).count();
            assert_eq!(documented, verbs.len(), "{member}");
            for (verb, method) in verbs {
                let item = &document["paths"][format!("{prefix}{verb}")];
                let methods: Vec<_> = item.as_object().expect(verb).keys().cloned().collect();
                assert_eq!(methods, [method.as_str().to_lowercase()], "{verb}");
            }
        }
    }

    /// Codes of calls that this document does not describe.
    const OF_OTHERS: [ErrorCode; 6] = [
        ErrorCode::CredentialInvalid,
        ErrorCode::CredentialScope,
        ErrorCode::MessageDelayed,
        ErrorCode::MessageSettled,
        ErrorCode::RunLimit,
        ErrorCode::UnsuitedResource,
    ];

    #[test]
    fn every_code_is_documented_somewhere() {
        let text = document()["components"]["responses"].to_string();
        for code in ErrorCode::all() {
            let is_documented = text.contains(&format!("\"{code}\""));
            assert_eq!(is_documented, !OF_OTHERS.contains(code), "{code}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        let document = document();
        let mut references = BTreeSet::new();
        collect(&document, &mut references);
        for reference in &references {
            let pointer = reference.strip_prefix('#').expect("a local reference");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        for kind in ["headers", "responses", "schemas"] {
            for name in document["components"][kind].as_object().expect("an object").keys() {
                assert!(references.contains(&format!("#/components/{kind}/{name}")), "{kind} {name}");
            }
        }
    }

    fn collect(value: &Value, references: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                references.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| collect(member, references));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
            _ => {}
        }
    }

    #[test]
    fn operations_have_distinct_ids_and_all_their_path_parameters() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().expect("an object") {
            for operation in item.as_object().expect("an object").values() {
                assert!(ids.insert(operation["operationId"].as_str().expect("an id").to_owned()), "{path}");
                let parameters = operation["parameters"].as_array().expect("a list").iter();
                let named: BTreeSet<_> = parameters
                    .filter(|parameter| parameter["in"] == "path")
                    .map(|parameter| parameter["name"].as_str().expect("a name"))
                    .collect();
                let wanted: BTreeSet<_> =
                    path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect();
                assert_eq!(named, wanted, "{path}");
            }
        }
    }
}
