//! The OpenAPI 3.1 document, generated from the routes and the types of `windlass-wire`. It
//! contains no route by name; every served route is described.
//!
//! To add a route:
//! 1. Write its path in `windlass_wire::routes` and its types in `windlass-wire`, with
//!    `#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]` and a `value_type` for core's types.
//! 2. Put `#[utoipa::path(…)]` on the handler: method, path, [`tag`], `operation_id`, `request_body`, and
//!    the replies that are its own. Its doc comment is the summary (first line) and the description.
//!    A schema that only a parameter has is written `inline(…)`: parameters bring no schemas along.
//! 3. Leave out what holds for every operation (problems of any body, of the store; headers): [`complete`]
//!    adds it. A status from 400 on needs only a description.
//! 4. Register it with `routes!(module::handler)` in `routes::all`, all methods of a path in one.
//! 5. `cargo xtask openapi` writes `docs/openapi.json` anew; a test fails until it is.

mod common;

use crate::routes;
use bytes::Bytes;
use common::{complete, make_strict};
use serde_json::{Map, Value, json};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;
use utoipa::openapi::schema::ComponentsBuilder;
use windlass_wire::Problem;

/// Tags that group operations.
pub(crate) mod tag {
    pub(crate) const JOBS: &str = "jobs";
    pub(crate) const SCHEDULES: &str = "schedules";
    pub(crate) const WORK: &str = "work";
    pub(crate) const SETTINGS: &str = "settings";
    pub(crate) const STORE: &str = "store";
    pub(crate) const SERVER: &str = "server";
}

/// The document as served.
pub(crate) struct Document {
    pub(crate) text: Bytes,
    /// Changes with the text.
    pub(crate) etag: String,
}

/// The document, generated once.
pub(crate) fn document() -> &'static Document {
    static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
        let text = written();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Document { etag: format!("\"{:016x}\"", hasher.finish()), text: text.into() }
    });
    &DOCUMENT
}

/// The OpenAPI document as the server serves it.
pub fn openapi() -> &'static str {
    std::str::from_utf8(&document().text).unwrap_or_default()
}

/// The document as text: indented and with sorted keys, so that two versions can be compared.
fn written() -> String {
    let mut described = routes::all().into_openapi();
    // No route references this schema explicitly, because every route can return it.
    let problem = ComponentsBuilder::new().schema_from::<Problem>().build();
    described.components.get_or_insert_default().schemas.extend(problem.schemas);
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["info"] = info();
    document["servers"] = json!([{"url": "/", "description": "This server."}]);
    document["tags"] = tags();
    complete(&mut document);
    make_strict(&mut document);
    let mut text = serde_json::to_string_pretty(&sorted(document)).unwrap_or_default();
    text.push('\n');
    text
}

fn info() -> Value {
    json!({
        "title": "Windlass",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": "Durable background jobs.",
        "description": "Once an enqueue is acknowledged, the job completes or is visibly dead.\n\n\
            Instants are milliseconds since the Unix epoch on the store's clock; durations end in `_ms`. \
            Requests are strict: an unknown field is refused and named. Clients ignore fields of replies \
            that they do not know. In batches each item has its own answer, in order, with status 200 for \
            the whole. Errors are RFC 9457 problems; match on `code`.",
        "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
    })
}

fn tags() -> Value {
    json!([
        {"name": tag::JOBS, "description": "Enqueue, read and change jobs."},
        {"name": tag::SCHEDULES, "description": "Recurring jobs, by name."},
        {"name": tag::WORK, "description": "Claim jobs and report their results."},
        {"name": tag::SETTINGS, "description": "Queues, kinds and workers."},
        {"name": tag::STORE, "description": "For services and operators."},
        {"name": tag::SERVER, "description": "The server itself."},
    ])
}

/// Sorts keys, independently of the map type that the JSON library uses.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            let fields = fields.into_iter().map(|(name, value)| (name, sorted(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}
