//! The engine: implements the traits of core and delegates each verb.

use crate::api::joining::give_ids;
use crate::api::migrate::bring_up;
use crate::api::schema::Schema;
use crate::conn::Pool;
use crate::conn::error::Trouble;
use crate::conn::estimate::Estimate;
use crate::conn::options::{CONNECTIONS_MAX, LOCK_TIMEOUT_MS, Options};
use crate::conn::payloads::payload_bytes_max;
use crate::conn::server::Server;
use crate::fast::gate::Gates;
use crate::fast::scan_cursor::ScanCursor;
use crate::retention::cursor::RetentionCursor;
use crate::retention::partitions::Partitions;
use crate::slow::heartbeat_cache::HeartbeatCache;
use crate::slow::keyed::keyed_max;
use crate::slow::load::UNRESOLVED_MAX;
use crate::slow::moves;
use crate::slow::perform::{Needs, Run, Shared};
use crate::upkeep::LockBackoff;
use crate::wake::notify::{Wakeups, channel};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use windlass_core::engine::*;
use windlass_core::id::Ids;
use windlass_core::model::{Job, Name, NewJob};
use windlass_core::sync::lock;
use windlass_core::time::millis;
use windlass_core::{Error, JobId, Result, Timestamp, check_name, within_range, within_time};
use windlass_executor::LaneKey;
use windlass_workset::Wants;

/// Windlass on PostgreSQL. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct PostgresEngine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Shared,
    pub(crate) wakeups: Wakeups,
    pub(crate) estimate: Estimate,
    pub(crate) partitions: Partitions,
    pub(crate) retention_cursor: Mutex<RetentionCursor>,
    pub(crate) scan_cursor: Arc<ScanCursor>,
    pub(crate) heartbeat_cache: Arc<HeartbeatCache>,
    /// Backoff after refused locks, by table.
    pub(crate) lock_backoff: Mutex<HashMap<String, LockBackoff>>,
    /// When to vacuum next; `None`: at any time.
    pub(crate) vacuum_at: Mutex<Option<Instant>>,
    /// When lanes were last marked as idle, and when they were last deleted.
    pub(crate) lanes_maintained_at: Mutex<(Option<Timestamp>, Option<Timestamp>)>,
    pub(crate) schema: Schema,
    /// Permits of callers that may wait for keys.
    pub(crate) keyed: Semaphore,
    /// Generates ids for jobs without one.
    ids: Mutex<Ids>,
    /// Whether plain requests may do without the executor; always, but in tests.
    fast_paths: FastPaths,
    /// Queues under limits over all jobs.
    pub(crate) gates: Gates,
    /// Whether limits by group counted jobs of the last settle: the next one locks their groups on the fast path.
    pub(crate) settles_in_groups: AtomicBool,
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresEngine({:?})", self.inner.schema.name())
    }
}

