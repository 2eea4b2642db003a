//! The engine: core's traits on top of the executor, under one lock.

use crate::outboxes::Outboxes;
use crate::rows::MemoryRows;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use windlass_core::engine::*;
use windlass_core::model::Job;
use windlass_core::policy::Room;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::sync::lock;
use windlass_core::time::{Clock, SystemClock};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::Executor;

/// An engine that stores everything in memory. Cheap to clone; clones share one store.
#[derive(Clone)]
pub struct MemoryEngine {
    inner: Arc<Inner>,
}

struct Inner {
    capabilities: Capabilities,
    clock: Arc<dyn Clock>,
    epoch: Epoch,
    /// One lock for everything: everything done under it is one atomic step. Never held across an await.
    executor: Mutex<Executor<MemoryRows>>,
    /// Number of jobs that have become ready so far; waiters watch it.
    readied: watch::Sender<u64>,
    /// Number of events appended so far; readers that wait watch it.
    appended: watch::Sender<u64>,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryEngine({})", self.inner.epoch)
    }
}

impl MemoryEngine {
    /// An empty engine with the system clock.
    pub fn new() -> Self {
        Self::with(Arc::new(SystemClock), Arc::new(SystemRandom))
    }

    /// An empty engine with the given clock and randomness: with a
    /// [`ManualClock`](windlass_core::time::ManualClock) tests control the time, with
    /// [`Seeded`](windlass_core::random::Seeded) randomness they are repeatable.
    pub fn with(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self::able(capabilities(), clock, random)
    }

    /// An empty engine like [`with`](Self::with), with this payload limit in bytes, up to 16 MiB.
    pub fn with_payload_bytes_max(
        bytes_max: usize,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self> {
        Ok(Self::able(capabilities().limit_payloads(bytes_max)?, clock, random))
    }

    /// An empty engine like [`with`](Self::with) whose largest atomic step is this.
    ///
    /// With [`Atomicity::Queue`], it works like a store that is partitioned by queue: what a step means for other queues, it
    /// leaves to messages in an outbox. The engine panics if a step touches rows of another queue, so the kit tests on it that
    /// a partitioned store would work. It has no moves between queues, and no unique keys across queues.
    pub fn with_atomicity(
        atomicity: Atomicity,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let by_queue = atomicity == Atomicity::Queue;
        Self::able(if by_queue { by_queue_only() } else { capabilities() }, clock, random)
    }

    /// Cuts off about half of all deliveries between queues, for tests: before they begin, or after a message was applied
    /// and before it is removed, so that it is delivered again.
    pub fn cut_deliveries(&self, seed: u64) {
        if let Some(outboxes) = &mut self.executor().rows_mut().outboxes {
            outboxes.cut(seed);
        }
    }

    fn able(capabilities: Capabilities, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let epoch = Epoch::random(&*random);
        let mut rows = MemoryRows::default();
        if capabilities.atomicity == Atomicity::Queue {
            rows.outboxes = Some(Outboxes::default());
        }
        let executor = Executor::new(capabilities.clone(), random, rows, 0);
        let executor = Mutex::new(executor);
        let (readied, appended) = (watch::Sender::new(0), watch::Sender::new(0));
        let inner = Inner { capabilities, clock, epoch, executor, readied, appended };
        Self { inner: Arc::new(inner) }
    }

    fn executor(&self) -> MutexGuard<'_, Executor<MemoryRows>> {
        // A panic under the lock is a bug that `check` will find; refusing all further calls would only hide it.
        lock(&self.inner.executor)
    }

    /// Runs a function under the lock, notifies waiters of jobs that became ready and of events, and stamps the reply.
    fn perform<'a, T: Send + 'a>(
        &'a self,
        act: impl FnOnce(&mut Executor<MemoryRows>, Timestamp) -> Result<T> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let mut executor = self.executor();
            let now = self.inner.clock.now();
            let value = act(&mut executor, now)?;
            if executor.rows().outboxes.as_ref().is_some_and(|outboxes| !outboxes.is_cut()) {
                // The call has succeeded; maintenance repeats a delivery that fails.
                drop(executor.deliver_messages(now));
            }
            let (readied, appended) = (executor.readied(), executor.events_appended());
            publish(&self.inner.readied, readied);
            publish(&self.inner.appended, appended);
            Ok(self.stamp(value, now))
        })
    }

    fn stamp<T>(&self, value: T, now: Timestamp) -> Stamped<T> {
        Stamped { now, epoch: self.inner.epoch.clone(), value }
    }

    /// Waits until a job may be claimable; see [`Jobs::wait`].
    async fn wait_ready(&self, request: Wait) -> Result<Stamped<bool>> {
        request.check()?;
        let mut readied = self.inner.readied.subscribe();
        let now = || self.inner.clock.now();
        let ready = async {
            loop {
                let readiness = self.executor().readiness(&request, now()).unwrap_or(Room::Later);
                // `self` holds the sender: the channel cannot close while this waits.
                let changed = readied.changed();
                match readiness {
                    Room::Now => return,
                    Room::Later => drop(changed.await),
                    Room::At(at) => {
                        let ms = at.since(now()).max(1);
                        drop(tokio::time::timeout(Duration::from_millis(ms), changed).await);
                    }
                }
            }
        };
        let found = match request.wait_ms {
            0 => self.executor().readiness(&request, now())?.is_now(),
            ms => tokio::time::timeout(Duration::from_millis(ms), ready).await.is_ok(),
        };
        Ok(self.stamp(found, self.inner.clock.now()))
    }

    /// Reads events, or waits for the first one; see [`Admin::events`].
    async fn wait_for_events(&self, mut request: EventsRequest) -> Result<Stamped<EventsReply>> {
        let mut appended = self.inner.appended.subscribe();
        let read = |request: &EventsRequest| {
            let request = request.clone();
            self.perform(move |executor, _| executor.events(&request))
        };
        let first = read(&request).await?;
        if request.wait_ms == 0 || first.value.is_news() {
            return Ok(first);
        }
        request = request.after(first.value.next);
        let news = async {
            loop {
                // `self` holds the sender: the channel cannot close while this waits.
                drop(appended.changed().await);
                let reply = read(&request).await;
                if reply.as_ref().map_or(true, |reply| reply.value.is_news()) {
                    return reply;
                }
            }
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), news).await {
            Ok(reply) => reply,
            Err(_) => read(&request).await,
        }
    }
}

