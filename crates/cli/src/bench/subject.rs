//! The interface between workloads and stores: engines and baselines run through the same harness.

use super::clock;
use super::meter::Counts;
use crate::connect::{Connection, connect};
use anyhow::{Context as _, Result, bail, ensure};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_core::engine::{
    Change, ChangeItem, Claim, Claimant, Claimed, Configure, Disposition, Engine, Enqueue,
    Enqueued, Heartbeat, Held, MaintainReply, MaintainRequest, OpenSession, Outcome, SessionId,
    Settle, SettleItem, StatsRequest, Wait, Work,
};
use windlass_core::model::{Due, Limit, Name, NewJob, QueuePatch};
use windlass_core::policy::Retention;
use windlass_core::{JobId, limits};
use windlass_services::{Services, ServicesHandle};

/// Queue of the benchmark. The name must not collide with real queues, because a server may be shared.
pub(super) const QUEUE: &str = "windlass-bench";
/// Retention of the benchmark's jobs on a server after the run.
const CLEARED_MS: u64 = 1_000;
/// Maximum number of lanes over which a workload spreads its jobs.
pub(super) const LANES_MAX: usize = 20;

/// A store under measurement. Cheap to clone; every caller has its own.
pub(super) trait Subject: Clone + Send + Sync + 'static {
    /// The worker type of this store.
    type Worker: Worker;

    /// Stores the jobs with these numbers durably, spread over `lanes` lanes.
    fn enqueue(&self, numbers: Range<u64>, lanes: usize)
    -> impl Future<Output = Result<()>> + Send;

    /// A new worker.
    fn worker(&self) -> impl Future<Output = Result<Self::Worker>> + Send;

    /// The store's own counters, as far as it has any.
    fn counts(&self) -> impl Future<Output = Counts> + Send;
}

/// Claims and completes jobs.
pub(super) trait Worker: Send + 'static {
    /// A claimed job.
    type Held: Numbered + Send + 'static;

    /// Completes `done` durably and claims up to `want` more, in one round trip.
    fn next(
        &mut self,
        done: Vec<Self::Held>,
        want: u32,
    ) -> impl Future<Output = Result<Vec<Self::Held>>> + Send;
}

/// A job that knows its number.
pub(super) trait Numbered {
    /// The number in the payload, which the handler therefore has to read.
    fn number(&self) -> u64;
}

/// A payload of about 200 bytes of JSON, with the job's number at a fixed place.
pub(super) fn payload(number: u64) -> String {
    format!(
        r#"{{"n":"{number:012}","to":"ada@example.org","template":"welcome","subject":"Welcome aboard, and what to do first","link":"https://example.org/confirm?token=c0ffee00c0ffee00","locale":"en-GB","retry":false}}"#
    )
}

/// The number in a payload made by [`payload`].
pub(super) fn number_in(payload: &[u8]) -> Result<u64> {
    // A store that parses JSON may return it with different whitespace.
    let value = payload.get(5..).map(|rest| rest.trim_ascii_start());
    let digits = value.and_then(|value| value.get(1..13));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    digits
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("a job was returned with a different payload: {payload:?}"))
}

/// Yields to other callers: an in-memory engine answers without ever suspending, and a caller in a loop would
/// occupy the thread.
async fn take_turns() {
    tokio::task::consume_budget().await;
}

/// An engine under measurement.
#[derive(Clone)]
pub(super) struct EngineSubject {
    connection: Connection,
    queue: Name,
    /// The kinds, which are the lanes of the queue; created once, as in applications.
    kinds: Arc<[Name]>,
    /// The number of tenants, if the jobs have any.
    groups: Option<u64>,
}

impl EngineSubject {
    /// Opens the engine at `url`.
    pub(super) async fn open(url: &crate::connect::Url) -> Result<Self> {
        let kinds = (0..LANES_MAX).map(|lane| format!("noop-{lane}").into()).collect();
        Ok(Self { connection: connect(url).await?, queue: QUEUE.into(), kinds, groups: None })
    }

    /// Opens `count` separate engines on the same store, like those of other processes.
    pub(super) async fn apart(&self, url: &crate::connect::Url, count: usize) -> Result<Vec<Self>> {
        let mut apart = Vec::with_capacity(count);
        for number in 1..=count {
            let opened = Self::open(url).await;
            apart.push(opened.with_context(|| {
                format!("cannot open engine {number} of {count}; the server must accept the connections of all")
            })?);
        }
        Ok(apart)
    }

    /// The same, each with its own queue.
    pub(super) async fn with_own_queues(
        &self,
        url: &crate::connect::Url,
        count: usize,
    ) -> Result<Vec<Self>> {
        let apart = self.apart(url, count).await?;
        let on = |(number, subject): (usize, &Self)| subject.on(format!("{QUEUE}-{number}"));
        Ok(apart.iter().enumerate().map(on).collect())
    }

