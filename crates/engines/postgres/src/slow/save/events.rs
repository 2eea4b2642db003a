//! Writes the events of a run, and the streams that it begins and ends.

use super::Saver;
use crate::rows::codec;
use std::collections::BTreeSet;
use windlass_core::Result;
use windlass_core::engine::{EventFields, EventSpan};
use windlass_core::model::Name;

impl Saver<'_> {
    /// Writes events, and returns the queues whose readers have news.
    pub(super) fn events(&mut self) -> Result<BTreeSet<Name>> {
        let mut news = BTreeSet::new();
        for (queue, at, is_on) in self.set.event_resets() {
            self.rows.events_ended.push(queue.to_string());
            if is_on {
                self.rows.recorded.push(queue.to_string());
                // The statement knows the previous stream.
                let start = EventSpan::begin(at, None).start.cast_signed();
                self.rows.events_begun.push(queue.to_string(), start);
            }
            news.insert(queue.clone());
        }
        for (stream, event) in self.set.appended_events() {
            if !news.contains(stream) {
                news.insert(stream.clone());
            }
            let EventFields { job, queue, kind, number, event, state, at, attempt, reason, error } =
                event.clone().into();
            self.rows.event.push(
                stream.to_string(),
                at.as_millis(),
                job.as_uuid(),
                (queue != *stream).then(|| queue.to_string()),
                kind.to_string(),
                event.name().to_owned(),
                state.map(|state| state as i16),
                attempt.into(),
                number.into(),
                reason.as_ref().map(codec::json).transpose()?,
                error,
            );
        }
        Ok(news)
    }
}
