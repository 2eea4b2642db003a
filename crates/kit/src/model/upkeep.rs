//! Operators and maintenance in a sequence: changes, and the passing of time.

use super::interpreter::{Code, Model, ModelJob, agree, slot};
use super::lockstep::{Lockstep, Same};
use super::op::{Edit, SIGNALS, Wish};
use super::translate::{change, policy, queue};
use std::collections::HashSet;
use windlass_core::JobId;
use windlass_core::engine::{MaintainRequest, Work};
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::State;
use windlass_core::policy::{expires_at, keep_until};

impl Lockstep {
    pub(super) async fn maintain(&mut self, work: Work, budget: u32) -> Same {
        // The order in which a small budget reaches overdue jobs is promised only for promotion.
        let budget = if work == Work::Promote { budget } else { MAINTAIN_BUDGET_MAX };
        let request = MaintainRequest::new(work, budget);
        let got = self.rig.engine().maintain(request).await.map_err(|e| e.to_string())?.value;
        let due = self.overdue(work);
        let event = match work {
            Work::Promote => EventKind::Due,
            Work::Expire => EventKind::Expire,
            Work::Retain => EventKind::Retain,
            _ => EventKind::Lose,
        };
        let left = due.len().saturating_sub(budget as usize);
        if work != Work::Reclaim {
            let done = due.len().min(budget as usize) as u32;
            agree("the work done and left", &(done, left > 0), &(got.done, got.more))?;
        }
        for id in due.into_iter().take(budget as usize) {
            let run_at = (work == Work::Reclaim).then(|| self.model.crash_span(id));
            self.model.apply(id, event, run_at, None).map_err(str::to_owned)?;
        }
        if work == Work::Reclaim {
            let now = self.model.now;
            self.model.sessions.retain(|_, session| session.expires_at > now);
        }
        if work != Work::Promote {
            self.model.in_any_order();
        }
        Ok(())
    }

    /// The ended jobs beyond the number that their queue keeps.
    fn surplus(&self) -> HashSet<JobId> {
        let mut surplus = HashSet::new();
        for (queue, settings) in &self.model.queues {
            for (state, most) in settings.keep_max.limits() {
                let ended = self.model.jobs.values().filter(|job| {
                    let own = job.new.policy.retention.is_some();
                    job.state == state && job.new.queue == *queue && !own
                });
                let mut ended: Vec<_> = ended.map(|job| (job.finished_at, job.id)).collect();
                ended.sort_unstable();
                let oldest = ended.len().saturating_sub(most as usize);
                surplus.extend(ended.into_iter().take(oldest).map(|(_, id)| id));
            }
        }
        surplus
    }

    /// The jobs that some work must process now, in order.
    fn overdue(&self, work: Work) -> Vec<JobId> {
        let (model, now) = (&self.model, self.model.now);
        let surplus = if work == Work::Retain { self.surplus() } else { HashSet::new() };
        let is_due = |job: &&ModelJob| -> bool {
            let settings = model.queues.get(&job.new.queue).cloned().unwrap_or_default();
            let policy = &job.new.policy;
            match (work, job.state) {
                (Work::Promote, State::Scheduled) => job.run_at.0 <= now,
                (Work::Expire, State::Blocked | State::Available | State::Paused) => {
                    let at = expires_at(job.run_at.0, policy.max_wait_ms, settings.max_wait_ms);
                    at.is_some_and(|at| at <= now)
                }
                (Work::Retain, state) => job.finished_at.is_some_and(|at| {
                    keep_until(state, at, policy.retention, settings.retention) <= now
                        || surplus.contains(&job.id)
                }),
                (Work::Reclaim, State::Running) => job.leased.as_ref().is_some_and(|leased| {
                    model.sessions.get(&leased.session).is_none_or(|s| s.expires_at <= now)
                }),
                _ => false,
            }
        };
        let mut due: Vec<&ModelJob> = model.jobs.values().filter(is_due).collect();
        due.sort_by_key(|job| (job.run_at.0, job.entered));
        due.into_iter().map(|job| job.id).collect()
    }
}

impl ModelJob {
    fn edit(&mut self, edit: Edit) {
        self.payload = edit.payload.or(self.payload);
        self.checkpoint = self.checkpoint.filter(|_| !edit.start_over);
        self.new.priority = edit.priority.unwrap_or(self.new.priority);
        if let Some(max_attempts) = edit.max_attempts {
            self.new.policy = policy(max_attempts);
        }
    }
}

/// The expected result of an operator's change.
pub(super) fn wished(
    model: &mut Model,
    id: JobId,
    wish: Wish,
    if_state: Option<State>,
) -> Result<Option<State>, Code> {
    let found = model.jobs.get(&id).map(|job| job.state);
    if found.is_some_and(|found| if_state.is_some_and(|expected| expected != found)) {
        return Err("state_conflict");
    }
    let now = model.now;
    let at = |ms| Some((now.plus(ms), now.plus(ms)));
    let event = change(wish).event();
    let run_at = match wish {
        Wish::Promote => at(0),
        Wish::Reschedule(ms) | Wish::Replay(Edit { delay_ms: ms, .. }) => at(ms),
        _ => None,
    };
    if let (Wish::Reprioritise(priority), Some(job)) = (wish, model.jobs.get_mut(&id)) {
        job.new.priority = priority;
    }
    if let (Wish::Replay(edit), Some(job)) = (wish, model.jobs.get_mut(&id)) {
        job.edit(edit);
    }
    let to = match wish {
        Wish::Move(to) | Wish::Replay(Edit { queue: Some(to), .. }) => Some(queue(to)),
        _ => None,
    };
    if matches!(wish, Wish::Replay(_))
        && let Some(job) = model.jobs.get(&id)
        && matches!(job.state, State::Dead | State::Cancelled | State::Expired)
        && job.new.unique.is_some()
    {
        let mut there = job.new.clone();
        there.queue = to.clone().unwrap_or(there.queue);
        if model.holder(&slot(&there)).is_some_and(|holder| holder != id) {
            return Err("duplicate");
        }
    }
    let was_in = model.jobs.get(&id).map(|job| job.new.queue.clone());
    if let Wish::Signal(name) = wish {
        model.delivers = Some(SIGNALS[name].into());
    }
    let next = model.apply_in(id, event, run_at, to.clone());
    model.delivers = None;
    let next = next?;
    // The job counts as depth by now.
    if let (Wish::Move(_), Some(to)) = (wish, to.filter(|to| Some(to) != was_in.as_ref()))
        && let Some(limit) = model.queues.get(&to).and_then(|settings| settings.max_depth)
        && model.depth(&to) > limit
    {
        return Err("queue_full");
    }
    Ok(next)
}
