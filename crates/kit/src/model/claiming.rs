//! What a claim must return: jobs in order, within its limits, skipping gated lanes, suspects alone.

use super::interpreter::{Leased, Model, ModelJob, agree};
use windlass_core::JobId;
use windlass_core::engine::{ClaimedJob, Lease, SessionId};
use windlass_core::limits::SUSPECT_CRASHES;
use windlass_core::machine::EventKind;
use windlass_core::model::{Name, State};

/// The parameters of a claim.
pub(super) struct Wants<'a> {
    pub(super) session: &'a SessionId,
    pub(super) claim_no: u64,
    pub(super) queues: &'a [(Name, u32)],
    pub(super) kinds: Option<&'a [(Name, u32)]>,
    pub(super) limit: u32,
    pub(super) from_priority: Option<i32>,
}

impl Model {
    /// Checks the result of a claim and applies it to the model.
    pub(super) fn claim(&mut self, wants: &Wants<'_>, got: &[ClaimedJob]) -> Result<(), String> {
        let again = self.leased_under(wants);
        if !again.is_empty() {
            let same = got.iter().map(|job| (job.header.id, job.lease.clone())).collect::<Vec<_>>();
            return agree("the jobs of the same claim", &again, &same);
        }
        let mut rest = got.iter();
        let mut taken: Vec<JobId> = Vec::new();
        for (queue, limit) in wants.queues {
            let mut closed: Vec<Name> = Vec::new();
            let mut left = *limit;
            while left > 0 {
                let best = self.best(queue, wants, &taken, &closed);
                let Some(first) = best.first() else { break };
                let suspect = self.jobs[first].counters.crashes >= SUSPECT_CRASHES;
                if suspect && !taken.is_empty() {
                    closed.push(self.jobs[first].new.kind.clone());
                    continue;
                }
                let Some(job) = rest.next() else {
                    return Err(format!("the claim stopped short of {best:?}"));
                };
                if !best.contains(&job.header.id) {
                    return Err(format!("claimed {} where {best:?} was first", job.header.id));
                }
                self.lease_out(wants, job, taken.len())?;
                taken.push(job.header.id);
                left -= 1;
                if suspect {
                    return rest
                        .next()
                        .map_or(Ok(()), |_| Err("a suspect was not claimed alone".into()));
                }
            }
        }
        rest.next().map_or(Ok(()), |job| Err(format!("claimed {} too", job.header.id)))
    }

    /// The jobs, in order, that are leased under this claim.
    fn leased_under(&self, wants: &Wants<'_>) -> Vec<(JobId, Lease)> {
        let mut again: Vec<_> = self
            .jobs
            .values()
            .filter_map(|job| job.leased.as_ref().map(|leased| (job.id, leased)))
            .filter(|(_, l)| l.session == *wants.session && l.claim_no == wants.claim_no)
            .collect();
        again.sort_by_key(|(_, leased)| leased.turn);
        again.into_iter().map(|(id, leased)| (id, leased.lease.clone())).collect()
    }

    /// The jobs of a queue that may be claimed next: the first by rank and order of entry, and its equals.
    fn best(
        &self,
        queue: &Name,
        wants: &Wants<'_>,
        taken: &[JobId],
        closed: &[Name],
    ) -> Vec<JobId> {
        let of_kind =
            |kind: &Name| taken.iter().filter(|id| self.jobs[id].new.kind == *kind).count();
        let has_room = |kind: &Name| {
            let requested = wants.kinds.is_none_or(|kinds| {
                kinds.iter().any(|(name, limit)| name == kind && of_kind(kind) < *limit as usize)
            });
            requested && taken.len() < wants.limit as usize && !closed.contains(kind)
        };
        let open: Vec<&ModelJob> = self
            .jobs
            .values()
            .filter(|job| job.state == State::Available && job.new.queue == *queue)
            .filter(|job| has_room(&job.new.kind) && self.gate(queue, &job.new.kind).is_none())
            .filter(|job| wants.from_priority.is_none_or(|from| job.rank >= from.into()))
            .collect();
        let place = |job: &ModelJob| (job.rank, job.entered);
        let first = open.iter().map(|job| place(job)).min();
        open.iter().filter(|job| Some(place(job)) == first).map(|job| job.id).collect()
    }

    fn lease_out(
        &mut self,
        wants: &Wants<'_>,
        got: &ClaimedJob,
        turn: usize,
    ) -> Result<(), String> {
        let id = got.header.id;
        self.apply(id, EventKind::Claim, None, None).map_err(str::to_owned)?;
        let job = self.jobs.get_mut(&id).expect("it was just claimed");
        job.leased = Some(Leased {
            lease: got.lease.clone(),
            session: wants.session.clone(),
            claim_no: wants.claim_no,
            started_at: self.now,
            turn,
        });
        agree("the counters in the claim", &job.counters, &got.header.counters)?;
        agree("the start in the claim", &self.now, &got.started_at)?;
        Ok(())
    }
}
