//! The OpenAPI 3.1 document, generated from the routes and the types of `windlass-wire`. It
//! contains no route by name; every served route is described.
//!
//! To add a route:
//! 1. Add its path to `windlass_wire::routes` and its types to `windlass-wire`, with
//!    `#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]` and a `value_type` for core types.
//! 2. Add `#[utoipa::path(…)]` to the handler: method, path, [`tag`], `operation_id`, `request_body`
//!    and its own replies. Its doc comment becomes the summary (first line) and the description.
//!    Write `inline(…)` for a schema that only a parameter uses: parameters do not register schemas.
//! 3. Omit the parts common to all operations (problems of bodies and of the store, headers):
//!    [`complete`] adds them. A reply with a status of 400 or above needs only a description.
//! 4. Register it with `routes!(module::handler)` in `routes::all`, all methods of a path together.
//! 5. Run `cargo xtask openapi` to update `docs/openapi.json`; a test fails until it is up to date.

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
            Instants are RFC 3339 on the store's clock, in requests also milliseconds since the Unix epoch; \
            durations end in `_ms`. \
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
