//! The events of a queue: a bounded stream of the transitions of its jobs.
//!
//! Opt-in per queue ([`QueueSettings::events`](crate::model::QueueSettings::events)). A queue without events stores
//! nothing for them. Each transition of a job is appended in the same atomic step, so the stream has exactly the
//! transitions that were committed. A reader continues after a cursor; if events that it has not read were dropped, the
//! reply says so.

use super::{Capabilities, Capability, Cursor};
use crate::error::{Error, Result, within_range};
use crate::growing::growing;
use crate::id::JobId;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX, WAIT_MAX_MS};
use crate::machine::EventKind;
use crate::model::{Finish, Name, State};
use crate::name::check_name;
use crate::time::Timestamp;

growing! {
    /// One transition of a job.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Event as EventFields {
        /// The job.
        pub job: JobId,
        /// Its queue after the transition. A move from one queue to another is an event of both.
        pub queue: Name,
        /// Its kind.
        pub kind: Name,
        /// Number of the transition in the life of the job, from 1. Rises by 1, so that a reader recognizes events that it
        /// has read before, and missing ones.
        pub number: u32,
        /// The event of the state machine that caused the transition.
        pub event: EventKind,
        /// The state after it; `None`: the job was removed.
        pub state: Option<State>,
        /// The time, by the store's clock.
        pub at: Timestamp,
        /// How many attempts had started.
        pub attempt: u32,
        /// The reason of the end, if the job ended.
        pub reason: Option<Finish>,
        /// The code of the error that the worker reported with it.
        pub error: Option<String>,
    }
}

/// An event in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventEntry {
    /// The position after it.
    pub cursor: Cursor,
    /// The event.
    pub event: Event,
}

/// Where to begin to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventsFrom {
    /// The oldest event that is kept.
    #[default]
    Oldest,
    /// The next event after this call.
    Latest,
    /// The first event after a position.
    After(Cursor),
}

impl EventsFrom {
    /// The words for [`Oldest`](Self::Oldest) and [`Latest`](Self::Latest), which are not cursors.
    const OLDEST: &'static str = "oldest";
    const LATEST: &'static str = "latest";

    /// Reads `oldest`, `latest` or a cursor.
    pub fn of(text: &str) -> Self {
        match text {
            Self::OLDEST => Self::Oldest,
            Self::LATEST => Self::Latest,
            cursor => Self::After(Cursor::new(cursor)),
        }
    }

    /// The text that [`of`](Self::of) reads.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Oldest => Self::OLDEST,
            Self::Latest => Self::LATEST,
            Self::After(cursor) => cursor.as_str(),
        }
    }
}

/// A request for events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventsRequest {
    /// The queue.
    pub queue: Name,
    /// Where to begin.
    pub from: EventsFrom,
    /// Maximum number of events.
    pub limit: u32,
    /// How long to wait for an event if there is none yet.
    pub wait_ms: u64,
}

impl EventsRequest {
    /// The oldest events of a queue, without waiting.
    pub fn new(queue: impl Into<Name>) -> Self {
        Self { queue: queue.into(), from: EventsFrom::Oldest, limit: PAGE_DEFAULT, wait_ms: 0 }
    }

    /// Sets where to begin.
    #[must_use]
    pub fn from(mut self, from: EventsFrom) -> Self {
        self.from = from;
        self
    }

    /// Continues after a cursor.
    #[must_use]
    pub fn after(self, cursor: Cursor) -> Self {
        self.from(EventsFrom::After(cursor))
    }

    /// Sets the maximum number of events.
    #[must_use]
    pub const fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how long to wait for an event.
    #[must_use]
    pub const fn wait_ms(mut self, ms: u64) -> Self {
        self.wait_ms = ms;
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        check_name("queue", &self.queue)?;
        within_range("limit", self.limit.into(), 1..=PAGE_MAX.into())?;
        within_range("wait_ms", self.wait_ms, 0..=WAIT_MAX_MS)?;
        match &self.from {
            EventsFrom::Oldest | EventsFrom::Latest => Ok(()),
            EventsFrom::After(cursor) => EventPlace::of(cursor, &self.queue).map(|_| ()),
        }
    }
}

/// Events of a queue, oldest first. Fewer than the limit mean that there are no more for now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventsReply {
    /// The events.
    pub events: Vec<EventEntry>,
    /// The position after them, for the next request.
    pub next: Cursor,
    /// Whether events between the requested position and the first event of this reply, or `next` if it has none, are
    /// missing: they were dropped, or the position is of another stream, because events were switched off and on again or
    /// the store lost its data. Never set without a position.
    pub gap: bool,
}

impl EventsReply {
    /// A reply.
    pub const fn new(events: Vec<EventEntry>, next: Cursor, gap: bool) -> Self {
        Self { events, next, gap }
    }

    /// Whether a reader that waits has something to learn from it.
    pub const fn is_news(&self) -> bool {
        self.gap || !self.events.is_empty()
    }
}

/// The error for any request about events to an engine without [`Capability::Events`].
pub const fn events_unsupported(capabilities: &Capabilities) -> Error {
    Error::Unsupported {
        engine: capabilities.engine,
        capability: Capability::Events,
        hint: "list its jobs by state instead, or use another engine",
    }
}

/// The error for a request for events of a queue that has none.
pub fn events_are_off(queue: &Name) -> Error {
    Error::invalid(
        "queue",
        queue,
        "its events are off: switch them on (`windlass queues set QUEUE --events on`)",
    )
}

/// A position in the stream of a queue, as engines encode it in a [`Cursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlace {
    /// The [start](EventSpan::start) of the stream.
    pub stream: u64,
    /// The number of the last event before it.
    pub number: u64,
}

