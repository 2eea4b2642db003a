//! Leasing ready jobs: heads of open lanes, merged by (rank, seq), queue after queue.

use crate::commit::Transition;
use crate::entry::{Entry, Leased};
use crate::executor::Executor;
use crate::limits::Admission;
use crate::rows::{Head, LaneKey, Rows};
use crate::session::SessionEntry;
use crate::unknown;
use std::collections::{HashMap, VecDeque};
use windlass_core::engine::{
    Claim, Claimant, Claimed, ClaimedJob, KindWant, Lease, QueueWant, SessionId, WorkerInfo,
};
use windlass_core::limits::DEFERRALS_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{Name, Order, PartSet};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The worker that a claim leases jobs to.
struct Lessee {
    session: SessionId,
    claim_no: u64,
    worker: String,
}

/// The number of jobs that a claim may still take.
struct Room {
    all: u32,
    /// Limits by kind, of which others are excluded; `None`: all kinds, without limits.
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

impl<R: Rows> Executor<R> {
    /// Leases ready jobs; see [`windlass_core::engine::Jobs::claim`].
    pub fn claim(&mut self, claim: &Claim, now: Timestamp) -> Result<Claimed> {
        claim.check()?;
        let lessee = self.lessee(claim, now)?;
        let again = self.leased_under(&lessee, claim.parts)?;
        if !again.is_empty() {
            return Ok(Claimed::new(again));
        }
        if let Err(error) = self.check_floor(claim) {
            self.end_if_alone(&lessee.session)?;
            return Err(error);
        }
        let mut room = Room::of(claim);
        let mut taken = Vec::new();
        for want in &claim.queues {
            let alone = self.in_step(&want.queue, now, |executor| {
                executor.claim_queue(want, claim, &lessee, &mut room, &mut taken, now)
            })?;
            if alone || room.all == 0 {
                break;
            }
        }
        self.end_if_alone(&lessee.session)?;
        Ok(Claimed::new(taken))
    }

    /// Refuses a claim from a priority on if a queue is not ordered by priority.
    fn check_floor(&self, claim: &Claim) -> Result<()> {
        let Some(priority) = claim.from_priority else { return Ok(()) };
        for want in &claim.queues {
            let order = self.queues.get(&want.queue).map(|settings| settings.order);
            if order.is_some_and(|order| order != Order::Strict) {
                let expected = format!(
                    "queue {} is not in strict order, so its jobs do not starve: claim them without it",
                    want.queue
                );
                return Err(Error::invalid("from_priority", priority, expected));
            }
        }
        Ok(())
    }

    /// The session that a claim leases to; a claim without a session opens one of its own.
    fn lessee(&mut self, claim: &Claim, now: Timestamp) -> Result<Lessee> {
        match &claim.by {
            Claimant::Session { session, claim_no } => {
                let worker = self.session(session)?.worker.clone();
                Ok(Lessee { session: session.clone(), claim_no: *claim_no, worker })
            }
            Claimant::Alone { claim_id: _, worker, lease_ms } => {
                let session = claim.by.session();
                if !self.sessions.contains_key(&session) {
                    let entry = SessionEntry {
                        worker: worker.clone(),
                        info: WorkerInfo::default(),
                        opened_at: now,
                        ttl_ms: *lease_ms,
                        expires_at: now.plus(*lease_ms),
                        alone: true,
                        // A claim without a session may come from another process.
                        remote: true,
                    };
                    self.rows.save_session(&session, Some(&entry))?;
                    self.sessions.insert(session.clone(), entry);
                }
                Ok(Lessee { session, claim_no: 0, worker: worker.clone() })
            }
            _ => Err(unknown("claimant")),
        }
    }

    /// The jobs that are still leased under the same claim, in the order of the claim.
    fn leased_under(&self, lessee: &Lessee, parts: PartSet) -> Result<Vec<ClaimedJob>> {
        let mut jobs = Vec::new();
        for id in self.rows.held(&lessee.session) {
            let again = |entry: &Entry| {
                let leased = entry.leased.as_ref()?;
                (leased.claim_no == lessee.claim_no).then(|| (entry.seq, entry.claimed(parts)))
            };
            jobs.extend(self.read(id, again)?);
        }
        jobs.sort_by_key(|(seq, _)| *seq);
        Ok(jobs.into_iter().filter_map(|(_, job)| job).collect())
    }

