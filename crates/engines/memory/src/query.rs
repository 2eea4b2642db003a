//! Looking at jobs and lanes.

use crate::store::Store;
use std::ops::Bound;
use windlass_core::engine::{Cursor, Get, LaneStats, List, ListOrder, Page, StatsRequest};
use windlass_core::model::{Job, State};
use windlass_core::{Error, JobId, Result};

/// Jobs one page looks at; a filter that matches few gives short pages instead of long waits.
const SCAN_MAX: usize = 10_000;

impl Store {
    pub(crate) fn get(&self, request: &Get) -> Vec<Option<Job>> {
        let job = |id| self.jobs.get(id).map(|entry| entry.view(request.parts));
        request.ids.iter().map(job).collect()
    }

    pub(crate) fn list(&self, request: &List) -> Result<Page<Job>> {
        let after = request.after.as_ref().map(place).transpose()?;
        let beyond = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (limit, filter) = (request.limit as usize, &request.filter);
        let mut ids: Box<dyn Iterator<Item = (&JobId, _)>> = match request.order {
            ListOrder::Newest => Box::new(self.jobs.range((Bound::Unbounded, beyond)).rev()),
            ListOrder::Oldest => Box::new(self.jobs.range((beyond, Bound::Unbounded))),
        };
        let (mut rows, mut last) = (Vec::new(), None);
        for (id, entry) in ids.by_ref().take(SCAN_MAX) {
            last = Some(*id);
            let header = &entry.job.header;
            let fits = filter.queue.as_ref().is_none_or(|queue| header.queue == *queue)
                && filter.kind.as_ref().is_none_or(|kind| header.kind == *kind)
                && filter.state.is_none_or(|state| entry.job.state == state);
            if fits {
                rows.push(entry.summary());
            }
            if rows.len() == limit {
                break;
            }
        }
        let more = ids.next().is_some();
        let next = last.filter(|_| more).map(|id| Cursor::new(id.to_string()));
        Ok(Page { rows, next })
    }

    pub(crate) fn stats(&self, request: &StatsRequest) -> Vec<LaneStats> {
        let wanted = |queue| request.queue.as_ref().is_none_or(|only| only == queue);
        let lanes = self.index.lanes.iter().filter(|((queue, _), _)| wanted(queue));
        lanes
            .map(|(key, lane)| {
                let mut stats = LaneStats::empty(key.0.clone(), key.1.clone());
                for state in State::ALL {
                    if let Some(counter) = stats.counter(state) {
                        *counter = lane.count(state);
                    }
                }
                let head = lane.ready.first_key_value().and_then(|(_, id)| self.jobs.get(id));
                stats.head_ready_at = head.map(|entry| entry.ready_at);
                stats.gate = self.gate(key);
                stats
            })
            .collect()
    }
}

/// The job a page ended with.
fn place(cursor: &Cursor) -> Result<JobId> {
    cursor.as_str().parse().map_err(|_| bad_cursor(cursor))
}

/// A cursor this engine did not make.
pub(crate) fn bad_cursor(cursor: &Cursor) -> Error {
    Error::invalid("cursor", cursor, "use a cursor that an earlier page returned")
}
