//! An engine with one fault: it wraps a sound one and spoils a request or a reply on the way.

use crate::faults;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use windlass_core::JobId;
use windlass_core::engine::*;

/// The fault of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ForgetsOnReclaim,
    IgnoresLeases,
    LosesRank,
    PausesNothing,
    ClaimsTwice,
    LosesFollowUps,
    FreesKeysEarly,
    CountsReleases,
    CrashesOnRelease,
    TakesIdsTwice,
    KeepsUndeclared,
    ForgetsClaims,
    ForgetsReports,
    RetriesAtOnce,
    RemovesEarly,
    TearsBatches,
    LosesEnvelopes,
    NeverExpires,
    WritesBlindly,
    CountsTheDead,
    IgnoresKeys,
    IgnoresTenants,
    IgnoresBudgets,
    MixesSuspects,
    LosesCheckpoints,
    RunsEarly,
    CrashesForever,
    HidesCancellations,
    IgnoresKinds,
    WakesNobody,
    AcknowledgesTooMuch,
    MixesFailures,
    OverfillsQueues,
    IgnoresTags,
    BelievesIds,
    IgnoresFields,
    IgnoresWindows,
    MixesPriorities,
    SortsById,
    HalvesPages,
    ForgetsEnds,
    MixesPauses,
    AddsSlots,
    IgnoresGroups,
    ForgetsHolds,
    IgnoresFloors,
    NamesOneCause,
    AssumesWorkers,
    ReleasesEarly,
    ForgetsEdges,
    TearsGraphs,
}

impl Fault {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::TearsGraphs as usize + 1;
}

pub(crate) struct Faulty {
    pub(crate) inner: Arc<dyn Engine>,
    pub(crate) fault: Fault,
    /// The latest lease of each job, for faults that need a valid one.
    leases: Mutex<HashMap<JobId, ClaimedJob>>,
    counter: AtomicU64,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Engine>, fault: Fault) -> Self {
        Self { inner, fault, leases: Mutex::default(), counter: AtomicU64::new(1_000_000) }
    }

    pub(crate) fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    pub(crate) fn next(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn leases(&self) -> MutexGuard<'_, HashMap<JobId, ClaimedJob>> {
        self.leases.lock().expect("no fault panics while it holds the lock")
    }

    pub(crate) fn remember(&self, jobs: &[ClaimedJob]) {
        self.leases().extend(jobs.iter().map(|job| (job.header.id, job.clone())));
    }
}

impl Jobs for Faulty {
    windlass_core::pass_on!(inner: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(faults::enqueue(self, request))
    }

    windlass_core::pass_on!(inner: open_session);

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        Box::pin(faults::heartbeat(self, request))
    }

    windlass_core::pass_on!(inner: close_session, take);

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(faults::claim(self, request))
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        Box::pin(async move {
            let reply = self.inner.wait(request).await?;
            Ok(reply.map(|woken| woken && !self.is(Fault::WakesNobody)))
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(faults::settle(self, request))
    }

    fn update(&self, mut request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        for item in &mut request.items {
            if self.is(Fault::LosesCheckpoints) {
                item.parts.checkpoint = windlass_core::model::PartEdit::Keep;
            }
        }
        self.inner.update(request)
    }
}

impl Admin for Faulty {
    windlass_core::pass_on!(inner: get);

    fn list(&self, request: List) -> Answer<'_, Page<windlass_core::model::Job>> {
        Box::pin(faults::list(self, request))
    }

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        Box::pin(async move {
            let mut reply = self.inner.stats(request).await?;
            for lane in &mut reply.value {
                if self.is(Fault::CountsTheDead) {
                    lane.available += lane.dead;
                }
                if self.is(Fault::ForgetsEnds) {
                    lane.completed = 0;
                }
                if self.is(Fault::MixesPauses) {
                    lane.blocked += std::mem::take(&mut lane.paused);
                }
                if self.is(Fault::MixesPriorities) {
                    let all = lane.available;
                    lane.priorities.iter_mut().for_each(|reported| reported.available = all);
                }
            }
            Ok(reply)
        })
    }

    fn why(&self, id: JobId) -> Answer<'_, Explanation> {
        Box::pin(async move {
            let mut reply = self.inner.why(id).await?;
            if self.is(Fault::NamesOneCause) {
                reply.value.causes.truncate(1);
            }
            if self.is(Fault::AssumesWorkers) {
                reply.value.causes.retain(|cause| cause.code != CauseCode::NoWorker);
            }
            Ok(reply)
        })
    }

    windlass_core::pass_on!(inner: limits, sessions, change);

    fn configure(&self, mut batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        for change in &mut batch {
            if let Configure::Limit(_, Some(limit)) = change
                && self.is(Fault::AddsSlots)
            {
                limit.rule.max_running = limit.rule.max_running.map(|max| max + 1);
            }
            if let Configure::Queue(_, patch) = change {
                if self.is(Fault::PausesNothing) {
                    patch.paused = patch.paused.map(|_| false);
                }
                if self.is(Fault::OverfillsQueues) {
                    patch.max_depth = patch.max_depth.map(|_| None);
                }
            }
        }
        self.inner.configure(batch)
    }

    windlass_core::pass_on!(inner: settings, removed, events);

    fn records(&self, mut batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        for op in &mut batch {
            if let RecordOp::Put { expect, .. } = op
                && self.is(Fault::WritesBlindly)
            {
                *expect = Expect::Any;
            }
        }
        self.inner.records(batch)
    }

    windlass_core::pass_on!(inner: import, health);
}

impl Maintain for Faulty {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        Box::pin(faults::maintain(self, request))
    }

    windlass_core::pass_on!(inner: check);
}
