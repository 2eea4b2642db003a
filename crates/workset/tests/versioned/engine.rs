//! The store as an engine: every verb is a transaction that is retried after a conflict.

use super::tables::Tables;
use super::transaction::{Failed, Transaction};
use super::{Behaviour, Conflicts};
use std::sync::{Arc, Mutex, MutexGuard};
use windlass_core::engine::*;
use windlass_core::id::Ids;
use windlass_core::limits::{CLAIM_BATCH_MAX, LEASE_MIN_MS};
use windlass_core::model::{Job, Order, State};
use windlass_core::random::{Random, Seeded};
use windlass_core::sync::lock;
use windlass_core::time::Clock;
use windlass_core::{Error, JobId, Result, Timestamp};
use windlass_executor::{Entry, Filling};
use windlass_workset::{Act, Context, Held, Loaded, Run, Store as _, Wants, WorkingSet, rounds};

/// Attempts of a verb. Each conflict means that another writer committed or that the schedule refused the commit.
const TRIES_MAX: u32 = 10_000;

pub(crate) struct VersionedEngine {
    inner: Inner,
    capabilities: Capabilities,
    random: Arc<dyn Random>,
    epoch: Epoch,
    conflicts: Arc<Conflicts>,
    ids: Mutex<Ids>,
}

pub(super) struct Inner {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) behaviour: Behaviour,
    tables: Mutex<Tables>,
    schedule: Seeded,
}

impl Inner {
    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    /// Lets other writers go first, as often as the schedule says.
    pub(super) async fn give_way(&self) {
        for _ in 0..self.schedule.below(4) {
            tokio::task::yield_now().await;
        }
    }

    /// Whether the schedule refuses this commit.
    pub(super) fn refuses(&self) -> bool {
        self.schedule.below(100) < self.behaviour.refused_percent
    }
}

impl VersionedEngine {
    pub(super) fn new(clock: Arc<dyn Clock>, random: Arc<Seeded>, behaviour: Behaviour) -> Self {
        let capabilities = Capabilities::new("versioned", Atomicity::Store, Durability::Volatile)
            .with(Capability::GlobalUnique)
            .with(Capability::FairOrder)
            .with(Capability::Move);
        let epoch = Epoch::random(&*random);
        let schedule = Seeded::new(behaviour.seed ^ 0x5EED);
        Self {
            inner: Inner { clock, behaviour, tables: Mutex::default(), schedule },
            capabilities,
            random,
            epoch,
            conflicts: Arc::default(),
            ids: Mutex::default(),
        }
    }

    pub(super) fn conflicts(&self) -> Arc<Conflicts> {
        Arc::clone(&self.conflicts)
    }

    async fn perform<T: Send>(
        &self,
        wants: Wants,
        mut act: impl FnMut(&mut Run<'_, ()>, Timestamp) -> Result<T> + Send,
    ) -> Result<Stamped<T>> {
        for _ in 0..TRIES_MAX {
            match self.attempt(&wants, &mut act).await {
                Ok(reply) => return reply,
                Err(Failed::Conflict) => self.conflicts.count(),
                Err(Failed::Fatal(error)) => return Err(error),
            }
        }
        panic!("{TRIES_MAX} conflicts in one verb")
    }

    async fn attempt<T>(
        &self,
        wants: &Wants,
        act: &mut Act<'_, (), T>,
    ) -> Result<Result<Stamped<T>>, Failed> {
        let transaction = Transaction::new(&self.inner);
        let mut loaded = Loaded::default();
        transaction.load(wants, &mut loaded).await?;
        let context = Context { capabilities: &self.capabilities, random: &self.random };
        let ran = rounds(&transaction, context, &mut loaded, wants.parts, act).await?;
        // A refusal is checked too: it may rest on rows that have changed.
        transaction.commit(ran.saves).await?;
        Ok(ran.value.map(|value| self.stamp(value, loaded.now)))
    }

    fn stamp<T>(&self, value: T, now: Timestamp) -> Stamped<T> {
        Stamped { now, epoch: self.epoch.clone(), value }
    }

    /// Reads all tables at one instant.
    fn query<'a, T: Send + 'a>(
        &'a self,
        read: impl FnOnce(&Tables) -> Result<T> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let value = read(&self.inner.tables())?;
            Ok(self.stamp(value, self.inner.clock.now()))
        })
    }

    /// An executor that knows the settings and nothing else, for gates.
    fn with_gates<T>(&self, tables: &Tables, ask: impl FnOnce(&Run<'_, ()>) -> T) -> T {
        let (loaded, transaction) = (Loaded::default(), Transaction::new(&self.inner));
        let set = WorkingSet::over(&loaded, &transaction);
        let mut run = Run::new(self.capabilities.clone(), Arc::clone(&self.random), set, 0);
        run.restore(tables.sessions.clone(), tables.queues.clone(), tables.kinds.clone());
        ask(&run)
    }
}

