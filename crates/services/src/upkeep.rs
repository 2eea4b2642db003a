//! The services that process jobs: promote, reclaim, expire, retain, compact. Each wraps one type of the
//! engine's maintenance; the engine decides what to do with which job.

use crate::board::ServiceName;
use crate::service::{NextRun, Service, Step, StepContext};
use metrics::counter;
use windlass_core::engine::{MaintainReply, MaintainRequest, Work};
use windlass_core::limits::REMOVED_KEPT_DEFAULT_MS;
use windlass_core::{Result, Timestamp};

/// One type of maintenance as a service.
pub(crate) struct UpkeepService {
    work: Work,
    name: ServiceName,
    batch: u32,
    /// How long the history of removed jobs is kept.
    history_ms: u64,
}

impl UpkeepService {
    pub(crate) const fn promote(batch: u32) -> Self {
        Self::new(Work::Promote, ServiceName::Promote, batch)
    }

    pub(crate) const fn reclaim(batch: u32) -> Self {
        Self::new(Work::Reclaim, ServiceName::Reclaim, batch)
    }

    pub(crate) const fn expire(batch: u32) -> Self {
        Self::new(Work::Expire, ServiceName::Expire, batch)
    }

    pub(crate) const fn retain(batch: u32) -> Self {
        Self::new(Work::Retain, ServiceName::Retain, batch)
    }

    pub(crate) const fn compact(batch: u32, history_ms: u64) -> Self {
        Self { history_ms, ..Self::new(Work::Compact, ServiceName::Compact, batch) }
    }

    const fn new(work: Work, name: ServiceName, batch: u32) -> Self {
        Self { work, name, batch, history_ms: REMOVED_KEPT_DEFAULT_MS }
    }

    fn count(&self, reply: &MaintainReply) {
        let service = self.name.as_str();
        for tally in &reply.tallies {
            let (from, to) = (tally.from.as_str(), tally.to.map_or("gone", |to| to.as_str()));
            counter!("windlass_jobs_moved_total", "service" => service, "from" => from, "to" => to)
                .increment(tally.count);
        }
    }
}

impl Service for UpkeepService {
    fn name(&self) -> ServiceName {
        self.name
    }

    async fn step(&mut self, context: StepContext<'_>) -> Result<Step> {
        let request = MaintainRequest::new(self.work, self.batch);
        let answer = context.engine.maintain(request.removed_kept_ms(self.history_ms)).await?;
        self.count(&answer.value);
        let again = again(self.work, &answer.value, answer.now);
        Ok(Step { now: answer.now, items: answer.value.done.into(), again })
    }
}

/// Pause of retention after a step that removed nothing but reported more work.
const LOOKING_REST_MS: u64 = 100;

/// When to run again. Jobs wait for promotion and reclaiming, so these services wake when the next item is
/// due, and only the engine knows how soon it must compact; the others collect due items and process them in
/// batches.
fn again(work: Work, reply: &MaintainReply, now: Timestamp) -> NextRun {
    let prompt = matches!(work, Work::Promote | Work::Reclaim);
    let timed = prompt || work == Work::Compact;
    let more = reply.more && reply.done > 0;
    match reply.next_at {
        _ if more && prompt => NextRun::Now,
        _ if more => NextRun::Rested,
        // An engine that removes many jobs at once scans them first.
        _ if reply.more && work == Work::Retain => NextRun::After(LOOKING_REST_MS),
        Some(at) if timed && at > now => NextRun::After(at.since(now)),
        // Due, but the engine did nothing about it: running again immediately would spin.
        _ => NextRun::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_wakes_for_what_is_waited_for_and_never_spins() {
        let now = Timestamp::from_millis(1_000);
        let mut reply = MaintainReply::default();
        assert_eq!(again(Work::Promote, &reply, now), NextRun::Idle);
        reply.next_at = Some(now.plus(40));
        assert_eq!(again(Work::Promote, &reply, now), NextRun::After(40));
        assert_eq!(again(Work::Compact, &reply, now), NextRun::After(40));
        assert_eq!(again(Work::Retain, &reply, now), NextRun::Idle);
        reply.next_at = Some(now);
        assert_eq!(again(Work::Reclaim, &reply, now), NextRun::Idle);
        reply.more = true;
        assert_eq!(
            again(Work::Reclaim, &reply, now),
            NextRun::Idle,
            "more, but it does not get on"
        );
        let soon = NextRun::After(LOOKING_REST_MS);
        assert_eq!(
            again(Work::Retain, &reply, now),
            soon,
            "it looks through what it removes later"
        );
        reply.done = 1;
        assert_eq!(again(Work::Reclaim, &reply, now), NextRun::Now);
        assert_eq!(again(Work::Retain, &reply, now), NextRun::Rested);
    }
}
