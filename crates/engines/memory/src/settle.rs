//! Reports from workers: outcomes, progress, checkpoints.

use crate::enqueue::Ahead;
use crate::store::{Happening, Store};
use windlass_core::engine::{Enqueued, Item, Outcome, SettleItem, Settled, UpdateItem, Updated};
use windlass_core::limits::LOG_LINES_MAX;
use windlass_core::model::{Header, LogLine, NewJob, State};
use windlass_core::{Error, Timestamp};

impl Store {
    pub(crate) fn settle(&mut self, item: SettleItem, now: Timestamp) -> Item<Settled> {
        let SettleItem { id, ref lease, .. } = item;
        let entry = self.entry(id)?;
        if let Some(end) = entry.settled_under(lease) {
            let state = entry.job.state;
            return Ok(Settled { id, already: true, end, state, follow_ups: Vec::new() });
        }
        let leased = entry.leased_under(lease).ok_or(Error::LeaseLost { id })?.clone();
        item.check(now, self.capabilities.payload_bytes_max)?;
        let header = &entry.job.header;
        let what = self.happening(header, &item.outcome, item.priority, now);
        let follow_ups: Vec<NewJob> = (0..)
            .zip(item.follow_ups)
            .map(|(index, job)| job.follow_up_of(header, index, leased.started_at))
            .collect();
        let next = self.foresee_step(id, item.outcome.event(), &what, now)?.next;
        let ahead = Ahead::of_follow_ups(id, next.is_some_and(State::is_terminal));
        self.foresee_all(&follow_ups, ahead, now)
            .map_err(|(index, error)| error.within(format_args!("follow_ups[{index}]")))?;

        let Some(entry) = self.jobs.get_mut(&id) else { return Err(Error::NotFound { id }) };
        item.state.apply(&mut entry.job.parts.state);
        item.metadata.apply(&mut entry.job.parts.metadata);
        item.blob.apply(&mut entry.job.parts.blob);
        if let Outcome::Complete { result } = &item.outcome {
            entry.job.result.clone_from(result);
        }
        self.apply(id, item.outcome.event(), what, now)?;
        self.end_if_alone(&leased.session);
        let follow_ups = follow_ups.into_iter().map(|job| self.admit(job, now));
        let follow_ups = follow_ups.collect::<Result<Vec<Enqueued>, Error>>()?;
        let state = next.unwrap_or(State::Completed);
        Ok(Settled { id, already: false, end: item.outcome.end(), state, follow_ups })
    }

    /// The numbers that go with an outcome.
    fn happening(
        &self,
        header: &Header,
        outcome: &Outcome,
        priority: Option<i32>,
        now: Timestamp,
    ) -> Happening {
        let delay_ms = match outcome {
            Outcome::Retry { delay_ms: None, .. } => {
                let failures = header.counters.failures.saturating_add(1);
                header.policy.backoff.delay_ms(failures, &*self.random)
            }
            Outcome::Retry { delay_ms: Some(delay_ms), .. } | Outcome::Snooze { delay_ms } => {
                *delay_ms
            }
            _ => 0,
        };
        let error = match outcome {
            Outcome::Retry { error, .. } | Outcome::Fail { error } => Some(error.clone().bounded()),
            _ => None,
        };
        Happening { run_at: Some(now.plus(delay_ms)), priority, error, ..Happening::default() }
    }

    pub(crate) fn update(&mut self, item: UpdateItem, now: Timestamp) -> Item<Updated> {
        item.check()?;
        let id = item.id;
        let leased = self.entry(id)?.leased_under(&item.lease).ok_or(Error::LeaseLost { id })?;
        let session = leased.session.clone();
        if let Some(ms) = item.extend_ms {
            let session = self.session(&session)?;
            if !session.alone {
                let expected = "this lease lasts as long as its session: heartbeat that instead";
                return Err(Error::invalid("extend_ms", ms, expected));
            }
            session.expires_at = now.plus(ms);
        }
        let Some(entry) = self.jobs.get_mut(&id) else { return Err(Error::NotFound { id }) };
        let job = &mut entry.job;
        item.state.apply(&mut job.parts.state);
        item.metadata.apply(&mut job.parts.metadata);
        item.blob.apply(&mut job.parts.blob);
        if item.progress.is_some() {
            job.progress = item.progress;
        }
        job.log.extend(item.log.into_iter().map(|text| LogLine::new(now, text)));
        let surplus = job.log.len().saturating_sub(LOG_LINES_MAX);
        job.log.drain(..surplus);
        Ok(Updated::new(job.parts.only(item.fetch), job.cancel_requested))
    }
}