impl Jobs for VersionedEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn enqueue(&self, mut request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            request.check()?;
            let wants = Wants::of_enqueue(&request);
            let mut fresh: Vec<JobId> = Vec::new();
            self.perform(wants, move |run, now| {
                let mut ids = lock(&self.ids);
                for job in request.jobs.iter_mut().filter(|job| job.id.is_none() && !job.derived) {
                    fresh.push(*job.id.insert(ids.next(now, &*self.random)));
                }
                run.rows_mut().add_fresh(fresh.iter().copied());
                run.enqueue(request.clone(), now)
            })
            .await
        })
    }

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        Box::pin(
            self.perform(Wants::default(), move |run, now| run.open_session(request.clone(), now)),
        )
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        let wants = Wants::of_heartbeat(&request, None);
        Box::pin(self.perform(wants, move |run, now| run.heartbeat(request.clone(), now)))
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        let wants = Wants::of_session(&session);
        Box::pin(self.perform(wants, move |run, now| run.close_session(&session, now)))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        let wants = Wants::of_claim(&request);
        Box::pin(self.perform(wants, move |run, now| run.claim(&request, now)))
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        // Never blocks: no story waits.
        let wanted = move |entry: &Entry| {
            let header = &entry.job.header;
            let kinds = request.kinds.as_ref();
            entry.job.state == State::Available
                && request.queues.contains(&header.queue)
                && kinds.is_none_or(|kinds| kinds.contains(&header.kind))
        };
        self.query(move |tables| Ok(tables.jobs.values().any(wanted)))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        let wants = Wants::of_settle(&request);
        Box::pin(self.perform(wants, move |run, now| {
            run.rows().expect_follow_ups(&request.items);
            run.settle(&request, now)
        }))
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        let wants = Wants::of_update(&request);
        Box::pin(self.perform(wants, move |run, now| run.update(request.clone(), now)))
    }

    fn take(&self, request: Take) -> Answer<'_, Took> {
        let wants = Wants::of_settings();
        Box::pin(self.perform(wants, move |run, now| run.take_tokens(&request, now)))
    }
}

impl Admin for VersionedEngine {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        self.query(move |tables| {
            let job = |id| tables.jobs.get(id).map(|entry| entry.view(request.parts));
            request.check()?;
            let mut jobs: Vec<Option<Job>> = request.ids.iter().map(job).collect();
            self.with_gates(tables, |run| run.show_running(jobs.iter_mut().flatten()));
            Ok(jobs)
        })
    }

    fn list(&self, request: List) -> Answer<'_, Page<Job>> {
        self.query(move |tables| {
            request.check()?;
            let span = request.span()?;
            let (sorted_by, order) = (request.sorted_by(), request.order);
            let place = |entry: &Entry| ListPlace::of(&entry.job, sorted_by);
            let fits =
                |entry: &&Entry| request.filter.fits(&entry.job) && span.includes(&place(entry));
            let mut found: Vec<&Entry> = tables.jobs.values().filter(fits).collect();
            found.sort_by(|one, other| order.compare(&place(one), &place(other)));
            let mut page = Filling::new(&request, span);
            let mut found = found.into_iter();
            while !page.is_over()
                && let Some(entry) = found.next()
            {
                page.examine(entry);
            }
            let mut page = page.finish(found.next().is_none());
            self.with_gates(tables, |run| run.show_running(&mut page.rows));
            Ok(page)
        })
    }

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        self.query(move |tables| {
            let mut lanes: Vec<LaneStats> = Vec::new();
            for entry in tables.jobs.values() {
                count(entry, &mut lanes, |queue| {
                    tables.queues.get(queue).is_none_or(|queue| queue.order == Order::Strict)
                });
            }
            self.with_gates(tables, |run| run.lanes(&request, lanes, Timestamp::EPOCH))
        })
    }

    fn limits(&self) -> Answer<'_, Vec<LimitStats>> {
        self.query(|_| Ok(Vec::new()))
    }

    fn why(&self, id: JobId) -> Answer<'_, Explanation> {
        Box::pin(async move {
            let found = self.get(Get::new([id])).await?.value.into_iter().flatten().next();
            let header = found.ok_or(Error::NotFound { id })?.header;
            let claim_id = ClaimId::random(&*self.random);
            let by = Claimant::Alone { claim_id, worker: "why".into(), lease_ms: LEASE_MIN_MS };
            let claim =
                Claim::new(by, header.queue, CLAIM_BATCH_MAX).kind(header.kind, CLAIM_BATCH_MAX);
            let mut wants = Wants { heads: Some(claim), ..Wants::default() };
            wants.peek.insert(id);
            let sessions = self.sessions().await?.value.into_iter();
            wants.sessions = sessions.map(|session| (session.id, Held::Claim(u64::MAX))).collect();
            self.perform(wants, move |run, now| run.why(id, now)).await
        })
    }

    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>> {
        self.query(move |tables| {
            let mut sessions = self.with_gates(tables, |run| run.sessions());
            for session in &mut sessions {
                session.running = tables.leased_to(&session.id).count() as u64;
            }
            Ok(sessions)
        })
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        let wants = Wants::of_import(&request);
        Box::pin(self.perform(wants, move |run, now| run.import(request.clone(), now)))
    }

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        let wants = Wants::of_change(&batch);
        Box::pin(self.perform(wants, move |run, now| run.change(batch.clone(), now)))
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        Box::pin(
            self.perform(Wants::of_settings(), move |run, now| run.configure(batch.clone(), now)),
        )
    }

    fn settings(&self) -> Answer<'_, Settings> {
        self.query(move |tables| Ok(self.with_gates(tables, |run| run.settings())))
    }

    fn records(&self, _: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        Box::pin(async { Err(Error::invalid("records", "", "this store has none")) })
    }

    fn events(&self, _: EventsRequest) -> Answer<'_, EventsReply> {
        Box::pin(async { Err(events_unsupported(self.capabilities())) })
    }

    fn removed(&self, request: RemovedQuery) -> Answer<'_, Page<RemovedCount>> {
        self.query(move |tables| {
            request.check()?;
            tables.removed.page(&request)
        })
    }

    fn health(&self) -> Answer<'_, ()> {
        self.query(|_| Ok(()))
    }
}