    /// Claims from one queue; `true` if it claimed a suspect job, which is handed out alone.
    fn claim_queue(
        &mut self,
        want: &QueueWant,
        claim: &Claim,
        lessee: &Lessee,
        room: &mut Room,
        taken: &mut Vec<ClaimedJob>,
        now: Timestamp,
    ) -> Result<bool> {
        self.open_due_lines(&want.queue, now)?;
        let lanes = self.rows.lanes(&want.queue);
        let open = lanes.into_iter().filter(|lane| self.allowance(lane, now).is_open());
        let lane = |key| Lane::new(!self.limits_of(&key).is_empty(), key, claim.from_priority);
        let mut lanes: Vec<Lane> = open.map(lane).collect();
        let (mut left, mut deferred) = (want.limit, 0);
        while left > 0 {
            let Some((lane, head)) = self.best_head(&mut lanes, room, left)? else { break };
            if head.suspect && !taken.is_empty() {
                lanes.swap_remove(lane);
                continue;
            }
            match self.lease_out(head.id, lanes[lane].limited, lessee, claim.parts, now)? {
                Ok(job) => taken.extend(job),
                Err(Admission::Closed) => {
                    lanes.swap_remove(lane);
                    continue;
                }
                Err(_) if deferred == DEFERRALS_MAX => return Ok(false),
                Err(_) => {
                    self.defer(head.id, now)?;
                    lanes[lane].heads.pop_front();
                    deferred += 1;
                    continue;
                }
            }
            let kind = lanes[lane].key.1.clone();
            room.take(&kind);
            lanes[lane].heads.pop_front();
            left -= 1;
            if head.suspect {
                return Ok(true);
            }
            if !self.allowance(&lanes[lane].key, now).is_open() {
                // The last permit of the kind is used.
                lanes.retain(|lane| lane.key.1 != kind);
            }
        }
        Ok(false)
    }

    /// The first ready job of these lanes by (rank, seq), and its lane.
    fn best_head(
        &self,
        lanes: &mut Vec<Lane>,
        room: &Room,
        left: u32,
    ) -> Result<Option<(usize, Head)>> {
        lanes.retain(|lane| room.for_kind(&lane.key.1) > 0);
        for lane in lanes.iter_mut() {
            let most = room.for_kind(&lane.key.1).min(left) as usize;
            lane.refill(&self.rows, most)?;
        }
        lanes.retain(|lane| !lane.heads.is_empty());
        let heads = lanes.iter().enumerate();
        let best = heads.filter_map(|(index, lane)| Some((*lane.heads.front()?, index))).min();
        Ok(best.map(|(head, index)| (index, head)))
    }

    /// Leases a ready job (`None`: it is gone), unless its limits have no room; `limited`: whether its lane has any.
    fn lease_out(
        &mut self,
        id: JobId,
        limited: bool,
        lessee: &Lessee,
        parts: PartSet,
        now: Timestamp,
    ) -> Result<std::result::Result<Option<ClaimedJob>, Admission>> {
        let lease = Leased {
            lease: Lease::random(&*self.random),
            session: lessee.session.clone(),
            claim_no: lessee.claim_no,
            worker: lessee.worker.clone(),
            started_at: now,
        };
        let data = Transition { lease: Some(lease), ..Transition::default() };
        let mut admission = Admission::Start;
        let taken = self.take_if(id, EventKind::Claim, &data, now, |executor, entry| {
            if limited {
                admission = executor.admission(entry, now)?;
            }
            match admission {
                Admission::Start => Ok(()),
                // Puts the job back; never reported.
                Admission::Closed | Admission::Defer => Err(Error::NotFound { id }),
            }
        });
        if !matches!(admission, Admission::Start) {
            return Ok(Err(admission));
        }
        let Some(taken) = taken? else { return Ok(Ok(None)) };
        let (_, claimed) = self.commit(taken, data, now, |entry| entry.claimed(parts))?;
        Ok(Ok(claimed))
    }
}

/// After every job of a rank. Stores may keep sequence numbers as signed integers.
const LAST_SEQ: u64 = i64::MAX as u64;

/// The next heads of a lane, fetched in chunks by a claim.
struct Lane {
    key: LaneKey,
    /// Whether its jobs run under limits.
    limited: bool,
    heads: VecDeque<Head>,
    after: Option<(i64, u64)>,
    over: bool,
}

impl Lane {
    /// Heads fetched at once: enough for a typical claim, few enough where a claim reads many lanes.
    const CHUNK: usize = 32;

    fn new(limited: bool, key: LaneKey, from_priority: Option<i32>) -> Self {
        // In strict order, the priority is the rank.
        let after = from_priority.map(|priority| (i64::from(priority) - 1, LAST_SEQ));
        Self { key, limited, heads: VecDeque::new(), after, over: false }
    }

    fn refill(&mut self, rows: &impl Rows, most: usize) -> Result<()> {
        if !self.heads.is_empty() || self.over {
            return Ok(());
        }
        let limit = most.min(Self::CHUNK);
        let heads = rows.ready(&self.key, self.after, limit)?;
        self.over = heads.len() < limit;
        self.after = heads.last().map_or(self.after, |head| Some((head.rank, head.seq)));
        self.heads.extend(heads);
        Ok(())
    }
}