impl PostgresEngine {
    /// Connects, and creates or updates the tables unless that is switched off. Needs a Tokio runtime.
    pub async fn connect(options: Options) -> Result<Self> {
        let schema = Schema::new(&options.schema)?;
        let server = Server::at(&options.url)?;
        let connections = options.connections;
        within_range("connections", connections as u64, 1..=CONNECTIONS_MAX as u64)?;
        within_time("lock_timeout", options.lock_timeout, LOCK_TIMEOUT_MS)?;
        let mut capabilities = capabilities();
        if let Some(bytes_max) = options.payload_bytes_max {
            capabilities = capabilities.limit_payloads(bytes_max)?;
        }
        bring_up(&server, &schema, options.migrate).await.map_err(Trouble::into_error)?;
        let random = options.random;
        let (scan_cursor, heartbeat_cache) =
            (Arc::new(ScanCursor::default()), Arc::new(HeartbeatCache::default()));
        let pool = Pool::new(
            server.clone(),
            schema.clone(),
            Arc::clone(&random),
            connections,
            Arc::clone(&scan_cursor),
            Arc::clone(&heartbeat_cache),
        );
        // The first connection shows whether the server is usable.
        let first = pool.lend().await.map_err(Trouble::into_error)?;
        let estimate = Estimate::new(Timestamp::from_millis(first.connected_at));
        let channel = channel(&first).await.map_err(Trouble::into_error)?;
        let stored = payload_bytes_max(&first, options.payload_bytes_max).await;
        if let Some(bytes_max) = stored.map_err(Trouble::into_error)? {
            capabilities = capabilities.limit_payloads(bytes_max)?;
        }
        first.give_back();
        let (clock, lock_timeout_ms) = (options.clock, millis(options.lock_timeout));
        let shared = Shared { capabilities, pool, clock, random, lock_timeout_ms };
        let wakeups = Wakeups::start(server, channel, Arc::clone(&scan_cursor), &*shared.random);
        let inner = Inner {
            shared,
            wakeups,
            estimate,
            partitions: Partitions::default(),
            retention_cursor: Mutex::default(),
            scan_cursor,
            heartbeat_cache,
            lock_backoff: Mutex::default(),
            vacuum_at: Mutex::default(),
            lanes_maintained_at: Mutex::default(),
            schema,
            keyed: Semaphore::new(keyed_max(connections)),
            ids: Mutex::default(),
            fast_paths: options.fast_paths,
            gates: Gates::default(),
            settles_in_groups: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs a verb on the slow path, and wakes waiters if jobs became ready.
    pub(crate) async fn perform<T>(
        &self,
        needs: Needs,
        wants: Wants,
        lanes: Vec<LaneKey>,
        mut act: impl FnMut(&mut Run<'_>, Timestamp) -> Result<T> + Send,
    ) -> Result<Stamped<T>> {
        let done = self.inner.shared.perform(needs, &wants, &lanes, &mut act).await;
        // It may have locked ready jobs, and other claims may have skipped them.
        let done = done.inspect_err(|_| self.inner.scan_cursor.forget())?;
        if done.readied || done.lowest.is_some() {
            self.inner.wakeups.wake(done.lowest, None);
        }
        if !done.events.is_empty() {
            self.inner.wakeups.wake_readers(done.events);
        }
        Ok(done.reply)
    }

    async fn enqueue_all(&self, mut request: Enqueue) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        request.check()?;
        let lanes = lanes_of(request.jobs.iter());
        let enqueued = match self.inner.fast_paths.are_on() {
            true => self.enqueue_fast(&mut request, &lanes).await?,
            false => None,
        };
        match enqueued {
            Some(enqueued) => Ok(enqueued),
            None => self.enqueue_slow(request).await,
        }
    }

    /// Stores jobs of any kind, on the slow path.
    pub(crate) async fn enqueue_slow(
        &self,
        request: Enqueue,
    ) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        match request.jobs.iter().any(|job| job.unique.is_some() || job.key.is_some()) {
            true => self.enqueue_keyed(request).await,
            false => self.enqueue_run(request, Needs::Durable).await,
        }
    }

    /// Runs the executor over jobs.
    pub(crate) async fn enqueue_run(
        &self,
        mut request: Enqueue,
        needs: Needs,
    ) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        self.follow_ahead(request.jobs.iter()).await?;
        let wants = Wants::of_enqueue(&request);
        let lanes = lanes_of(request.jobs.iter());
        let mut fresh: Vec<JobId> = Vec::new();
        self.perform(needs, wants, lanes, |run, now| {
            fresh.extend(self.give_ids(&mut request.jobs, now));
            run.rows_mut().add_fresh(fresh.iter().copied());
            run.rows().expect_groups(&request.jobs);
            run.enqueue(request.clone(), now)
        })
        .await
    }

    /// Gives ids to jobs without one; returns the new ids.
    pub(crate) fn give_ids(&self, jobs: &mut [NewJob], now: Timestamp) -> Vec<JobId> {
        let mut ids = lock(&self.inner.ids);
        give_ids(&mut ids, &*self.inner.shared.random, jobs, now)
    }

