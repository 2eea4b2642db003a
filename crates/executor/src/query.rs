//! Queries for jobs, lanes and records.

use crate::executor::Executor;
use crate::rows::{Maintenance, Records, Rows};
use windlass_core::engine::{
    CheckReport, Get, Item, LaneStats, RecordOp, RecordReply, StatsRequest, check_items,
};
use windlass_core::model::Job;
use windlass_core::{Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// Jobs by id.
    pub fn get(&self, request: &Get) -> Result<Vec<Option<Job>>> {
        request.check()?;
        let job = |id| self.rows.with_job(id, |entry| entry.view(request.parts));
        let mut jobs: Vec<_> = request.ids.iter().map(|id| job(*id)).collect::<Result<_>>()?;
        for job in jobs.iter_mut().flatten().filter(|job| job.dependencies.total > 0) {
            job.inputs = self.rows.inputs(job.header.id)?;
        }
        self.show_running(jobs.iter_mut().flatten());
        Ok(jobs)
    }

    /// Restricts counts per lane to the request, and adds the reason why a lane is closed.
    pub fn lanes(
        &self,
        request: &StatsRequest,
        mut lanes: Vec<LaneStats>,
        now: Timestamp,
    ) -> Result<Vec<LaneStats>> {
        lanes.retain(|lane| request.queue.as_ref().is_none_or(|queue| *queue == lane.queue));
        for lane in &mut lanes {
            let key = (lane.queue.clone(), lane.kind.clone());
            let limited = !self.limits_of(&key).is_empty();
            let ready = if limited { self.rows.ready(&key, None, 1)? } else { Vec::new() };
            lane.gate = self.allowance_for(&key, ready.first(), now)?.gate;
        }
        Ok(lanes)
    }
}

impl<R: Maintenance> Executor<R> {
    /// Counts per lane.
    pub fn stats(&self, request: &StatsRequest, now: Timestamp) -> Result<Vec<LaneStats>> {
        let mut lanes = self.lanes(request, self.rows.stats()?, now)?;
        if request.by_priority {
            self.report_priorities(&mut lanes)?;
        }
        Ok(lanes)
    }

    /// Checks that rows and everything derived from them agree, and that no line waits for nothing.
    pub fn check(&mut self, repair: bool, now: Timestamp) -> Result<CheckReport> {
        let sessions = &self.sessions;
        let mut report = self.rows.check(&|id| sessions.contains_key(id), repair)?;
        report.findings.extend(self.check_lines(repair, now)?);
        Ok(report)
    }
}

impl<R: Rows + Records> Executor<R> {
    /// Operations on records, in order.
    pub fn records(
        &mut self,
        batch: Vec<RecordOp>,
        now: Timestamp,
    ) -> Result<Vec<Item<RecordReply>>> {
        check_items(&batch)?;
        let perform = |op: RecordOp| op.check().and_then(|()| self.rows.record(op, now));
        Ok(batch.into_iter().map(perform).collect())
    }
}
