//! One operation: what it takes and what it answers, and how that is written.

use std::collections::{BTreeMap, BTreeSet};

use millpond_api::ErrorCode;
use millpond_api::limits::{MESSAGE_ID_BYTES_MAX, VERCEL_CACHE_KEY_BYTES_MAX};
use millpond_api::problem;
use millpond_api::schema::{about, component, id, problem_of, text, topic_id};
use millpond_api::vercel::cache::FRESH;
use millpond_core::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use serde_json::{Map, Value, json};

use super::errors;

/// The content type of bodies and answers.
pub(super) const JSON: &str = "application/json";
/// Of an answer whose type is not the server's to say.
const ANY: &str = "*/*";

/// One method of one path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// Behind the collection of queues or topics, or whole.
    pub(super) path: &'static str,
    id: String,
    tag: &'static str,
    summary: &'static str,
    description: String,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Vec<(&'static str, Value)>,
    answer_headers: Vec<&'static str>,
    /// Headers of an answer with a part of what there is; none: there is no such answer.
    part_headers: Vec<&'static str>,
    codes: BTreeSet<ErrorCode>,
}

impl Operation {
    pub(super) fn new(method: &'static str, path: &'static str, tag: &'static str, id: &str) -> Self {
        Self {
            method,
            path,
            id: id.to_owned(),
            tag,
            summary: "",
            description: String::new(),
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            answer_headers: vec!["Millpond-Request-Id"],
            part_headers: Vec::new(),
            codes: errors::EVERYWHERE.iter().copied().collect(),
        }
    }

    /// A few words, and then more of them.
    pub(super) fn says(mut self, summary: &'static str, description: &str) -> Self {
        self.summary = summary;
        description.clone_into(&mut self.description);
        self
    }

    /// It asks the engine.
    pub(super) fn of_engine(self) -> Self {
        self.codes(errors::ENGINE).codes(errors::QUERY)
    }

    /// It concerns one queue that must exist.
    pub(super) fn of_queue(self) -> Self {
        self.of_engine().codes(&[ErrorCode::QueueNotFound])
    }

    pub(super) fn codes(mut self, codes: &[ErrorCode]) -> Self {
        self.codes.extend(codes);
        self
    }

    pub(super) fn query(mut self, name: &str, schema: Value, description: &str) -> Self {
        self.parameters
            .push(json!({ "name": name, "in": "query", "schema": schema, "description": description }));
        self
    }

    /// The last query parameter must be given.
    pub(super) fn required(mut self) -> Self {
        if let Some(last) = self.parameters.last_mut() {
            last["required"] = json!(true);
        }
        self.codes(&[ErrorCode::MissingField])
    }

    pub(super) fn header(mut self, name: &str, schema: Value, description: &str) -> Self {
        self.parameters
            .push(json!({ "name": name, "in": "header", "schema": schema, "description": description }));
        self
    }

    /// It takes an idempotency key.
    pub(super) fn keyed(mut self) -> Self {
        self.answer_headers.push("Millpond-Idempotent-Replay");
        let description =
            "Makes the call repeatable: the same key with the same call gets the first answer for 24 hours.";
        self.codes(errors::KEYED).header("Idempotency-Key", text(1..=IDEMPOTENCY_KEY_BYTES_MAX), description)
    }

    /// A body of this component, which must be there.
    pub(super) fn body(self, name: &str) -> Self {
        self.bodies(&[(JSON, component(name))], true).codes(&[ErrorCode::MissingField])
    }

    /// A body of this component, or none at all.
    pub(super) fn optional_body(self, name: &str) -> Self {
        self.bodies(&[(JSON, component(name))], false)
    }

    pub(super) fn bodies(mut self, contents: &[(&str, Value)], required: bool) -> Self {
        let contents: Map<_, _> = contents.iter().map(|(media, schema)| content(media, schema)).collect();
        self.body = Some(json!({ "required": required, "content": contents }));
        self.codes(errors::BODY)
    }

    /// The answer is this component.
    pub(super) fn answers(self, name: &str) -> Self {
        self.answers_as(JSON, component(name))
    }

    /// The answer has this header besides.
    pub(super) fn answer_header(mut self, name: &'static str) -> Self {
        self.answer_headers.push(name);
        self
    }

    pub(super) fn answers_as(mut self, media_type: &'static str, schema: Value) -> Self {
        self.answers.push((media_type, schema));
        self
    }