    /// The same engine with another queue.
    pub(super) fn on(&self, queue: impl Into<Name>) -> Self {
        Self { queue: queue.into(), ..self.clone() }
    }

    /// The same engine with jobs of this number of tenants.
    pub(super) fn of_tenants(&self, groups: u64) -> Self {
        Self { groups: Some(groups), ..self.clone() }
    }

    /// The engine, to be hosted in a server.
    pub(super) fn shared_engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.connection.engine)
    }

    /// Starts the services as a server does.
    pub(super) fn services(&self) -> Result<ServicesHandle> {
        Ok(Services::builder(self.shared_engine()).start()?)
    }

    /// Reads the statistics of all lanes.
    pub(super) async fn stats(&self) -> Result<()> {
        self.engine().stats(StatsRequest::default()).await?;
        Ok(())
    }

    fn engine(&self) -> &dyn Engine {
        &*self.connection.engine
    }

    /// Waits for a claimable job, at most `wait_ms`.
    pub(super) async fn wait(&self, wait_ms: u64) -> Result<()> {
        self.engine().wait(Wait::new([self.queue.clone()], wait_ms)).await?;
        Ok(())
    }

    /// Sets the retention of finished jobs to `ms`.
    pub(super) async fn keep_finished(&self, ms: u64) -> Result<()> {
        let patch = QueuePatch::retention(Retention::uniform_ms(ms));
        self.configure([Configure::queue(self.queue.clone(), patch)]).await
    }

    /// Creates a limit and lists it for the queue.
    pub(super) async fn list_limit(&self, limit: Limit) -> Result<()> {
        let listed = Configure::queue(self.queue.clone(), QueuePatch::limits([QUEUE]));
        self.configure([Configure::limit(QUEUE, limit), listed]).await
    }

    /// Removes that limit again: on a server, other workloads would run under it.
    pub(super) async fn remove_limit(&self) -> Result<()> {
        let none: [&str; 0] = [];
        let unlisted = Configure::queue(self.queue.clone(), QueuePatch::limits(none));
        self.configure([unlisted, Configure::remove_limit(QUEUE)]).await
    }

    async fn configure<const N: usize>(&self, changes: [Configure; N]) -> Result<()> {
        let items = self.engine().configure(changes.into()).await?.value;
        items.into_iter().collect::<windlass_core::Result<()>>()?;
        Ok(())
    }

    /// Adds `count` idle lanes to the queue: kinds whose jobs have all ended, apart from the drained kinds.
    pub(super) async fn leave_lanes(&self, count: u64) -> Result<()> {
        let numbers: Vec<u64> = (0..count).collect();
        for some in numbers.chunks(1_000) {
            let job = |n: &u64| NewJob::new(format!("idle-{n}")).queue(self.queue.clone());
            let added = self.engine().enqueue(Enqueue::each(some.iter().map(job))).await?.value;
            let cancel = |item: windlass_core::Result<Enqueued>| {
                item.map(|added| ChangeItem::new(added.id, Change::Cancel))
            };
            let cancel =
                added.into_iter().map(cancel).collect::<windlass_core::Result<Vec<_>>>()?;
            let cancelled = self.engine().change(cancel).await?.value;
            cancelled.into_iter().try_for_each(|item| item.map(|_| ()))?;
        }
        Ok(())
    }

    /// Completes jobs that were claimed by other means.
    pub(super) async fn complete(&self, jobs: Vec<SettleItem>) -> Result<()> {
        let reply = self.engine().settle(Settle::new(jobs)).await?.value;
        reply.items.into_iter().try_for_each(|item| item.map(|_| ()))?;
        Ok(())
    }

    /// Completes the remaining jobs of the queue and lets them be removed: on a server, they would otherwise
    /// stay.
    pub(super) async fn clear(&self) -> Result<()> {
        self.keep_finished(CLEARED_MS).await?;
        let mut worker = self.worker().await?;
        let mut held = Vec::new();
        loop {
            held = worker.next(held, limits::CLAIM_BATCH_MAX).await?;
            if held.is_empty() {
                self.engine().close_session(worker.session).await?;
                return Ok(());
            }
        }
    }

    /// Runs one step of maintenance with the batch size of the services.
    pub(super) async fn maintain(&self, work: Work) -> Result<MaintainReply> {
        Ok(self.engine().maintain(MaintainRequest::new(work, 1_000)).await?.value)
    }

    /// Stores the jobs with these numbers durably, to be run when they are due.
    pub(super) async fn enqueue_due(
        &self,
        numbers: Range<u64>,
        lanes: usize,
        due: Due,
    ) -> Result<()> {
        take_turns().await;
        let job = |number| {
            let kind = &self.kinds[number as usize % lanes];
            let mut job = NewJob::new(kind.clone()).queue(self.queue.clone());
            job.tenant = self.groups.map(|groups| format!("tenant-{}", number % groups));
            job.json(payload(number)).due(due)
        };
        for item in self.engine().enqueue(Enqueue::each(numbers.map(job))).await?.value {
            let disposition = item?.disposition;
            ensure!(
                disposition == Disposition::Created,
                "a new job was answered with {disposition:?}"
            );
        }
        Ok(())
    }
}

