//! The engine: implements the traits of core and delegates each verb.

use crate::conn::Link;
use crate::conn::error::unavailable;
use crate::conn::memory::Memory;
use crate::conn::source::Source;
use crate::fast::Leases;
use crate::keys::Keys;
use crate::options::{Options, REPLY_WITHIN_DEFAULT};
use crate::slow::edges::UNRESOLVED_MAX;
use crate::slow::perform::{Run, Shared, Verb};
use crate::wake::Wakeups;
use redis::cmd;
use std::fmt;
use std::sync::{Arc, Mutex};
use windlass_core::engine::*;
use windlass_core::id::Ids;
use windlass_core::model::{Job, NewJob};
use windlass_core::sync::lock;
use windlass_core::{Error, JobId, Result, Timestamp};
use windlass_workset::Wants;

/// The version of the stored formats.
const FORMAT: &str = "1";
/// How often a claim is repeated that took no job because all that it read went back to their lines.
const CLAIM_TRIES_MAX: u32 = 16;

/// Windlass on Redis or Valkey. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct RedisEngine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Shared,
    pub(crate) wakeups: Wakeups,
    name: String,
    /// Generates ids for jobs without one.
    ids: Mutex<Ids>,
    /// Whether plain requests may do without the executor; always, but in tests.
    pub(crate) fast_paths: FastPaths,
    pub(crate) leases: Leases,
    memory: Memory,
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisEngine({:?})", self.inner.name)
    }
}

