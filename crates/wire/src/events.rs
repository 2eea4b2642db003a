//! Events of a queue.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Cursor, EventEntry, EventFields, EventsFrom, EventsRequest};
use windlass_core::machine::EventKind;
use windlass_core::model::{self, EventBoundsFields, Finish, Name, State};
use windlass_core::{Error, JobId, Result, Timestamp};

/// Query for events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// The `next` of the previous page or the `cursor` of an event; `oldest` (the default) for the oldest event that is
    /// kept, `latest` for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Cursor>))]
    pub after: Option<String>,
    /// Maximum number of events; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::PageLimit>))]
    pub limit: Option<u32>,
    /// How long to wait for an event if there is none yet; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::WaitMs>))]
    pub wait_ms: Option<u64>,
}

/// Query for a stream of events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct EventStreamQuery {
    /// The `cursor` of an event; `oldest` (the default) for the oldest event that is kept, `latest` for the next one. The
    /// header `last-event-id` takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Cursor>))]
    pub after: Option<String>,
}

/// Events of a queue, oldest first. Fewer than the limit mean that there are no more for now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventsPage {
    /// The events.
    pub events: Vec<Event>,
    /// The position after them.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Cursor))]
    pub next: Cursor,
    /// Whether events after the requested position are missing, because they were dropped or the position is of an
    /// earlier stream.
    pub gap: bool,
}

/// One transition of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// The position after it.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Cursor))]
    pub cursor: Cursor,
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub job: JobId,
    /// Its queue after the transition.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    /// Its kind.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: Name,
    /// Number of the transition in the life of the job, from 1.
    pub number: u32,
    /// The event of the state machine, such as `claim` or `retry`.
    #[cfg_attr(feature = "openapi", schema(example = "claim"))]
    pub event: String,
    /// The state after it; absent if the job was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub state: Option<State>,
    /// The time.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// How many attempts had started.
    pub attempt: u32,
    /// The reason of the end, if the job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Finish>))]
    pub reason: Option<Finish>,
    /// The code of the error that the worker reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How many events a queue keeps, and for how long.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EventBounds {
    /// Maximum number of events; 10,000 by default.
    #[serde(default = "max")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::EventCount))]
    pub max: u64,
    /// Maximum age of events; one day by default.
    #[serde(default = "max_age_ms")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::EventAgeMs))]
    pub max_age_ms: u64,
}

fn max() -> u64 {
    model::EventBounds::default().max
}

fn max_age_ms() -> u64 {
    model::EventBounds::default().max_age_ms
}

impl From<EventBounds> for model::EventBounds {
    fn from(EventBounds { max, max_age_ms }: EventBounds) -> Self {
        EventBoundsFields { max, max_age_ms }.into()
    }
}

impl From<model::EventBounds> for EventBounds {
    fn from(bounds: model::EventBounds) -> Self {
        let EventBoundsFields { max, max_age_ms } = bounds.into();
        Self { max, max_age_ms }
    }
}

impl EventsQuery {
    /// The request for events of a queue.
    pub fn into_core(self, queue: Name) -> EventsRequest {
        let mut request = EventsRequest::new(queue);
        request.from = self.after.map_or(request.from, |after| EventsFrom::of(&after));
        request.limit = self.limit.unwrap_or(request.limit);
        request.wait_ms = self.wait_ms.unwrap_or(request.wait_ms);
        request
    }

    /// The query of a request, without its queue.
    pub fn of(request: &EventsRequest) -> Self {
        Self {
            after: Some(request.from.as_str().to_owned()),
            limit: Some(request.limit),
            wait_ms: Some(request.wait_ms),
        }
    }
}

impl From<EventEntry> for Event {
    fn from(EventEntry { cursor, event }: EventEntry) -> Self {
        let EventFields { job, queue, kind, number, event, state, at, attempt, reason, error } =
            event.into();
        let event = event.name().to_owned();
        Self { cursor, job, queue, kind, number, event, state, at, attempt, reason, error }
    }
}

impl Event {
    /// Fails for an event of the state machine that this version does not know.
    pub fn into_core(self) -> Result<EventEntry> {
        let Self { cursor, job, queue, kind, number, event, state, at, attempt, reason, error } =
            self;
        let unknown = || Error::invalid("event", &event, "a newer server sent it: upgrade");
        let event = EventKind::named(&event).ok_or_else(unknown)?;
        let fields =
            EventFields { job, queue, kind, number, event, state, at, attempt, reason, error };
        Ok(EventEntry { cursor, event: fields.into() })
    }
}

impl From<engine::EventsReply> for EventsPage {
    fn from(reply: engine::EventsReply) -> Self {
        let engine::EventsReply { events, next, gap, .. } = reply;
        Self { events: events.into_iter().map(Into::into).collect(), next, gap }
    }
}

impl EventsPage {
    /// The page in core's types.
    pub fn into_core(self) -> Result<engine::EventsReply> {
        let events = self.events.into_iter().map(Event::into_core).collect::<Result<_>>()?;
        Ok(engine::EventsReply::new(events, self.next, self.gap))
    }
}
