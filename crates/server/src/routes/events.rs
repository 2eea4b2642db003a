//! Events of a queue: pages, and a stream of server-sent events.

use crate::access::Who;
use crate::app::App;
use crate::body::{Path, Query};
use crate::event_stream;
use crate::long_poll;
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use http::HeaderMap;
use windlass_core::Error;
use windlass_core::engine::{EventsFrom, EventsRequest};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List events of a queue
///
/// Transitions of the queue's jobs, oldest first, if its events are on. Continue with `next` as `after`, at any time:
/// `gap` says whether events in between are missing. With `wait_ms`, waits for an event if there is none.
#[utoipa::path(
    get, path = paths::EVENTS, tag = tag::STORE, operation_id = "list_events",
    params(
        ("queue" = wire::openapi::Name, Path, description = "The queue; a `/` is written `%2F`."),
        wire::EventsQuery,
    ),
    responses(
        (status = 200, body = wire::EventsPage, description = "A page."),
    ),
)]
pub(super) async fn list(
    State(app): State<App>,
    who: Who,
    Path(queue): Path<String>,
    Query(query): Query<wire::EventsQuery>,
) -> Reply {
    let reply = long_poll::events(&app, &who, query.into_core(queue.into())).await?;
    Ok(stamped(reply.map(wire::EventsPage::from)))
}

/// Stream events of a queue
///
/// The same events as server-sent events. Each message has an event as JSON and its cursor as id, so that a client that
/// reconnects with `last-event-id` continues where it was. A message of type `gap` says that events before the next one are
/// missing. A comment every 15 seconds keeps the connection alive. A message of type `problem` ends the stream.
#[utoipa::path(
    get, path = paths::EVENT_STREAM, tag = tag::STORE, operation_id = "stream_events",
    params(
        ("queue" = wire::openapi::Name, Path, description = "The queue; a `/` is written `%2F`."),
        ("last-event-id" = Option<wire::openapi::Cursor>, Header, description = "The id of the last message."),
        wire::EventStreamQuery,
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = String, description = "The stream."),
    ),
)]
pub(super) async fn stream(
    State(app): State<App>,
    who: Who,
    Path(queue): Path<String>,
    Query(query): Query<wire::EventStreamQuery>,
    headers: HeaderMap,
) -> Reply {
    let resumed = headers.get("last-event-id").map(|id| id.to_str());
    let resumed = resumed.transpose().map_err(|_| {
        Error::invalid("last-event-id", "not text", "send the id of the last message")
    })?;
    let from = resumed.map(ToOwned::to_owned).filter(|id| !id.is_empty()).or(query.after);
    let from = from.map_or_else(EventsFrom::default, |text| EventsFrom::of(&text));
    event_stream::open(app, who, EventsRequest::new(queue).from(from)).await
}
