//! Leasing ready jobs: heads of open lanes, merged by (rank, seq), queue after queue.

use crate::entry::{ClaimNo, Leased};
use crate::index::LaneKey;
use crate::session::SessionEntry;
use crate::store::{Happening, Store};
use std::collections::{BTreeSet, HashMap};
use windlass_core::engine::{
    Claim, Claimant, ClaimedJob, Gate, KindWant, Lease, QueueWant, SessionId, Wait,
};
use windlass_core::machine::EventKind;
use windlass_core::model::{Name, PartSet};
use windlass_core::{JobId, Result, Timestamp};

/// Who a claim leases to.
struct Lessee {
    session: SessionId,
    claim_no: ClaimNo,
    worker: String,
}

/// How much more a claim may take.
struct Room {
    all: u32,
    /// By kind; a kind that is not named here is not wanted, unless all are.
    kinds: Option<HashMap<Name, u32>>,
}

impl Room {
    fn of(claim: &Claim) -> Self {
        let by_kind = |wants: &Vec<KindWant>| {
            wants.iter().map(|want| (want.kind.clone(), want.limit)).collect()
        };
        Self { all: claim.limit, kinds: claim.kinds.as_ref().map(by_kind) }
    }

    fn for_kind(&self, kind: &Name) -> u32 {
        let of_kind = match &self.kinds {
            Some(kinds) => kinds.get(kind).copied().unwrap_or(0),
            None => u32::MAX,
        };
        of_kind.min(self.all)
    }

    fn take(&mut self, kind: &Name) {
        self.all -= 1;
        if let Some(room) = self.kinds.as_mut().and_then(|kinds| kinds.get_mut(kind)) {
            *room -= 1;
        }
    }
}

impl Store {
    pub(crate) fn claim(&mut self, claim: &Claim, now: Timestamp) -> Result<Vec<ClaimedJob>> {
        let lessee = self.lessee(claim, now)?;
        let again = self.leased_under(&lessee, claim.parts);
        if !again.is_empty() {
            return Ok(again);
        }
        let mut room = Room::of(claim);
        let mut taken = Vec::new();
        for want in &claim.queues {
            let alone = self.claim_queue(want, &lessee, &mut room, &mut taken, now)?;
            if alone || room.all == 0 {
                break;
            }
        }
        self.end_if_alone(&lessee.session);
        let claimed = taken.iter().filter_map(|id| self.jobs.get(id)?.claimed(claim.parts));
        Ok(claimed.collect())
    }

    /// The session a claim leases to; one of its own if it has none.
    fn lessee(&mut self, claim: &Claim, now: Timestamp) -> Result<Lessee> {
        match &claim.by {
            Claimant::Session { session, claim_no } => {
                let worker = self.session(session)?.worker.clone();
                Ok(Lessee { session: session.clone(), claim_no: *claim_no, worker })
            }
            Claimant::Alone { claim_id, worker, lease_ms } => {
                // Named after the claim, so that repeating the claim finds it.
                let session = SessionId::new(format!("alone:{claim_id}"));
                self.sessions.entry(session.clone()).or_insert_with(|| SessionEntry {
                    worker: worker.clone(),
                    opened_at: now,
                    ttl_ms: *lease_ms,
                    expires_at: now.plus(*lease_ms),
                    alone: true,
                });
                Ok(Lessee { session, claim_no: 0, worker: worker.clone() })
            }
        }
    }

    /// The jobs still leased under this very claim, in the order they were claimed.
    fn leased_under(&self, lessee: &Lessee, parts: PartSet) -> Vec<ClaimedJob> {
        let held = self.index.held.get(&lessee.session).into_iter().flatten();
        let mut jobs: Vec<_> = held
            .filter_map(|id| self.jobs.get(id))
            .filter(|entry| entry.leased.as_ref().is_some_and(|l| l.claim_no == lessee.claim_no))
            .collect();
        jobs.sort_by_key(|entry| entry.seq);
        jobs.into_iter().filter_map(|entry| entry.claimed(parts)).collect()
    }

    /// Claims from one queue; `true` if it found a suspect, which must come alone.
    fn claim_queue(
        &mut self,
        want: &QueueWant,
        lessee: &Lessee,
        room: &mut Room,
        taken: &mut Vec<JobId>,
        now: Timestamp,
    ) -> Result<bool> {
        let mut closed: BTreeSet<LaneKey> = BTreeSet::new();
        let mut left = want.limit;
        while left > 0 {
            let Some((lane, id)) = self.best_head(&want.queue, room, &closed) else { break };
            let suspect = self.entry(id)?.job.header.counters.is_suspect();
            if suspect && !taken.is_empty() {
                closed.insert(lane);
                continue;
            }
            self.lease_out(id, lessee, now)?;
            room.take(&lane.1);
            taken.push(id);
            left -= 1;
            if suspect {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first job of the queue's open lanes, by (rank, seq).
    fn best_head(
        &self,
        queue: &Name,
        room: &Room,
        closed: &BTreeSet<LaneKey>,
    ) -> Option<(LaneKey, JobId)> {
        self.index
            .lanes_of(queue)
            .filter(|(key, _)| room.for_kind(&key.1) > 0 && !closed.contains(*key))
            .filter(|(key, _)| self.gate(key).is_none())
            .filter_map(|(key, lane)| lane.ready.first_key_value().map(|head| (head, key)))
            .min()
            .map(|((_, id), key)| (key.clone(), *id))
    }

    fn lease_out(&mut self, id: JobId, lessee: &Lessee, now: Timestamp) -> Result<()> {
        let lease = Leased {
            lease: Lease::random(&*self.random),
            session: lessee.session.clone(),
            claim_no: lessee.claim_no,
            worker: lessee.worker.clone(),
            started_at: now,
        };
        let what = Happening { lease: Some(lease), ..Happening::default() };
        self.apply(id, EventKind::Claim, what, now)?;
        let Some(entry) = self.jobs.get(&id) else { return Ok(()) };
        let header = &entry.job.header;
        if let Some(permits) = self.kinds.get_mut(&header.kind).and_then(|k| k.permits.as_mut()) {
            *permits = permits.saturating_sub(1);
        }
        if let Some(turns) = self.turns.get_mut(&header.queue) {
            turns.clock.serve(entry.rank);
        }
        Ok(())
    }

    /// Why nothing of a lane may be claimed.
    pub(crate) fn gate(&self, (queue, kind): &LaneKey) -> Option<Gate> {
        let kind = self.kinds.get(kind);
        if self.queues.get(queue).is_some_and(|settings| settings.paused) {
            Some(Gate::QueuePaused)
        } else if kind.is_some_and(|settings| settings.paused) {
            Some(Gate::KindPaused)
        } else if kind.is_some_and(|settings| settings.permits == Some(0)) {
            Some(Gate::NoPermits)
        } else {
            None
        }
    }

    /// Whether something of these lanes could be claimed now.
    pub(crate) fn is_ready(&self, wait: &Wait) -> bool {
        let wanted = |kind: &Name| wait.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        wait.queues.iter().any(|queue| {
            self.index.lanes_of(queue).any(|(key, lane)| {
                !lane.ready.is_empty() && wanted(&key.1) && self.gate(key).is_none()
            })
        })
    }
}