impl Maintain for VersionedEngine {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        let wants = Wants::of_maintain(request);
        Box::pin(self.perform(wants, move |run, now| {
            let loaded = run.rows().base();
            let unsure = loaded.unsure;
            let mut reply = run.maintain_due(request, loaded.due.clone(), now)?;
            reply.more |= unsure && reply.done < request.budget;
            Ok(reply)
        }))
    }

    fn check(&self, _: bool) -> Answer<'_, CheckReport> {
        self.query(|tables| {
            let mut report = CheckReport::default();
            report.jobs = tables.jobs.len() as u64;
            let is_open = |id: &SessionId| tables.sessions.contains_key(id);
            let findings = tables.jobs.values().flat_map(|entry| entry.contradictions(&is_open));
            report.findings = findings.map(|what| Finding::new(what, false)).collect();
            let live = |id: &JobId| {
                tables.jobs.get(id).is_some_and(|entry| !entry.job.state.is_terminal())
            };
            for (slot, hold) in tables.uniques.iter().filter(|(_, hold)| hold.until.is_none()) {
                if !live(&hold.holder) {
                    let what =
                        format!("unique key {slot:?} is held by {}, which has ended", hold.holder);
                    report.findings.push(Finding::new(what, false));
                }
            }
            Ok(report)
        })
    }
}

/// Counts a job in its lane.
fn count(entry: &Entry, lanes: &mut Vec<LaneStats>, is_strict: impl Fn(&str) -> bool) {
    let header = &entry.job.header;
    let same = |lane: &LaneStats| lane.queue == header.queue && lane.kind == header.kind;
    let at = lanes.iter().position(same).unwrap_or_else(|| {
        lanes.push(LaneStats::empty(header.queue.clone(), header.kind.clone()));
        lanes.len() - 1
    });
    let lane = &mut lanes[at];
    *lane.counter(entry.job.state) += 1;
    if entry.job.state == State::Scheduled {
        let due_at = header.run_at;
        lane.next_due_at = Some(lane.next_due_at.map_or(due_at, |at| at.min(due_at)));
    }
    if entry.job.state != State::Available {
        return;
    }
    lane.head_ready_at = Some(entry.ready_at);
    if is_strict(&header.queue) {
        let (priority, head_ready_at) = (header.priority, entry.ready_at);
        let known = lane.priorities.binary_search_by_key(&priority, |stats| stats.priority);
        let at = known.unwrap_or_else(|at| {
            lane.priorities.insert(at, PriorityStats::new(priority, 0, head_ready_at));
            at
        });
        lane.priorities[at].available += 1;
    }
}
