//! The fixture of a check: the engine's verbs, one job at a time, so that a check reads like the promise it
//! tests.

use crate::subject::{START, Subject, TimeTravel};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_core::engine::{
    Atomicity, Capability, Change, ChangeItem, Changed, Claim, ClaimId, Claimant, Claimed,
    ClaimedJob, Configure, Engine, Enqueue, Enqueued, Get, Heartbeat, HeartbeatReply, Held,
    LaneStats, Lease, MaintainReply, MaintainRequest, OpenSession, Outcome, RecordOp, RecordReply,
    SessionId, Settle, SettleItem, Settled, StatsRequest, Take, Update, UpdateItem, Updated, Work,
};
use windlass_core::limits::{CLAIM_BATCH_MAX, MAINTAIN_BUDGET_MAX, SESSION_TTL_MAX_MS};
use windlass_core::model::{Job, KindPatch, Limit, NewJob, PartSet, QueuePatch, State};
use windlass_core::random::{Random, SystemRandom};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The default queue of checks.
pub(crate) const QUEUE: &str = "q";
/// The default kind of checks.
pub(crate) const KIND: &str = "k";

/// An engine with its clock, and short methods for its verbs. Cheap to clone.
///
/// Methods that return a plain value panic if the engine returns an error, which fails the check.
#[derive(Clone)]
pub struct Rig {
    subject: Arc<Subject>,
    /// The number of the latest claim; one increasing sequence for all sessions of a check.
    claims: Arc<AtomicU64>,
}

impl fmt::Debug for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.subject.fmt(f)
    }
}

impl Rig {
    /// A fixture for a fresh engine.
    pub fn new(subject: Subject) -> Self {
        Self { subject: Arc::new(subject), claims: Arc::default() }
    }

    /// The engine itself, for verbs without a short method.
    pub fn engine(&self) -> &dyn Engine {
        &*self.subject.engine
    }

    /// The engine and what belongs to it.
    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Whether the engine has `capability`.
    pub fn has(&self, capability: Capability) -> bool {
        self.engine().capabilities().has(capability)
    }

    /// Advances the engine's clock.
    pub fn advance(&self, ms: u64) {
        let clock: &dyn TimeTravel = &*self.subject.clock;
        clock.advance(ms);
    }

    /// The engine's time, according to its replies.
    pub async fn now(&self) -> Timestamp {
        self.engine().health().await.expect("health").now
    }

    /// A job on the default queue and of the default kind.
    pub fn job() -> NewJob {
        NewJob::new(KIND).queue(QUEUE)
    }

    /// A new job id with a time close to the kit's time.
    pub fn fresh_id() -> JobId {
        JobId::new(START, &SystemRandom)
    }

    /// A new claim of `session`.
    pub fn claimant(&self, session: &SessionId) -> Claimant {
        let claim_no = self.claims.fetch_add(1, Ordering::SeqCst) + 1;
        Claimant::Session { session: session.clone(), claim_no }
    }

    /// A number that differs with every call.
    pub fn noise() -> u64 {
        SystemRandom.next_u64()
    }

    /// Enqueues one job; returns the result.
    pub async fn try_enqueue(&self, job: NewJob) -> Result<Enqueued> {
        let reply = self.engine().enqueue(Enqueue::each([job])).await?;
        let [item] = <[_; 1]>::try_from(reply.value).expect("one result for one job");
        item
    }

    /// Enqueues one job.
    pub async fn enqueue(&self, job: NewJob) -> JobId {
        self.try_enqueue(job).await.expect("enqueue").id
    }

    /// Enqueues the default job.
    pub async fn enqueue_one(&self) -> JobId {
        self.enqueue(Self::job()).await
    }

