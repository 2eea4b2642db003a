//! What holds for every operation, said once: the problems that any body and any store can cause, the
//! shape of a problem, and the headers of a reply.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use windlass_wire::{BYTES, EPOCH_HEADER, NOW_HEADER, PROBLEM_JSON, routes};

/// Problems of any request, by status.
const OF_ANY: [(&str, &str); 2] = [
    ("401", "The store has keys, and the request shows none that is valid."),
    (
        "403",
        "The key may not do this; or the server listens on its own machine only, and was called by \
         another name.",
    ),
];
/// Problems of a request with a body.
const OF_A_BODY: [(&str, &str); 2] =
    [("400", "The body is no JSON, or broke off."), ("408", "The request did not arrive in time.")];
/// Problems of a request whose body must be JSON.
const OF_JSON: [(&str, &str); 1] =
    [("415", "The request does not say `Content-Type: application/json`.")];
/// Problems of what a request says, in its body, its query or its path.
const OF_A_VALUE: [(&str, &str); 2] = [
    ("413", "Something is over its limit."),
    ("422", "A field holds what it cannot, or the engine behind the server has no such thing."),
];
/// Problems of the store, which every operation that asks it may meet.
const OF_THE_STORE: [(&str, &str); 2] = [
    ("500", "The store holds bad data: run `windlass check`."),
    ("503", "The store is not answering; the outcome is unknown, repeat the request."),
];

/// Requests are strict, all the way down: what is not named is refused. Derived schemas say so of structs
/// and not of enums.
pub(super) fn make_strict(document: &mut Value) {
    let mut names = BTreeSet::new();
    for item in document["paths"].as_object().into_iter().flat_map(Map::values) {
        for operation in item.as_object().into_iter().flat_map(Map::values) {
            reach(&operation["requestBody"], document, &mut names);
        }
    }
    for name in names {
        close(&mut document["components"]["schemas"][name]);
    }
}

/// The names of all schemas that are reached from `value`.
fn reach(value: &Value, document: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let to = fields.get("$ref").and_then(Value::as_str).unwrap_or_default();
            if let Some(name) = to.strip_prefix("#/components/schemas/")
                && names.insert(name.to_owned())
            {
                reach(&document["components"]["schemas"][name], document, names);
            }
            fields.values().for_each(|value| reach(value, document, names));
        }
        Value::Array(items) => items.iter().for_each(|item| reach(item, document, names)),
        _ => {}
    }
}

/// Objects with named fields have no others, unless they say so themselves.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Adds what the operations have in common to a document that tells how they differ.
pub(super) fn complete(document: &mut Value) {
    let headers = json!({
        "Now": {
            "description": "The store's time, in milliseconds since the Unix epoch.",
            "required": true,
            "schema": {"type": "integer", "minimum": 0},
        },
        "Epoch": {
            "description": "Identity and timeline of the store; when it changes, cursors are void.",
            "required": true,
            "schema": {"type": "string"},
        },
        "RetryAfter": {
            "description": "Seconds after which another try is worth it.",
            "required": true,
            "schema": {"type": "integer", "minimum": 1},
        },
    });
    document["components"]["headers"] = headers;
    document["components"]["securitySchemes"]["key"] = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A key of the store, `wl_…`. A store without keys asks for none.",
    });
    document["security"] = json!([{}, {"key": []}]);
    for (status, description) in
        OF_ANY.into_iter().chain(OF_A_BODY).chain(OF_JSON).chain(OF_A_VALUE).chain(OF_THE_STORE)
    {
        let shared = problem(status, description);
        document["components"]["responses"][shared_name(status)] = shared;
    }
    let paths = document["paths"].as_object_mut();
    for (path, item) in paths.into_iter().flatten() {
        let operations = item.as_object_mut().into_iter().flat_map(Map::values_mut);
        operations.for_each(|operation| complete_operation(path, operation));
    }
}

/// Whether the reply is the store's, with its stamp.
fn asks_the_store(path: &str) -> bool {
    path.starts_with("/v1/") && path != routes::CAPABILITIES
}

fn complete_operation(path: &str, operation: &mut Value) {
    let mut shared: Vec<&str> = OF_ANY.map(|(status, _)| status).to_vec();
    let has_body = operation.get("requestBody").is_some();
    if has_body {
        shared.extend(OF_A_BODY.map(|(status, _)| status));
    }
    if has_body && operation["requestBody"]["content"].get(BYTES).is_none() {
        shared.extend(OF_JSON.map(|(status, _)| status));
    }
    if has_body || operation.get("parameters").is_some() {
        shared.extend(OF_A_VALUE.map(|(status, _)| status));
    }
    if asks_the_store(path) {
        shared.extend(OF_THE_STORE.map(|(status, _)| status));
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (status, response) in responses.iter_mut() {
        if status.as_str() >= "400" {
            *response = problem(status, response["description"].as_str().unwrap_or_default());
        } else if asks_the_store(path) {
            response["headers"][NOW_HEADER] = json!({"$ref": "#/components/headers/Now"});
            response["headers"][EPOCH_HEADER] = json!({"$ref": "#/components/headers/Epoch"});
        }
    }
    for status in shared {
        let name = format!("#/components/responses/{}", shared_name(status));
        responses.entry(status).or_insert_with(|| json!({"$ref": name}));
    }
}

/// The name of a reply that many operations share.
fn shared_name(status: &str) -> String {
    format!("Problem{status}")
}

/// A reply that says what went wrong.
fn problem(status: &str, description: &str) -> Value {
    let mut response = json!({
        "description": description,
        "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    if matches!(status, "429" | "503") {
        response["headers"] = json!({"retry-after": {"$ref": "#/components/headers/RetryAfter"}});
    }
    response
}