impl EventPlace {
    /// Encodes the position in the stream of a queue.
    pub fn cursor(self, queue: &Name) -> Cursor {
        Cursor::new(format!("{:x}.{:x}.{queue}", self.stream, self.number))
    }

    /// Decodes a position.
    pub fn of(cursor: &Cursor, queue: &Name) -> Result<Self> {
        let bad = |expected| Error::invalid("after", cursor, expected);
        let decode = || {
            let mut fields = cursor.as_str().splitn(3, '.');
            let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
            let place = Self { stream: number()?, number: number()? };
            Some((place, fields.next()?))
        };
        let expected = "use `oldest`, `latest` or a cursor that an earlier reply returned";
        let (place, of) = decode().ok_or_else(|| bad(expected))?;
        if of != &**queue {
            return Err(bad("it is a cursor of another queue"));
        }
        Ok(place)
    }
}

/// The numbers of a stream. Events are numbered without gaps; those up to `dropped` are not kept.
///
/// A stream starts at a number that no earlier stream of the queue has reached, also in a store that has lost all its data.
/// Its start therefore identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSpan {
    /// The number before the first event of the stream.
    pub start: u64,
    /// The number of the last event that was dropped, at least `start`.
    pub dropped: u64,
    /// The number of the last event.
    pub last: u64,
}

impl EventSpan {
    /// A new stream, after the previous one of the queue.
    pub fn begin(now: Timestamp, previous: Option<Self>) -> Self {
        let start = Self::earliest(now).max(previous.map_or(0, |span| span.last + 1));
        Self { start, dropped: start, last: start }
    }

    /// The first number of a stream that begins now: 2^20 per millisecond, more than any store can append.
    fn earliest(now: Timestamp) -> u64 {
        u64::try_from(now.as_millis()).unwrap_or_default() << 20
    }

    /// Whether a stream that begins now needs to know this one.
    pub fn is_recent(&self, now: Timestamp) -> bool {
        self.last >= Self::earliest(now)
    }

    /// How many events are kept.
    pub const fn len(&self) -> u64 {
        self.last - self.dropped
    }

    /// Whether no event is kept.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers the next event.
    pub const fn append(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Drops all events up to a number.
    pub fn drop_to(&mut self, number: u64) {
        self.dropped = number.clamp(self.dropped, self.last);
    }

    /// Drops the oldest events beyond a number of them.
    pub fn keep(&mut self, most: u64) {
        self.drop_to(self.last.saturating_sub(most));
    }

    /// The number of the event after which a request begins, and whether it has a gap there.
    pub fn resume(&self, queue: &Name, from: &EventsFrom) -> Result<(u64, bool)> {
        let cursor = match from {
            EventsFrom::Oldest => return Ok((self.dropped, false)),
            EventsFrom::Latest => return Ok((self.last, false)),
            EventsFrom::After(cursor) => cursor,
        };
        let EventPlace { stream, number } = EventPlace::of(cursor, queue)?;
        let is_kept = stream == self.start && (self.dropped..=self.last).contains(&number);
        Ok(if is_kept { (number, false) } else { (self.dropped, true) })
    }

    /// The reply with these events and their numbers, which were read after `number`.
    pub fn reply(
        &self,
        queue: &Name,
        (number, gap): (u64, bool),
        events: impl IntoIterator<Item = (u64, Event)>,
    ) -> EventsReply {
        let cursor = |number| EventPlace { stream: self.start, number }.cursor(queue);
        let entry = |(number, event)| EventEntry { cursor: cursor(number), event };
        let events: Vec<_> = events.into_iter().map(entry).collect();
        let next = events.last().map_or_else(|| cursor(number), |entry| entry.cursor.clone());
        EventsReply { events, next, gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn after(span: &EventSpan, queue: &str, number: u64) -> EventsFrom {
        EventsFrom::After(EventPlace { stream: span.start, number }.cursor(&queue.into()))
    }

    #[test]
    fn a_position_is_resumed_while_everything_after_it_is_kept() {
        let queue: Name = "q".into();
        let mut span = EventSpan::begin(NOW, None);
        let first = span.append();
        let second = span.append();
        let resume = |span: &EventSpan, number| span.resume(&queue, &after(span, "q", number));
        assert_eq!(resume(&span, span.start), Ok((span.start, false)));
        assert_eq!(resume(&span, second), Ok((second, false)));
        span.keep(1);
        assert_eq!(span.len(), 1);
        assert_eq!(resume(&span, first), Ok((first, false)), "it has seen what was dropped");
        assert_eq!(resume(&span, span.start), Ok((first, true)));
        assert_eq!(resume(&span, second + 1), Ok((first, true)), "the store was set back");
    }

    #[test]
    fn a_stream_begins_after_all_earlier_ones_even_within_a_millisecond() {
        let queue: Name = "q".into();
        let mut old = EventSpan::begin(NOW, None);
        let first = old.append();
        let cursor = after(&old, "q", first);
        let fresh = EventSpan::begin(NOW, Some(old));
        assert!(fresh.start > old.last && old.is_recent(NOW));
        assert!(!old.is_recent(NOW.plus(1)));
        for next in [fresh, EventSpan::begin(NOW.plus(1), None)] {
            assert_eq!(next.resume(&queue, &cursor), Ok((next.start, true)));
        }
    }

    #[test]
    fn cursors_of_other_queues_and_other_texts_are_refused() {
        let queue: Name = "a.b".into();
        let span = EventSpan::begin(NOW, None);
        assert!(span.resume(&queue, &after(&span, "a.b", 1)).is_ok());
        for from in [after(&span, "b", 1), EventsFrom::of(""), EventsFrom::of("1.x.a.b")] {
            let error = EventsRequest::new("a.b").from(from).check().unwrap_err().to_string();
            assert!(error.starts_with("after is"), "{error}");
        }
    }
}