    /// Enqueues a batch in mode `Each`; all jobs must be accepted.
    pub async fn enqueue_all(&self, jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobId> {
        let reply = self.engine().enqueue(Enqueue::each(jobs)).await.expect("enqueue");
        reply.value.into_iter().map(|item| item.expect("enqueue").id).collect()
    }

    /// Opens a session with the default TTL.
    pub async fn session(&self) -> SessionId {
        let reply = self.engine().open_session(OpenSession::new("kit")).await;
        reply.expect("open_session").value.id
    }

    /// Opens a session that outlives every crash in a check.
    pub async fn long_session(&self) -> SessionId {
        let request = OpenSession::new("kit").ttl_ms(SESSION_TTL_MAX_MS);
        self.engine().open_session(request).await.expect("open_session").value.id
    }

    /// A claim by `session` of any job on the default queue.
    pub fn wants(&self, session: &SessionId, limit: u32) -> Claim {
        Claim::new(self.claimant(session), QUEUE, limit)
    }

    /// A claim without a session, leased for `lease_ms`.
    pub fn wants_alone(lease_ms: u64, limit: u32) -> Claim {
        let claim_id = ClaimId::random(&SystemRandom);
        let by = Claimant::Alone { claim_id, worker: "alone".into(), lease_ms };
        Claim::new(by, QUEUE, limit)
    }

    /// Executes a claim.
    pub async fn claim(&self, claim: Claim) -> Vec<ClaimedJob> {
        self.engine().claim(claim).await.expect("claim").value.jobs
    }

    /// Claims up to `limit` jobs of the default queue.
    pub async fn take(&self, session: &SessionId, limit: u32) -> Vec<ClaimedJob> {
        self.claim(self.wants(session, limit)).await
    }

    /// Claims up to `limit` jobs of a queue; returns the jobs.
    pub async fn take_from(&self, session: &SessionId, queue: &str, limit: u32) -> Vec<ClaimedJob> {
        self.claim(Claim::new(self.claimant(session), queue, limit)).await
    }

    /// Claims exactly one job of the default queue.
    pub async fn take_one(&self, session: &SessionId) -> ClaimedJob {
        let mut jobs = self.take(session, 1).await;
        jobs.pop().expect("a job to claim")
    }

    /// Asserts that nothing can be claimed from the default queue.
    pub async fn assert_nothing_to_claim(&self) {
        let session = self.session().await;
        let jobs = self.take(&session, CLAIM_BATCH_MAX).await;
        assert!(jobs.is_empty(), "nothing should be claimable, but a claim returned {jobs:?}");
    }

    /// Claims and completes everything claimable on the default queue, one claim at a time, up to `limit`
    /// jobs. Returns the ids in the order of their start.
    pub async fn drain(&self, limit: usize) -> Vec<JobId> {
        let session = self.session().await;
        let mut order = Vec::new();
        while order.len() < limit {
            let jobs = self.take(&session, 1).await;
            if jobs.is_empty() {
                break;
            }
            for job in jobs {
                order.push(job.header.id);
                self.settle(&job, Outcome::DONE).await;
            }
        }
        order
    }

    /// Reports on a claimed job; returns the result.
    pub async fn try_settle(&self, item: SettleItem) -> Result<Settled> {
        let reply = self.engine().settle(Settle::new([item])).await?;
        let [item] = <[_; 1]>::try_from(reply.value.items).expect("one result for one report");
        item
    }

    /// Reports on a claimed job; the report must be accepted and be the first one.
    pub async fn settle(&self, job: &ClaimedJob, outcome: Outcome) -> Settled {
        let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        let settled = self.try_settle(item).await.expect("settle");
        assert!(!settled.already, "settled twice: {settled:?}");
        settled
    }

    /// Reports and claims in one call.
    pub async fn settle_and_claim(
        &self,
        items: Vec<SettleItem>,
        claim: Claim,
    ) -> (Vec<Result<Settled>>, Claimed) {
        let reply = self.engine().settle(Settle::new(items).then(claim)).await.expect("settle");
        (reply.value.items, reply.value.claimed.expect("a result of the claim").expect("claim"))
    }

    /// Updates a running job; returns the result.
    pub async fn update(&self, item: UpdateItem) -> Result<Updated> {
        let reply = self.engine().update(Update::new([item])).await?;
        let [item] = <[_; 1]>::try_from(reply.value).expect("one result for one update");
        item
    }

    /// Sends a heartbeat of a session that holds these jobs; returns the result.
    pub async fn heartbeat(
        &self,
        session: &SessionId,
        jobs: &[&ClaimedJob],
    ) -> Result<HeartbeatReply> {
        let held =
            jobs.iter().map(|job| Held { id: job.header.id, lease: job.lease.clone() }).collect();
        let beat = Heartbeat::new(session.clone(), self.claims.load(Ordering::SeqCst), held);
        Ok(self.engine().heartbeat(beat).await?.value)
    }

    /// A job without its parts, if it exists.
    pub async fn find(&self, id: JobId) -> Option<Job> {
        let reply = self.engine().get(Get::new([id])).await.expect("get");
        let [job] = <[_; 1]>::try_from(reply.value).expect("one result for one id");
        job
    }

    /// A job that must exist, with all its parts.
    pub async fn get(&self, id: JobId) -> Job {
        let reply = self.engine().get(Get::new([id]).parts(PartSet::ALL)).await.expect("get");
        let [job] = <[_; 1]>::try_from(reply.value).expect("one result for one id");
        job.unwrap_or_else(|| panic!("job {id} is gone"))
    }

    /// The state of a job, which must exist.
    pub async fn state(&self, id: JobId) -> State {
        self.get(id).await.state
    }

    /// Asserts the state of a job.
    pub async fn assert_state(&self, id: JobId, expected: State) {
        let job = self.get(id).await;
        assert_eq!(job.state, expected, "{job:#?}");
    }

    /// Creates a dead job: enqueues this job and fails it fatally.
    pub async fn dead(&self, job: NewJob) -> JobId {
        let id = self.enqueue(job).await;
        let session = self.session().await;
        let claimed = self.take_one(&session).await;
        assert_eq!(claimed.header.id, id, "the claim returned another job");
        self.settle(&claimed, Outcome::fail("bad", "it can never work")).await;
        id
    }

    /// The statistics of a lane; empty if the engine does not list it.
    pub async fn lane(&self, queue: &str, kind: &str) -> LaneStats {
        let reply = self.engine().stats(StatsRequest::queue(queue)).await.expect("stats");
        let lane = reply.value.into_iter().find(|lane| &*lane.kind == kind);
        lane.unwrap_or_else(|| LaneStats::empty(queue.into(), kind.into()))
    }

    /// Changes a job; returns the result.
    pub async fn try_change(&self, id: JobId, change: Change) -> Result<Changed> {
        self.try_item(ChangeItem::new(id, change)).await
    }

    /// Changes a job if it is in this state; returns the result.
    pub async fn try_change_if(&self, id: JobId, change: Change, state: State) -> Result<Changed> {
        self.try_item(ChangeItem::new(id, change).if_state(state)).await
    }

    async fn try_item(&self, item: ChangeItem) -> Result<Changed> {
        let reply = self.engine().change(vec![item]).await?;
        let [item] = <[_; 1]>::try_from(reply.value).expect("one result for one change");
        item
    }

    /// Changes a job.
    pub async fn change(&self, id: JobId, change: Change) -> Changed {
        self.try_change(id, change).await.expect("change")
    }

    /// Changes settings; returns the result.
    pub async fn try_configure(&self, change: Configure) -> Result<()> {
        let reply = self.engine().configure(vec![change]).await?;
        let [item] = <[_; 1]>::try_from(reply.value).expect("one result for one change");
        item
    }

    /// Changes settings.
    pub async fn configure(&self, change: Configure) {
        self.try_configure(change).await.expect("configure");
    }

    /// Whether the engine has limits; if not, asserts that it refuses everything about them.
    pub async fn can_limit(&self) -> bool {
        if !self.has(Capability::Limits) {
            let limit = Configure::limit("l", Limit::max_running(1));
            assert_code(self.try_configure(limit).await, "unsupported");
            assert_code(self.try_enqueue(Self::job().group("g")).await, "unsupported");
            assert_code(self.try_enqueue(Self::job().cost(2)).await, "unsupported");
            assert_code(self.engine().take(Take::new("l")).await, "unsupported");
        }
        self.has(Capability::Limits)
    }

    /// Whether an engine with limits can share them between queues; if not, asserts that it refuses that.
    pub async fn can_share_limits(&self) -> bool {
        if self.engine().capabilities().atomicity >= Atomicity::Store {
            return true;
        }
        self.configure(Configure::limit("to_share", Limit::max_running(1))).await;
        let before = self.engine().settings().await.expect("settings").value;
        let shared = Configure::kind(KIND, KindPatch::limits(["to_share"]));
        assert_refused(self.try_configure(shared).await, "invalid", "limits");
        assert_eq!(self.engine().settings().await.expect("settings").value, before);
        self.configure(Configure::remove_limit("to_share")).await;
        false
    }

    /// Whether the engine has flows; if not, asserts that it refuses everything about them.
    pub async fn has_flows(&self) -> bool {
        if !self.has(Capability::Flows) {
            let id = self.enqueue_one().await;
            assert_code(self.try_enqueue(Self::job().after(id)).await, "unsupported");
            assert_code(self.try_enqueue(Self::job().flow("f")).await, "unsupported");
        }
        self.has(Capability::Flows)
    }

    /// Enqueues a batch, all or nothing; returns the results.
    pub async fn try_enqueue_whole(
        &self,
        jobs: impl IntoIterator<Item = NewJob>,
    ) -> Vec<Result<Enqueued>> {
        let reply = self.engine().enqueue(Enqueue::all_or_nothing(jobs)).await;
        reply.expect("enqueue").value
    }

    /// Enqueues a batch, all or nothing; it must be accepted.
    pub async fn enqueue_whole(&self, jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobId> {
        let stored = self.try_enqueue_whole(jobs).await;
        stored.into_iter().map(|item| item.expect("enqueue").id).collect()
    }

    /// Creates the limit `l` and lists it for the default queue, if the engine has limits.
    pub async fn limited(&self, limit: Limit) -> bool {
        if !self.can_limit().await {
            return false;
        }
        self.configure(Configure::limit("l", limit)).await;
        self.configure(Configure::queue(QUEUE, QueuePatch::limits(["l"]))).await;
        true
    }

    /// Executes one operation on records; returns the result.
    pub async fn record(&self, op: RecordOp) -> Result<RecordReply> {
        let reply = self.engine().records(vec![op]).await?;
        let [item] = <[_; 1]>::try_from(reply.value).expect("one result for one operation");
        item
    }

    /// Runs maintenance until nothing of `work` is left; returns the total number of items processed.
    pub async fn maintain(&self, work: Work) -> u32 {
        let mut done = 0;
        loop {
            let reply = self.maintain_step(work, MAINTAIN_BUDGET_MAX).await;
            done += reply.done;
            if !reply.more {
                return done;
            }
        }
    }

    /// Runs one step of maintenance.
    pub async fn maintain_step(&self, work: Work, budget: u32) -> MaintainReply {
        let reply = self.engine().maintain(MaintainRequest::new(work, budget)).await;
        reply.unwrap_or_else(|error| panic!("maintain {work}: {error}")).value
    }

    /// Lets time pass as in a maintained system: advances the clock, then runs maintenance.
    pub async fn pass(&self, ms: u64) {
        self.advance(ms);
        for work in Work::ALL {
            self.maintain(work).await;
        }
    }

    /// Simulates the death of the worker of `session`: lets the session expire, reclaims its jobs, and waits
    /// until those that may run again are ready. Sessions that must survive have to be opened afterwards.
    pub async fn crash(&self, session: &SessionId) {
        let sessions = self.engine().sessions().await.expect("sessions");
        let info = sessions.value.iter().find(|info| info.id == *session);
        let expires_at = info.expect("the session is open").expires_at;
        self.advance(expires_at.since(sessions.now));
        self.maintain(Work::Reclaim).await;
        let longest = windlass_core::limits::CRASH_BACKOFF_CAP_MS
            + windlass_core::limits::CRASH_BACKOFF_JITTER_MS;
        self.advance(longest);
        self.maintain(Work::Promote).await;
    }

    /// Asserts that the store's own check finds nothing.
    pub async fn assert_sound(&self) {
        let report = self.engine().check(false).await.expect("check").value;
        assert!(report.findings.is_empty(), "{report:#?}");
    }

    /// A lease that no engine issued.
    pub fn forged_lease() -> Lease {
        Lease::random(&SystemRandom)
    }
}

/// Asserts that a result is an error with this code for this field.
pub(crate) fn assert_refused<T: fmt::Debug>(answer: Result<T>, code: &str, field: &str) -> Error {
    let error = answer.expect_err("this must be refused");
    assert_eq!((error.code(), error.field()), (code, Some(field)), "{error}");
    error
}

/// Asserts that a result is an error with this code.
pub(crate) fn assert_code<T: fmt::Debug>(answer: Result<T>, code: &str) -> Error {
    let error = answer.expect_err("this must be refused");
    assert_eq!(error.code(), code, "{error}");
    error
}