/// Sets the value, and notifies receivers if it has changed.
fn publish(to: &watch::Sender<u64>, value: u64) {
    to.send_if_modified(|seen| std::mem::replace(seen, value) != value);
}

fn capabilities() -> Capabilities {
    plain(Atomicity::Store)
        .with(Capability::GlobalUnique)
        .with(Capability::Move)
        .with(Capability::Topics)
}

/// The capabilities of a store whose atomicity is the queue.
fn by_queue_only() -> Capabilities {
    plain(Atomicity::Queue)
}

fn plain(atomicity: Atomicity) -> Capabilities {
    Capabilities::new("memory", atomicity, Durability::Volatile)
        .with(Capability::FairOrder)
        .with(Capability::Limits)
        .with(Capability::Flows)
        .with(Capability::Events)
}

impl Jobs for MemoryEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        self.perform(move |executor, now| executor.enqueue(request, now))
    }

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        self.perform(move |executor, now| executor.open_session(request, now))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        self.perform(move |executor, now| executor.heartbeat(request, now))
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        self.perform(move |executor, now| executor.close_session(&session, now))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.perform(move |executor, now| executor.claim(&request, now))
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        Box::pin(self.wait_ready(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        self.perform(move |executor, now| executor.settle(&request, now))
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        self.perform(move |executor, now| executor.update(request, now))
    }

    fn take(&self, request: Take) -> Answer<'_, Took> {
        self.perform(move |executor, now| executor.take_tokens(&request, now))
    }
}

impl Admin for MemoryEngine {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        self.perform(move |executor, _| executor.get(&request))
    }

    fn list(&self, request: List) -> Answer<'_, Page<Job>> {
        self.perform(move |executor, _| {
            let mut page = executor.rows().list(&request)?;
            executor.show_running(&mut page.rows);
            Ok(page)
        })
    }

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        self.perform(move |executor, now| executor.stats(&request, now))
    }

    fn limits(&self) -> Answer<'_, Vec<LimitStats>> {
        self.perform(move |executor, now| executor.limits(now))
    }

    fn why(&self, id: JobId) -> Answer<'_, Explanation> {
        self.perform(move |executor, now| executor.why(id, now))
    }

    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>> {
        self.perform(move |executor, _| Ok(executor.sessions()))
    }

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        self.perform(move |executor, now| executor.change(batch, now))
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        self.perform(move |executor, now| executor.import(request, now))
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        self.perform(move |executor, now| executor.configure(batch, now))
    }

    fn settings(&self) -> Answer<'_, Settings> {
        self.perform(move |executor, _| Ok(executor.settings()))
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        self.perform(move |executor, now| executor.records(batch, now))
    }

    fn removed(&self, request: RemovedQuery) -> Answer<'_, Page<RemovedCount>> {
        self.perform(move |executor, _| executor.removed(&request))
    }

    fn events(&self, request: EventsRequest) -> Answer<'_, EventsReply> {
        Box::pin(self.wait_for_events(request))
    }

    fn health(&self) -> Answer<'_, ()> {
        self.perform(move |_, _| Ok(()))
    }
}

impl Maintain for MemoryEngine {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        self.perform(move |executor, now| executor.maintain(request, now))
    }

    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        self.perform(move |executor, now| executor.check(repair, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::model::{KindPatch, Limit, QueuePatch};
    use windlass_core::random::Seeded;

    /// A limit of one queue works where a queue is the largest atomic step; one that two queues share cannot.
    #[tokio::test]
    async fn a_store_whose_atomicity_is_the_queue_refuses_shared_limits() {
        let capabilities = Capabilities::new("narrow", Atomicity::Queue, Durability::Volatile)
            .with(Capability::Limits);
        let random = Arc::new(Seeded::new(1));
        let engine = MemoryEngine::able(capabilities, Arc::new(SystemClock), random);
        let configure =
            async |change| engine.configure(vec![change]).await.unwrap().value.remove(0);
        configure(Configure::limit("stripe", Limit::max_running(5))).await.unwrap();
        configure(Configure::queue("a", QueuePatch::limits(["stripe"]))).await.unwrap();
        let before = engine.settings().await.unwrap().value;
        let shared = [
            Configure::queue("b", QueuePatch::limits(["stripe"])),
            Configure::kind("charge", KindPatch::limits(["stripe"])),
        ];
        for change in shared {
            let refused = configure(change).await.unwrap_err().to_string();
            assert!(refused.contains("stripe"), "{refused}");
            assert!(refused.contains("give each queue its own"), "{refused}");
        }
        assert_eq!(engine.settings().await.unwrap().value, before);
    }
}
