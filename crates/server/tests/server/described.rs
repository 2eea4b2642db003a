//! The OpenAPI document: committed, served, and complete.

use crate::support::{get, send, start};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use windlass_server::openapi;

/// Environment variable that makes the test write the committed document instead of comparing;
/// `cargo xtask openapi` sets it.
const UPDATE_VAR: &str = "WINDLASS_UPDATE_OPENAPI";

fn document() -> Value {
    serde_json::from_str(openapi()).expect("JSON")
}

/// All operations, by method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("operations") {
            all.push((format!("{method} {path}"), operation));
        }
    }
    all
}

/// Collects all values under a key `$ref`.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(to) if name == "$ref" => {
                        found.insert(to);
                    }
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn the_committed_document_is_the_one_that_is_served() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os(UPDATE_VAR).is_some() {
        std::fs::write(&path, openapi()).expect("write docs/openapi.json");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(openapi().lines()).position(|(a, b)| a != b);
    assert!(
        committed == openapi(),
        "docs/openapi.json differs from what is served, first in line {}; \
         write it anew with `cargo xtask openapi`",
        differs.map_or(committed.lines().count(), |line| line) + 1
    );
}

#[tokio::test]
async fn a_client_with_the_current_document_gets_304() {
    let server = start().await;
    let first = get(&server, "/openapi.json").await;
    assert_eq!((first.status, first.header("content-type")), (200, Some("application/json")));
    assert_eq!(first.body, document());
    let tag = first.header("etag").expect("a tag");
    let ask = |tags: &str| {
        format!(
            "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nif-none-match: {tags}\r\n\r\n"
        )
    };
    for tags in [tag.to_owned(), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let again = send(server.address(), &ask(&tags)).await;
        assert_eq!((again.status, again.header("etag")), (304, Some(tag)), "{tags}");
        assert_eq!(again.body, Value::Null);
    }
    assert_eq!(send(server.address(), &ask("\"other\"")).await.status, 200);
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for to in &found {
        let at = document.pointer(to.trim_start_matches('#'));
        assert!(at.is_some(), "{to} is not there");
    }
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        let to = format!("#/components/schemas/{name}");
        assert!(found.contains(to.as_str()), "{to} is used nowhere");
    }
}

#[test]
fn every_operation_can_be_made_a_function_of_a_client() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let tags = document["tags"].as_array().expect("tags").iter();
    let known: BTreeSet<_> = tags.filter_map(|tag| tag["name"].as_str()).collect();
    let mut names = BTreeSet::new();
    for (which, operation) in operations(&document) {
        let name = operation["operationId"].as_str().expect("a name");
        assert!(names.insert(name), "{name} is the name of two operations");
        assert!(operation["summary"].is_string(), "{which} has no summary");
        let tag = operation["tags"][0].as_str().expect("a tag");
        assert!(known.contains(tag), "{which} has the unknown tag {tag}");
        let good = operation["responses"].as_object().expect("responses");
        let mut good = good.iter().filter(|(status, _)| status.starts_with('2'));
        let media = match name {
            "metrics" => "text/plain",
            "stream_events" => "text/event-stream",
            _ => "application/json",
        };
        assert!(
            good.all(|(_, reply)| reply["content"][media]["schema"].is_object()),
            "{which} does not say what it answers"
        );
    }
}

#[test]
fn a_request_is_described_as_strict_as_it_is_read() {
    let document = document();
    for (which, operation) in operations(&document) {
        let Some(body) = operation.get("requestBody") else { continue };
        assert_eq!(body["required"], true, "{which}");
        if body["content"].get("application/octet-stream").is_some() {
            continue; // Any bytes will do.
        }
        let schema = &body["content"]["application/json"]["schema"];
        let to = schema["$ref"].as_str().unwrap_or_else(|| panic!("{which} has no named body"));
        let schema = document.pointer(to.trim_start_matches('#')).expect("the schema");
        assert_eq!(schema["additionalProperties"], false, "{which} takes {to}");
    }
}