    /// The answer is bytes of any type, and may be asked for in parts.
    pub(super) fn answers_bytes(self) -> Self {
        let range = json!({ "type": "string" });
        let mut this = self
            .answers_as(ANY, json!({}))
            .header("Range", range.clone(), "One range of bytes; anything else is passed over.")
            .header("If-Range", range, "The `ETag` of an answer before: the range only if it is still that.")
            .codes(&[ErrorCode::RangeNotSatisfiable]);
        this.answer_headers.extend(["Accept-Ranges", "ETag"]);
        this.part_headers = this.answer_headers.iter().copied().chain(["Content-Range"]).collect();
        this
    }

    /// The same operation under another id.
    pub(super) fn with_id_prefix(mut self, prefix: &str) -> Self {
        self.id.insert_str(0, prefix);
        self
    }

    /// The operation at its path; responses of errors go among the components.
    pub(super) fn render(mut self, path: &str, components: &mut Map<String, Value>) -> Value {
        let in_path = path_parameters(path);
        if !in_path.is_empty() {
            self.codes.extend(errors::PATH);
        }
        let parameters: Vec<Value> = in_path.into_iter().chain(self.parameters).collect();
        let contents: Map<_, _> = self.answers.iter().map(|(media, schema)| content(media, schema)).collect();
        let answer = |description: &str, headers: &[&str]| json!({ "description": description, "headers": refer_to(headers), "content": contents });
        let mut responses = Map::from_iter([("200".to_owned(), answer("Done.", &self.answer_headers))]);
        if !self.part_headers.is_empty() {
            responses.insert("206".to_owned(), answer("The part asked for.", &self.part_headers));
        }
        for (status, codes) in by_status(&self.codes) {
            let name = codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(".");
            responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
            components.entry(name).or_insert_with(|| error_response(&codes));
        }
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
            "parameters": parameters,
            "responses": responses,
        });
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}

fn content(media_type: &str, schema: &Value) -> (String, Value) {
    (media_type.to_owned(), json!({ "schema": schema }))
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let parameter = |name: &str| {
        let schema = match name {
            "deployment" | "group" | "partition" | "topic" | "trigger" => topic_id(),
            "key" => text(1..=VERCEL_CACHE_KEY_BYTES_MAX),
            "message" => text(1..=MESSAGE_ID_BYTES_MAX),
            _ => id(),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    };
    names.map(parameter).collect()
}

fn by_status(codes: &BTreeSet<ErrorCode>) -> BTreeMap<u16, Vec<ErrorCode>> {
    let mut by_status = BTreeMap::<_, Vec<_>>::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(*code);
    }
    by_status
}

fn error_response(codes: &[ErrorCode]) -> Value {
    let mut headers = vec!["Millpond-Request-Id"];
    if codes.iter().any(|code| code.retryable()) {
        headers.push("Retry-After");
    }
    if codes.contains(&ErrorCode::MethodNotAllowed) {
        headers.push("Allow");
    }
    let titles: Vec<_> = codes.iter().map(|code| format!("`{code}`: {}", code.title())).collect();
    json!({
        "description": titles.join("; "),
        "headers": refer_to(&headers),
        "content": { problem::MEDIA_TYPE: { "schema": problem_of(codes) } },
    })
}

fn refer_to(headers: &[&str]) -> Value {
    let refer = |name: &&str| (name.to_string(), json!({ "$ref": format!("#/components/headers/{name}") }));
    Value::Object(headers.iter().map(refer).collect())
}

/// The headers of answers.
pub(super) fn headers() -> Value {
    let string = || json!({ "type": "string" });
    let header = |schema, text, required| json!({ "schema": about(schema, text), "required": required });
    let seconds = json!({ "type": "integer", "minimum": 0 });
    json!({
        "Accept-Ranges": header(string(), "`bytes`.", true),
        "Allow": header(string(), "The methods that the route takes.", false),
        "Content-Range": header(string(), "Which part, and of how many bytes.", true),
        "ETag": header(string(), "The message's id: its data never changes.", true),
        "Millpond-Idempotent-Replay": header(
            json!({ "type": "string", "const": "true" }),
            "The answer was given before under this key; nothing was done now.",
            false,
        ),
        "Millpond-Request-Id": header(string(), "Names the request in the server's log.", true),
        "Retry-After": header(seconds, "Seconds to wait before the next try.", false),
        "X-Vercel-Cache-State": header(json!({ "type": "string", "const": FRESH }), "`fresh`.", true),
    })
}