    /// Settles reports of any kind, on the slow path. The claim is a transaction of its own: a transaction that has
    /// locked the groups of its reports must not wait for the groups of other jobs.
    pub(crate) async fn settle_slow(&self, mut request: Settle) -> Result<Stamped<SettleReply>> {
        let claim = request.claim.take();
        self.follow_ahead(request.items.iter().flat_map(|item| &item.follow_ups)).await?;
        let wants = Wants::of_settle(&request);
        let mut lanes = lanes_of(request.items.iter().flat_map(|item| &item.follow_ups));
        lanes.extend(self.lanes_of_moves(&moves::of_reports(&request.items)).await?);
        let settled = self.perform(Needs::Durable, wants, lanes, |run, now| {
            run.rows().expect_follow_ups(&request.items);
            if run.rows().base().has_groups() {
                self.inner.settles_in_groups.store(true, Ordering::Relaxed);
            }
            run.settle(&request, now)
        });
        let mut settled = settled.await?;
        if let Some(claim) = claim {
            let claimed = self.claim(claim).await;
            settled.value.claimed = Some(claimed.map(|claimed| claimed.value));
        }
        Ok(settled)
    }

    async fn maintain_step(&self, request: MaintainRequest) -> Result<Stamped<MaintainReply>> {
        request.check()?;
        if request.work == Work::Compact {
            return self.compact(request).await;
        }
        if request.work == Work::Promote {
            self.cancel_replaced(request.budget).await?;
        }
        let mut removed = MaintainReply::default();
        if request.work == Work::Retain {
            removed = self.retain(request.budget).await?;
            if removed.more {
                return Ok(self.answers().await?.map(|()| removed));
            }
        }
        let rest = MaintainRequest::new(request.work, request.budget - removed.done);
        let wants = Wants::of_maintain(rest);
        let reply = self.perform(Needs::Durable, wants, Vec::new(), |run, now| {
            let loaded = run.rows().base();
            let mut reply = run.maintain_due(rest, loaded.due.clone(), now)?;
            reply.more |= loaded.unsure && reply.done < rest.budget;
            if rest.work == Work::Promote {
                run.open_lines(loaded.openings.clone(), rest, &mut reply, now)?;
                let next = run.rows().next_opening();
                reply.more |= next.is_some_and(|at| at <= now);
                reply.next_at = reply.next_at.into_iter().chain(next).min();
                let ended = loaded.still_unresolved().collect();
                run.continue_resolving(ended, rest, &mut reply, now)?;
                // There may be more behind a full list.
                reply.more |= loaded.unresolved.len() as u32 >= UNRESOLVED_MAX.min(rest.budget);
            }
            Ok(reply)
        });
        Ok(reply.await?.map(|reply| together(removed, reply)))
    }
}

/// What this engine supports.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities::new("postgres", Atomicity::Store, Durability::Host)
        .with(Capability::GlobalUnique)
        .with(Capability::FairOrder)
        .with(Capability::Limits)
        .with(Capability::Move)
        .with(Capability::Flows)
        .with(Capability::Topics)
        .with(Capability::Events)
}

/// Merges the replies of two maintenance steps.
fn together(first: MaintainReply, mut second: MaintainReply) -> MaintainReply {
    second.done += first.done;
    first.tallies.into_iter().for_each(|tally| second.add(tally));
    second
}

/// The lanes of these jobs, without invalid names, which are refused later.
pub(crate) fn lanes_of<'a>(jobs: impl Iterator<Item = &'a NewJob>) -> Vec<LaneKey> {
    valid_lanes(jobs.map(|job| (&job.queue, &job.kind)))
}

fn valid_lanes<'a>(names: impl Iterator<Item = (&'a Name, &'a Name)>) -> Vec<LaneKey> {
    let good = |(queue, kind): &(&Name, &Name)| {
        check_name("queue", queue).is_ok() && check_name("kind", kind).is_ok()
    };
    let mut lanes: Vec<LaneKey> =
        names.filter(good).map(|(queue, kind)| (queue.clone(), kind.clone())).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