impl Subject for EngineSubject {
    type Worker = EngineWorker;

    async fn enqueue(&self, numbers: Range<u64>, lanes: usize) -> Result<()> {
        self.enqueue_due(numbers, lanes, Due::Now).await
    }

    async fn worker(&self) -> Result<EngineWorker> {
        let session = self.engine().open_session(OpenSession::new("bench")).await?.value.id;
        Ok(EngineWorker { subject: self.clone(), session, claim_no: 0, beat_at: clock::now() })
    }

    async fn counts(&self) -> Counts {
        let Connection { syncs, server_stats, .. } = &self.connection;
        let server_stats = match server_stats {
            Some(server_stats) => server_stats().await,
            None => None,
        };
        Counts { syncs: syncs.as_ref().map(|count| count()), server_stats }
    }
}

/// A worker with its own session.
pub(super) struct EngineWorker {
    subject: EngineSubject,
    session: SessionId,
    claim_no: u64,
    /// Time of the last heartbeat.
    beat_at: Instant,
}

/// A job leased from an engine.
pub(super) struct EngineHeld {
    id: JobId,
    lease: windlass_core::engine::Lease,
    number: u64,
}

impl Numbered for EngineHeld {
    fn number(&self) -> u64 {
        self.number
    }
}

impl EngineWorker {
    /// Sends a heartbeat if it is due, declaring the held jobs.
    async fn heartbeat(&mut self, held: &[EngineHeld]) -> Result<()> {
        if self.beat_at.elapsed() < Duration::from_millis(limits::HEARTBEAT_MS) {
            return Ok(());
        }
        self.beat_at = clock::now();
        let held = held.iter().map(|job| Held { id: job.id, lease: job.lease.clone() }).collect();
        let beat = Heartbeat::new(self.session.clone(), self.claim_no, held);
        let reply = self.subject.engine().heartbeat(beat).await?.value;
        ensure!(reply.lost.is_empty(), "leases were lost in a bench without crashes: {reply:?}");
        Ok(())
    }

    fn claim(&mut self, want: u32) -> Claim {
        self.claim_no += 1;
        let by = Claimant::Session { session: self.session.clone(), claim_no: self.claim_no };
        Claim::new(by, self.subject.queue.clone(), want)
    }

    async fn settle(&mut self, done: Vec<EngineHeld>, want: u32) -> Result<Option<Claimed>> {
        let item = |job: EngineHeld| SettleItem::new(job.id, job.lease, Outcome::DONE);
        let mut settle = Settle::new(done.into_iter().map(item));
        if want > 0 {
            settle = settle.then(self.claim(want));
        }
        let reply = self.subject.engine().settle(settle).await?.value;
        for item in reply.items {
            let settled = item?;
            ensure!(!settled.already, "job {} was completed twice", settled.id);
        }
        Ok(reply.claimed.transpose()?)
    }
}

impl Worker for EngineWorker {
    type Held = EngineHeld;

    async fn next(&mut self, done: Vec<EngineHeld>, want: u32) -> Result<Vec<EngineHeld>> {
        take_turns().await;
        self.heartbeat(&done).await?;
        let claimed = match (done.is_empty(), want) {
            (true, 0) => None,
            (true, _) => {
                let claim = self.claim(want);
                Some(self.subject.engine().claim(claim).await?.value)
            }
            (false, _) => self.settle(done, want).await?,
        };
        let jobs = claimed.map(|claimed| claimed.jobs).unwrap_or_default();
        let held = jobs.into_iter().map(|job| {
            let Some(part) = job.parts.payload else { bail!("{} has no payload", job.header.id) };
            Ok(EngineHeld { id: job.header.id, lease: job.lease, number: number_in(&part.bytes)? })
        });
        held.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_of_about_200_bytes_and_knows_its_number() {
        let text = payload(42);
        assert!((180..=220).contains(&text.len()), "{} bytes", text.len());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["n"], "000000000042");
        assert_eq!(number_in(text.as_bytes()).unwrap(), 42);
        assert_eq!(number_in(br#"{"n": "000000000042", "to": "ada"}"#).unwrap(), 42);
        assert!(number_in(b"{}").is_err());
    }
}