impl RedisEngine {
    /// Connects. Needs a Tokio runtime.
    pub async fn connect(options: Options) -> Result<Self> {
        options.check()?;
        let source = Source::parse(&options.url)?;
        let link = Arc::new(Link::new(source.clone(), options.scripts, options.reply_within));
        let server = link.live().await?.server;
        let keys = Keys::of(&options.name);
        let mut capabilities = Capabilities::new("redis", Atomicity::Store, server.durability)
            .with(Capability::GlobalUnique)
            .with(Capability::FairOrder)
            .with(Capability::Limits)
            .with(Capability::Move)
            .with(Capability::Flows)
            .with(Capability::Topics)
            .with(Capability::Events);
        if let Some(bytes_max) = open_store(&link, &keys, options.payload_bytes_max).await? {
            capabilities = capabilities.limit_payloads(bytes_max)?;
        }
        if server.durability == Durability::Volatile {
            tracing::warn!(
                "the server does not write an append-only file: if it stops, jobs are lost; set appendonly to yes"
            );
        }
        let wakeups = Wakeups::start(source, Arc::clone(&link), keys.one("wake"));
        let shared = Shared::new(link, keys, capabilities, options.clock, options.random);
        let inner = Inner {
            shared,
            wakeups,
            name: options.name,
            ids: Mutex::default(),
            fast_paths: options.fast_paths,
            leases: Leases::default(),
            memory: Memory::new(options.memory_watermark),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs a verb on the slow path, and wakes waiters if jobs became ready.
    async fn perform<T>(
        &self,
        verb: Verb,
        mut act: impl FnMut(&mut Run<'_>, Timestamp) -> Result<T> + Send,
    ) -> Result<Stamped<T>> {
        let done = self.inner.shared.perform(&verb, &mut act).await?;
        if done.readied {
            self.inner.wakeups.wake();
        }
        done.events.iter().for_each(|queue| self.inner.wakeups.wake_readers(queue));
        Ok(done.reply)
    }

    /// Stores jobs of any kind, on the slow path.
    pub(crate) async fn enqueue_slow(
        &self,
        mut request: Enqueue,
    ) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        let wants = Wants::of_enqueue(&request);
        let mut fresh: Vec<JobId> = Vec::new();
        self.perform(Verb::adding(wants), |run, now| {
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
        let without = jobs.iter_mut().filter(|job| job.id.is_none() && !job.derived);
        without.map(|job| *job.id.insert(ids.next(now, &*self.inner.shared.random))).collect()
    }

    /// Settles reports. The claim is a transaction of its own, so that its conflicts do not concern the reports.
    pub(crate) async fn settle_slow(&self, mut request: Settle) -> Result<Stamped<SettleReply>> {
        let claim = request.claim.take();
        let wants = Wants::of_settle(&request);
        let settled = self.perform(Verb::draining(wants), |run, now| {
            run.rows().expect_follow_ups(&request.items);
            run.settle(&request, now)
        });
        let mut settled = settled.await?;
        if let Some(claim) = claim {
            let claimed = self.claim(claim).await;
            settled.value.claimed = Some(claimed.map(|claimed| claimed.value));
        }
        Ok(settled)
    }

    async fn claim_slow(&self, request: &Claim) -> Result<Stamped<Claimed>> {
        let mut tries = 0;
        loop {
            let verb = Verb::draining(Wants::of_claim(request));
            let claim = |run: &mut Run<'_>, now| {
                let claimed = run.claim(request, now)?;
                Ok((claimed, run.rows().deferred()))
            };
            let claimed = self.perform(verb, claim).await?;
            let (Claimed { jobs, .. }, deferred) = &claimed.value;
            // All jobs that it read went back to their lines, and there may be others behind them.
            if !jobs.is_empty() || !*deferred || tries == CLAIM_TRIES_MAX {
                return Ok(claimed.map(|(claimed, _)| claimed));
            }
            tries += 1;
        }
    }

    async fn maintain_step(&self, request: MaintainRequest) -> Result<Stamped<MaintainReply>> {
        request.check()?;
        let mut reopens = false;
        match request.work {
            Work::Compact => return self.compact(request).await,
            Work::Expire => self.index_ages().await?,
            Work::Promote => reopens = self.reopen_lines().await?,
            Work::Reclaim | Work::Retain => {}
            // The executor refuses it.
            _ => {}
        }
        self.perform(Verb::draining(Wants::of_maintain(request)), |run, now| {
            let loaded = run.rows().base();
            let mut reply = run.maintain_due(request, loaded.due.clone(), now)?;
            reply.more |= loaded.unsure && reply.done < request.budget;
            if request.work == Work::Promote {
                run.open_lines(loaded.openings.clone(), request, &mut reply, now)?;
                let next = run.rows().next_opening();
                reply.more |= next.is_some_and(|at| at <= now);
                reply.next_at = reply.next_at.into_iter().chain(next).min();
                let ended = loaded.still_unresolved().collect();
                run.continue_resolving(ended, request, &mut reply, now)?;
                // There may be more behind a full list.
                reply.more |= reopens;
                reply.more |= loaded.unresolved.len() as u32 >= UNRESOLVED_MAX.min(request.budget);
            }
            Ok(reply)
        })
        .await
    }

    /// Whether the store answers.
    pub(crate) async fn answers(&self) -> Result<Stamped<()>> {
        let (transaction, loaded) = self.inner.shared.look().await?;
        Ok(transaction.stamp(&loaded, ()))
    }
}

/// Creates the store if it is new, and returns its payload limit.
async fn open_store(link: &Link, keys: &Keys, bytes_max: Option<usize>) -> Result<Option<usize>> {
    let store = keys.one("store");
    let mut create = cmd("HSETNX");
    create.arg(&store).arg("format").arg(FORMAT);
    link.send(&create).await?;
    if let Some(bytes_max) = bytes_max {
        // Refused before it is stored.
        Capabilities::new("redis", Atomicity::Store, Durability::Volatile)
            .limit_payloads(bytes_max)?;
        let mut set = cmd("HSET");
        set.arg(&store).arg("payload_bytes_max").arg(bytes_max);
        link.send(&set).await?;
    }
    let mut get = cmd("HMGET");
    get.arg(&store).arg("format").arg("payload_bytes_max");
    let (reply, _) = link.send(&get).await?;
    let (format, bytes_max): (String, Option<usize>) =
        redis::from_redis_value(reply).map_err(|error| unavailable(&error))?;
    if format != FORMAT {
        let expected = "the store was made by another version of Windlass: use that one";
        return Err(Error::invalid("format", format, expected));
    }
    Ok(bytes_max)
}

/// Deletes a store: all its keys, in steps. For tests.
#[doc(hidden)]
pub async fn remove(url: &str, name: &str) -> Result<()> {
    let link = Link::new(Source::parse(url)?, false, REPLY_WITHIN_DEFAULT);
    let pattern = format!("{}*", Keys::of(name).prefix());
    let mut cursor = b"0".to_vec();
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(10_000);
        let (reply, _) = link.send(&scan).await?;
        let (next, found): (Vec<u8>, Vec<Vec<u8>>) =
            redis::from_redis_value(reply).map_err(|error| unavailable(&error))?;
        if !found.is_empty() {
            let mut unlink = cmd("UNLINK");
            unlink.arg(&found);
            link.send(&unlink).await?;
        }
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Whether a change of settings may change which lanes count groups.
fn relists(change: &Configure) -> bool {
    match change {
        Configure::Queue(_, patch) => patch.limits.is_some(),
        Configure::Kind(_, patch) => patch.limits.is_some(),
        Configure::Limit(..) => true,
        // A newer change may do anything.
        _ => true,
    }
}

impl Jobs for RedisEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.shared.capabilities
    }

    fn enqueue(&self, mut request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            request.check()?;
            self.inner.memory.admit(&self.inner.shared.link).await?;
            match self.enqueue_fast(&mut request).await? {
                Some(enqueued) => Ok(enqueued),
                None => self.enqueue_slow(request).await,
            }
        })
    }

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        Box::pin(self.perform(Verb::draining(Wants::default()), move |run, now| {
            run.open_session(request.clone(), now)
        }))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        Box::pin(async move {
            request.check()?;
            if let Some(beaten) = self.heartbeat_fast(&request).await? {
                return Ok(beaten);
            }
            let wants = Wants::of_heartbeat(&request, None);
            self.perform(Verb::draining(wants), |run, now| run.heartbeat(request.clone(), now))
                .await
        })
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        let wants = Wants::of_session(&session);
        Box::pin(
            self.perform(Verb::draining(wants), move |run, now| run.close_session(&session, now)),
        )
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            request.check()?;
            match self.claim_fast(&request).await? {
                Some(claimed) => Ok(claimed),
                None => self.claim_slow(&request).await,
            }
        })
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        Box::pin(self.wait_ready(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(async move {
            request.check()?;
            match self.settle_fast(&request).await? {
                Some(settled) => Ok(settled),
                None => self.settle_slow(request).await,
            }
        })
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        Box::pin(async move {
            request.check()?;
            let wants = Wants::of_update(&request);
            self.perform(Verb::adding(wants), |run, now| run.update(request.clone(), now)).await
        })
    }

    fn take(&self, request: Take) -> Answer<'_, Took> {
        Box::pin(self.perform(Verb::draining(Wants::default()), move |run, now| {
            run.take_tokens(&request, now)
        }))
    }
}

impl Admin for RedisEngine {
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
            let verb = Verb::draining(Wants::of_change(&batch));
            self.perform(verb, |run, now| run.change(batch.clone(), now)).await
        })
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            request.check()?;
            self.inner.memory.admit(&self.inner.shared.link).await?;
            let verb = Verb::adding(Wants::of_import(&request));
            self.perform(verb, |run, now| run.import(request.clone(), now)).await
        })
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        Box::pin(async move {
            check_items(&batch)?;
            let mut verb = Verb::draining(Wants::of_settings());
            verb.relists = batch.iter().any(relists);
            self.perform(verb, |run, now| run.configure(batch.clone(), now)).await
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

impl Maintain for RedisEngine {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        Box::pin(self.maintain_step(request))
    }

    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        Box::pin(self.check_all(repair))
    }
}
