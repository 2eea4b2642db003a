//! Steps in which many jobs end: their dependents are resolved together, and maintenance continues with the rest.

use crate::executor::Executor;
use crate::rows::Rows;
use windlass_core::engine::{MaintainReply, MaintainRequest};
use windlass_core::limits::RESULT_BYTES_MAX;
use windlass_core::{JobId, Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// Executes a step in which many jobs may end, and then resolves their dependents together. A store that is atomic by
    /// queue resolves them in the step of each job.
    pub(crate) fn resolving_together<T>(
        &mut self,
        now: Timestamp,
        step: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.rows.outbox().is_some() {
            return step(self);
        }
        let active = std::mem::replace(&mut self.resolving.active, true);
        let done = step(self);
        self.resolving.active = active;
        let resolved = self.resolve_ended(now);
        done.and_then(|done| resolved.map(|()| done))
    }

    /// Continues to resolve the dependents of jobs that have ended, within the budget that a step has left.
    pub fn continue_resolving(
        &mut self,
        ended: Vec<JobId>,
        request: MaintainRequest,
        reply: &mut MaintainReply,
        now: Timestamp,
    ) -> Result<()> {
        self.resolving.unfinished = false;
        let mut done = Ok(());
        for job in ended {
            let left = request.budget.saturating_sub(reply.done);
            if left == 0 || self.resolving.bytes_left < RESULT_BYTES_MAX {
                reply.more = true;
                break;
            }
            self.resolving.left = left;
            // Goes on after an error, as `resolve_ended` does.
            done = done.and(self.in_step_of(job, now, |executor| {
                let resolved = executor.resolve(job, now);
                resolved.and(executor.resolve_ended(now))
            }));
            reply.done += (left - self.resolving.left).max(1);
        }
        reply.more |= self.resolving.unfinished;
        done
    }
}
