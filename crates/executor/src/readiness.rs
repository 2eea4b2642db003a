//! Whether jobs of a lane may be claimed, and when: gates, limits over all jobs, and lines that open.

use crate::executor::Executor;
use crate::rows::{Head, LaneKey, Rows};
use windlass_core::engine::Wait;
use windlass_core::model::Name;
use windlass_core::policy::{Allowance, Room, allowance};
use windlass_core::{Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// How many jobs of a lane its settings allow to be claimed.
    pub(crate) fn allowance(&self, (queue, kind): &LaneKey, now: Timestamp) -> Allowance {
        allowance(self.queues.get(queue), self.kinds.get(kind), now)
    }

    /// How many jobs of a lane may be claimed; `head`: the first of them.
    pub(crate) fn allowance_for(
        &self,
        lane: &LaneKey,
        head: Option<&Head>,
        now: Timestamp,
    ) -> Result<Allowance> {
        let settings = self.allowance(lane, now);
        let Some(head) = head.filter(|_| !self.limits_of(lane).is_empty()) else {
            return Ok(settings);
        };
        let cost = self.read(head.id, |entry| entry.job.header.cost)?;
        Ok(settings.under(self.room_over_all(lane, cost, now)?))
    }

    /// Whether a job of these lanes could be claimed now, and if not, when time alone makes one claimable.
    pub fn readiness(&self, wait: &Wait, now: Timestamp) -> Result<Room> {
        let wanted = |kind: &Name| wait.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        let mut opens_at: Option<Timestamp> = None;
        for queue in &wait.queues {
            opens_at = opens_at.into_iter().chain(self.opening_of(queue)?).min();
            for lane in self.rows.lanes(queue).into_iter().filter(|(_, kind)| wanted(kind)) {
                let ready = self.rows.ready(&lane, None, 1)?;
                let Some(head) = ready.first() else { continue };
                let allowance = self.allowance_for(&lane, Some(head), now)?;
                if allowance.is_open() {
                    return Ok(Room::Now);
                }
                opens_at = opens_at.into_iter().chain(allowance.opens_at).min();
            }
        }
        Ok(match opens_at {
            None => Room::Later,
            Some(at) if at <= now => Room::Now,
            Some(at) => Room::At(at),
        })
    }

    /// When the first line of a queue opens.
    fn opening_of(&self, queue: &Name) -> Result<Option<Timestamp>> {
        Ok(self.rows.openings(queue, 1)?.first().map(|opening| opening.at))
    }
}
