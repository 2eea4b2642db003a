//! Events: a deque per queue.

use std::collections::{BTreeMap, VecDeque};
use windlass_core::engine::{Event, EventSpan, EventsReply, EventsRequest, events_are_off};
use windlass_core::model::{EventBounds, Name};
use windlass_core::{Result, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Events {
    streams: BTreeMap<Name, Stream>,
}

#[derive(Debug)]
struct Stream {
    span: EventSpan,
    /// The events after `span.dropped`.
    kept: VecDeque<Event>,
}

impl Stream {
    /// Removes the events that the span has dropped.
    fn trim(&mut self) {
        let surplus = self.kept.len().saturating_sub(self.span.len() as usize);
        self.kept.drain(..surplus);
    }

    /// Drops up to `limit` events from before `cutoff`; returns whether more are left.
    fn drop_before(&mut self, cutoff: Timestamp, limit: &mut usize) -> bool {
        let is_old = |event: &&Event| event.at < cutoff;
        let old = self.kept.iter().take(*limit).take_while(is_old).count();
        self.span.drop_to(self.span.dropped + old as u64);
        self.trim();
        *limit -= old;
        self.kept.front().as_ref().is_some_and(is_old)
    }
}

impl Events {
    pub(crate) fn append(&mut self, queue: &Name, bounds: EventBounds, event: Event) {
        let Some(stream) = self.streams.get_mut(queue) else { return };
        stream.span.append();
        stream.kept.push_back(event);
        stream.span.keep(bounds.max);
        stream.trim();
    }

    pub(crate) fn reset(&mut self, queue: &Name, now: Timestamp) {
        let previous = self.streams.get(queue).map(|stream| stream.span);
        let span = EventSpan::begin(now, previous);
        self.streams.insert(queue.clone(), Stream { span, kept: VecDeque::new() });
    }

    pub(crate) fn page(&self, request: &EventsRequest) -> Result<EventsReply> {
        let EventsRequest { queue, from, limit, .. } = request;
        let Some(Stream { span, kept }) = self.streams.get(queue) else {
            return Err(events_are_off(queue));
        };
        let begin = span.resume(queue, from)?;
        let read = (begin.0 - span.dropped) as usize;
        let events = (begin.0 + 1..).zip(kept.iter().skip(read).take(*limit as usize).cloned());
        Ok(span.reply(queue, begin, events))
    }

    /// See [`windlass_executor::Maintenance::drop_events`].
    pub(crate) fn drop_old(
        &mut self,
        bounds: &dyn Fn(&Name) -> Option<EventBounds>,
        now: Timestamp,
        mut limit: usize,
    ) -> bool {
        let mut more = false;
        self.streams.retain(|queue, stream| match bounds(queue) {
            Some(bounds) => {
                stream.span.keep(bounds.max);
                stream.trim();
                more |= stream.drop_before(now.minus(bounds.max_age_ms), &mut limit);
                true
            }
            // The next stream of the queue must not begin with numbers of this one.
            None => stream.span.is_recent(now),
        });
        more
    }
}
