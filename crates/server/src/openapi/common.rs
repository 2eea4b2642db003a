//! Parts common to all operations of the OpenAPI document: problems of bodies and of the store, the
//! schema of a problem, and the headers of replies.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use windlass_wire::{BYTES, EPOCH_HEADER, NOW_HEADER, PROBLEM_JSON, routes};

/// Problems of any request, by status.
const OF_ANY: [(&str, &str); 2] = [
    ("401", "The store has keys, and the request has no valid one."),
    (
        "403",
        "The key lacks the permission; or the server listens on a loopback address, and the host \
         name is not accepted.",
    ),
];
/// Problems of a request with a body.
const OF_A_BODY: [(&str, &str); 2] = [
    ("400", "The body is not JSON, or is incomplete."),
    ("408", "The request did not arrive in time."),
];
/// Problems of a request with a JSON body.
const OF_JSON: [(&str, &str); 1] = [("415", "The request lacks `Content-Type: application/json`.")];
/// Problems of values in the body, the query or the path.
const OF_A_VALUE: [(&str, &str); 2] = [
    ("413", "A value exceeds its limit."),
    ("422", "A field has an invalid value, or the engine does not support the operation."),
];
/// Problems of the store, for every operation that calls it.
const OF_THE_STORE: [(&str, &str); 2] = [
    ("500", "The store contains invalid data: run `windlass check`."),
    ("503", "The store does not answer and the outcome is unknown; repeat the request."),
];

/// Forbids unknown fields in all schemas reachable from request bodies. Derived schemas do this for
/// structs but not for enums.
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

/// Collects the names of all schemas reachable from `value`.
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

/// Sets `additionalProperties` to false on objects with named fields, unless they set it
/// themselves.
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

/// Adds the common parts to a document that describes the individual operations.
pub(super) fn complete(document: &mut Value) {
    let headers = json!({
        "Now": {
            "description": "The store's time, in milliseconds since the Unix epoch.",
            "required": true,
            "schema": {"type": "integer", "minimum": 0},
        },
        "Epoch": {
            "description": "Identity and timeline of the store; when it changes, cursors become invalid.",
            "required": true,
            "schema": {"type": "string"},
        },
        "RetryAfter": {
            "description": "Seconds to wait before a retry.",
            "required": true,
            "schema": {"type": "integer", "minimum": 1},
        },
    });
    document["components"]["headers"] = headers;
    document["components"]["securitySchemes"]["key"] = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A key of the store, `wl_…`. A store without keys requires none.",
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

/// Whether the reply has the store's time and epoch.
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

/// The name of a reply shared by many operations.
fn shared_name(status: &str) -> String {
    format!("Problem{status}")
}

/// A reply with a problem.
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
