//! Reports from workers: outcomes, progress, checkpoints.

use crate::commit::{Taken, Transition};
use crate::enqueue::BatchPreview;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use crate::topics::Expanded;
use windlass_core::engine::{
    Enqueued, Item, Outcome, SessionId, Settle, SettleItem, SettleReply, Settled, Update,
    UpdateItem, Updated,
};
use windlass_core::limits::{CALL_RESOLUTIONS_MAX, LOG_LINES_MAX};
use windlass_core::model::{Continuation, Header, LogLine, NewJob, State, Step};
use windlass_core::{Error, Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// Reports outcomes, and claims; see [`windlass_core::engine::Jobs::settle`].
    pub fn settle(&mut self, request: &Settle, now: Timestamp) -> Result<SettleReply> {
        request.check()?;
        self.begin_resolving(CALL_RESOLUTIONS_MAX);
        let items = request.items.iter().map(|item| self.settle_one(item, now)).collect();
        let claimed = request.claim.as_ref().map(|claim| self.claim(claim, now));
        Ok(SettleReply::new(items, claimed))
    }

    fn settle_one(&mut self, item: &SettleItem, now: Timestamp) -> Item<Settled> {
        self.in_step_of(item.id, now, |executor| executor.settle_in_step(item, now))
    }

    fn settle_in_step(&mut self, item: &SettleItem, now: Timestamp) -> Item<Settled> {
        let SettleItem { id, ref lease, .. } = *item;
        // Read in its place, not taken: a follow-up may name this very job.
        let preview = self.read(id, |entry| match entry.settled_under(lease) {
            Some(end) => Err(Ok((end, entry.job.state))),
            None => self.preview_settle(entry, item, now).map_err(Err),
        })?;
        let mut plan = match preview {
            Ok(plan) => plan,
            Err(Ok((end, state))) => {
                return Ok(Settled::new(id, end, state).with_already());
            }
            Err(Err(error)) => return Err(error),
        };
        // Before the end of the attempt: it may be what the joined job waits for.
        let early = match plan.joins {
            true => self.admit_joining(id, std::mem::take(&mut plan.follow_ups), now)?,
            false => Vec::new(),
        };
        let taken = self.take_for(id, item.outcome.event(), &plan.data, now)?;
        let mut settled = self.settle_as(taken, item, plan, now)?;
        settled.follow_ups.extend(early);
        Ok(settled)
    }

    /// Checks whether a report can be accepted, and computes its data.
    fn preview_settle(&self, entry: &Entry, item: &SettleItem, now: Timestamp) -> Result<Plan> {
        let id = item.id;
        let leased = entry.leased_under(&item.lease).ok_or(Error::LeaseLost { id })?;
        item.check(now, self.capabilities.payload_bytes_max)?;
        check_steps(entry, &item.steps)?;
        if let Some(hold) = &item.hold {
            self.check_hold(entry, hold)?;
        }
        let header = &entry.job.header;
        let mut data = Transition {
            priority: item.priority,
            queue: item.queue.clone(),
            ..self.transition(header, &item.outcome, now)
        };
        if let Outcome::Wait(wait) = &item.outcome {
            data.wait = Some(wait.clone());
            // It goes on at once if a signal is there already.
            data.run_at = data.run_at.filter(|_| !data.takes_signal(entry)).or(Some(now));
        }
        let follow_ups: Vec<NewJob> = (0..)
            .zip(item.follow_ups.iter().cloned())
            .map(|(index, job)| job.follow_up_of(header, index, leased.started_at, now))
            .collect();
        let within = |index: usize, error: Error| error.within(format_args!("follow_ups[{index}]"));
        let mut follow_ups =
            self.expand(follow_ups, 0, now).map_err(|(index, error)| within(index, error))?;
        let joins = self.check_joins(entry, item, &follow_ups, now)?;
        let moves_to = item.queue.as_ref().filter(|queue| **queue != header.queue);
        if moves_to.is_some() || !follow_ups.jobs.is_empty() {
            let next = self.decide(entry, item.outcome.event(), &data, now)?.next;
            let ends = next.is_some_and(State::is_terminal);
            if ends && item.outcome == Outcome::WaitForJobs {
                // It was cancelled, and waits for nothing.
                follow_ups = Expanded::default();
            }
            let mut preview = BatchPreview::of_follow_ups(id, ends && !joins);
            if let Some(queue) = moves_to.filter(|_| !ends) {
                self.preview_move(entry, queue, &mut preview, now)?;
            }
            let sends = |job: &&NewJob| self.is_elsewhere(&job.queue) || !job.after.is_empty();
            if self.rows.outbox().is_some() {
                self.check_outbox(follow_ups.jobs.iter().filter(sends).count())?;
            }
            self.preview_all(&follow_ups.jobs, preview, now)
                .map_err(|(index, error)| within(follow_ups.index_of(index), error))?;
        }
        Ok(Plan { data, follow_ups, joins, session: leased.session.clone() })
    }

    fn settle_as(
        &mut self,
        mut taken: Taken,
        item: &SettleItem,
        plan: Plan,
        now: Timestamp,
    ) -> Item<Settled> {
        let id = item.id;
        if !item.steps.is_empty() {
            taken.entry.continue_with(|continuation| continuation.record(&item.steps));
        }
        let job = &mut taken.entry.job;
        item.parts.clone().apply(&mut job.parts);
        if let Outcome::Complete { result } = &item.outcome {
            job.result.clone_from(result);
        }
        if let Some(hold) = &item.hold {
            // Before the end of the attempt, which may release others.
            self.hold(&taken.entry, hold, now)?;
        }
        let (next, ()) = self.commit(taken, plan.data, now, |_| ())?;
        self.end_if_alone(&plan.session)?;
        let follow_ups = self.admit_expanded(plan.follow_ups, now)?;
        let follow_ups = follow_ups.into_iter().collect::<Result<Vec<Enqueued>>>()?;
        let state = next.unwrap_or(State::Completed);
        let end = item.outcome.end(state);
        Ok(Settled::new(id, end, state).with_follow_ups(follow_ups))
    }

    /// The data of the transition that an outcome leads to.
    fn transition(&self, header: &Header, outcome: &Outcome, now: Timestamp) -> Transition {
        let delay_ms = outcome.delay_ms(|| {
            let failures = header.counters.failures.saturating_add(1);
            header.policy.backoff.delay_ms(failures, &*self.random)
        });
        let error = outcome.error().map(|error| error.clone().bounded());
        Transition { run_at: Some(now.plus(delay_ms)), error, ..Transition::default() }
    }

    /// Reports from running jobs; see [`windlass_core::engine::Jobs::update`].
    pub fn update(&mut self, request: Update, now: Timestamp) -> Result<Vec<Item<Updated>>> {
        request.check()?;
        Ok(request.items.into_iter().map(|item| self.update_one(item, now)).collect())
    }

    fn update_one(&mut self, item: UpdateItem, now: Timestamp) -> Item<Updated> {
        item.check(self.capabilities.payload_bytes_max)?;
        self.in_step_of(item.id, now, |executor| executor.update_in_step(item, now))
    }

    fn update_in_step(&mut self, item: UpdateItem, now: Timestamp) -> Item<Updated> {
        let id = item.id;
        let session = self.read(id, |entry| {
            let leased = entry.leased_under(&item.lease).ok_or(Error::LeaseLost { id })?;
            check_steps(entry, &item.steps)?;
            Ok::<_, Error>(leased.session.clone())
        })??;
        if let Some(ms) = item.extend_ms {
            if !self.session(&session)?.alone {
                let expected = "this lease lasts as long as its session: heartbeat that instead";
                return Err(Error::invalid("extend_ms", ms, expected));
            }
            self.extend_session(&session, now.plus(ms))?;
        }
        self.edit(id, |entry| {
            if !item.steps.is_empty() {
                entry.continue_with(|continuation| continuation.record(&item.steps));
            }
            let job = &mut entry.job;
            item.parts.apply(&mut job.parts);
            if item.progress.is_some() {
                job.progress = item.progress;
            }
            job.log.extend(item.log.into_iter().map(|text| LogLine::new(now, text)));
            let surplus = job.log.len().saturating_sub(LOG_LINES_MAX);
            job.log.drain(..surplus);
            let continuation = job.continuation.clone().filter(|_| item.recall);
            Updated::new(job.parts.only(item.fetch), job.cancel_requested).continuing(continuation)
        })
    }
}

/// Checks that the steps of a report can be recorded.
fn check_steps(entry: &Entry, steps: &[Step]) -> Result<()> {
    if steps.is_empty() {
        return Ok(());
    }
    match entry.continuation() {
        Some(continuation) => continuation.check_steps(steps),
        None => Continuation::default().check_steps(steps),
    }
}

/// A report that can be accepted.
struct Plan {
    data: Transition,
    follow_ups: Expanded,
    /// Whether some of them join jobs that wait.
    joins: bool,
    session: SessionId,
}