impl Jobs for PostgresEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.shared.capabilities
    }

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(self.enqueue_all(request))
    }

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        Box::pin(self.perform(Needs::Written, Wants::default(), Vec::new(), move |run, now| {
            run.open_session(request.clone(), now)
        }))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        Box::pin(async move {
            request.check()?;
            let (heartbeat_cache, began) = (&self.inner.heartbeat_cache, Instant::now());
            let known = heartbeat_cache.known(&request.session);
            let wants = Wants::of_heartbeat(&request, known.clone());
            let beat = |run: &mut Run<'_>, now| run.heartbeat(request.clone(), now);
            let heard = self.perform(Needs::Written, wants, Vec::new(), beat).await;
            match &heard {
                Ok(_) => heartbeat_cache.heard(&request, known.as_deref(), began),
                Err(_) => heartbeat_cache.forget(&request.session),
            }
            heard
        })
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        let wants = Wants::of_session(&session);
        self.inner.heartbeat_cache.forget(&session);
        Box::pin(self.perform(Needs::Written, wants, Vec::new(), move |run, now| {
            run.close_session(&session, now)
        }))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            request.check()?;
            self.inner.heartbeat_cache.claims(&request);
            if self.inner.fast_paths.are_on()
                && let Some(claimed) = self.claim_fast(&request).await?
            {
                return Ok(claimed);
            }
            self.claim_slow(&request).await
        })
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        Box::pin(self.wait_ready(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(async move {
            request.check()?;
            request.claim.iter().for_each(|claim| self.inner.heartbeat_cache.claims(claim));
            let settled = match self.inner.fast_paths.are_on() {
                true => self.settle_fast(&request).await?,
                false => None,
            };
            match settled {
                Some(settled) => Ok(settled),
                None => self.settle_slow(request).await,
            }
        })
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        Box::pin(async move {
            request.check()?;
            let wants = Wants::of_update(&request);
            let update = |run: &mut Run<'_>, now| run.update(request.clone(), now);
            self.perform(Needs::Durable, wants, Vec::new(), update).await
        })
    }

    fn take(&self, request: Take) -> Answer<'_, Took> {
        Box::pin(async move {
            let take = |run: &mut Run<'_>, now| run.take_tokens(&request, now);
            self.perform(Needs::Durable, Wants::default(), Vec::new(), take).await
        })
    }
}

impl Admin for PostgresEngine {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        Box::pin(self.get_jobs(request))
    }

    fn list(&self, request: List) -> Answer<'_, Page<Job>> {
        Box::pin(self.list_jobs(request))
    }

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        Box::pin(self.count_lanes(request))
    }

    fn limits(&self) -> Answer<'_, Vec<LimitStats>> {
        Box::pin(self.limit_stats())
    }

    fn why(&self, id: JobId) -> Answer<'_, Explanation> {
        Box::pin(self.explain(id))
    }

    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>> {
        Box::pin(self.open_sessions())
    }

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(async move {
            check_items(&batch)?;
            let wants = Wants::of_change(&batch);
            let lanes = self.lanes_of_moves(&moves::of_changes(&batch)).await?;
            let change = |run: &mut Run<'_>, now| {
                run.rows().expect_replays(&batch);
                run.change(batch.clone(), now)
            };
            self.perform(Needs::Durable, wants, lanes, change).await
        })
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            request.check()?;
            let wants = Wants::of_import(&request);
            let headers = request.jobs.iter().map(|job| &job.header);
            let lanes = valid_lanes(headers.map(|header| (&header.queue, &header.kind)));
            let import = |run: &mut Run<'_>, now| run.import(request.clone(), now);
            self.perform(Needs::Durable, wants, lanes, import).await
        })
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        Box::pin(async move {
            check_items(&batch)?;
            let configure = |run: &mut Run<'_>, now| run.configure(batch.clone(), now);
            self.perform(Needs::Durable, Wants::of_settings(), Vec::new(), configure).await
        })
    }

    fn settings(&self) -> Answer<'_, Settings> {
        Box::pin(self.all_settings())
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        Box::pin(self.perform_records(batch))
    }

    fn events(&self, request: EventsRequest) -> Answer<'_, EventsReply> {
        Box::pin(self.wait_for_events(request))
    }

    fn removed(&self, request: RemovedQuery) -> Answer<'_, Page<RemovedCount>> {
        Box::pin(self.removed_jobs(request))
    }

    fn health(&self) -> Answer<'_, ()> {
        Box::pin(self.answers())
    }
}

impl Maintain for PostgresEngine {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        Box::pin(self.maintain_step(request))
    }

    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        Box::pin(self.check_all(repair))
    }
}

/// The error for a cursor that this engine did not return.
pub(crate) fn bad_cursor(cursor: &Cursor) -> Error {
    Error::invalid("cursor", cursor, "use a cursor that an earlier page returned")
}
