//! Dispatches each workload to its code, and provides the context that all of them share.

mod deep;
mod drain;
mod dump;
mod enqueue;
mod hold;
mod lanes;
mod limited;
mod list;
mod live;
mod load;
mod open;
mod pairs;
mod polls;
mod sustained;
mod upkeep;

pub(crate) use list::Workload;
pub(super) use open::measure_open;

use self::drain::Queues::{Each, One};
use super::meter::{Meter, Sample};
use super::process::Process;
use super::profile::Profile;
use super::progress::Progress;
use super::subject::{EngineSubject, LANES_MAX, Subject};
use crate::connect::Url;
use anyhow::{Result, bail};
use std::sync::Arc;

/// Number of jobs per call in batched workloads.
const BATCH: u32 = 100;
/// Number of jobs per call when a queue is filled before the measurement.
const FILL: u64 = 1_000;

/// Batch sizes and concurrency, which differ between an engine in the same process and one over HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    /// W2: jobs per call.
    bulk: u64,
    /// W2: number of callers; while one batch is written, the next is prepared.
    bulk_callers: usize,
    /// W3 and W5: jobs per call.
    drain: u32,
    /// W3 and W5: number of batches that a worker process has in flight; while one is settled, others run.
    fetchers: usize,
}

impl Calls {
    /// Values for an engine in the same process.
    pub(super) const INSIDE: Self = Self { bulk: 1_000, bulk_callers: 2, drain: 100, fetchers: 4 };
    /// Values for a server: smaller batches and more of them in flight, because each call takes longer.
    pub(super) const OVER_HTTP: Self = Self { bulk: 100, bulk_callers: 8, drain: 50, fetchers: 8 };
}

/// The context of a workload.
#[derive(Clone)]
pub(super) struct Bench<S> {
    /// The store.
    pub(super) subject: S,
    /// Sizes and durations.
    pub(super) profile: Arc<Profile>,
    /// The progress bar.
    pub(super) progress: Progress,
    /// Batch sizes and concurrency.
    pub(super) calls: Calls,
    /// The process whose resources are measured.
    pub(super) process: Process,
}

impl<S: Subject> Bench<S> {
    /// `count` handles of the same store.
    fn callers(&self, count: usize) -> Vec<S> {
        vec![self.subject.clone(); count]
    }

    fn meter(&self) -> Meter {
        Meter::of(self.process)
    }

    /// Stores jobs by the fastest path, spread over `lanes` lanes; not measured.
    async fn fill(&self, jobs: u64, lanes: usize) -> Result<()> {
        self.progress.phase("filling", jobs);
        self.fill_at(&self.subject, jobs, lanes).await
    }

    /// The same, through `subject`.
    async fn fill_at(&self, subject: &S, jobs: u64, lanes: usize) -> Result<()> {
        for from in (0..jobs).step_by(FILL as usize) {
            let upto = (from + FILL).min(jobs);
            subject.enqueue(from..upto, lanes).await?;
            self.progress.add(upto - from);
        }
        Ok(())
    }

    /// Measures a workload that any store can run.
    pub(super) async fn measure(&self, workload: Workload) -> Result<Sample> {
        let profile = &self.profile;
        match workload {
            Workload::W1seq => enqueue::singles(self, self.callers(1), profile.sequence_ms).await,
            Workload::W1c64 => enqueue::singles(self, self.callers(64), profile.callers_ms).await,
            Workload::W1c512 => enqueue::singles(self, self.callers(512), profile.callers_ms).await,
            Workload::W2 => enqueue::bulk(self).await,
            Workload::W3 => drain::rounds(self, &self.callers(self.calls.fetchers), One).await,
            Workload::C64 => drain::rounds(self, &self.callers(64), One).await,
            Workload::C256 => drain::rounds(self, &self.callers(256), One).await,
            Workload::W5same0 => drain::ahead_of(self, 0, 1).await,
            Workload::W5same => drain::ahead_of(self, profile.deep_others, 1).await,
            Workload::W5lanes0 => drain::ahead_of(self, 0, LANES_MAX).await,
            Workload::W5lanes => drain::ahead_of(self, profile.deep_others, LANES_MAX).await,
            Workload::P256 => pairs::pairs(self, 256, false).await,
            Workload::P256next => pairs::pairs(self, 256, true).await,
            other => bail!("{} applies to engines, not to baselines", other.name()),
        }
    }
}

impl Bench<EngineSubject> {
    /// Measures any workload that starts with an open engine, which is at `url`.
    pub(super) async fn measure_engine(&self, workload: Workload, url: &Url) -> Result<Sample> {
        let engines = workload.engines().unwrap_or_default();
        match workload {
            Workload::Idle2000 => polls::idle(self, url).await,
            Workload::W1p64 => {
                let callers = self.subject.apart(url, engines).await?;
                enqueue::singles(self, callers, self.profile.callers_ms).await
            }
            Workload::C64apart | Workload::C256apart => {
                drain::rounds(self, &self.subject.apart(url, engines).await?, One).await
            }
            Workload::C64own | Workload::C256own => {
                drain::rounds(self, &self.subject.with_own_queues(url, engines).await?, Each).await
            }
            Workload::W4 => live::idle(self).await,
            Workload::W4commit => live::committed(self, url).await,
            Workload::W3lanes0 => lanes::beside_idle(self, 10).await,
            Workload::W3lanes => lanes::beside_idle(self, self.profile.idle_lanes).await,
            Workload::W3limit => limited::under(self, limited::wide_open(), None).await,
            Workload::W3groups => {
                limited::under(self, limited::wide_open().by_group(), Some(1_000)).await
            }
            Workload::W5group0 => limited::beside_deep_group(self, false).await,
            Workload::W5group => limited::beside_deep_group(self, true).await,
            Workload::W5deep0 => deep::among(self, 0, 0).await,
            Workload::W5deep => {
                deep::among(self, self.profile.deep_ready, self.profile.deep_scheduled).await
            }
            Workload::Soak => sustained::soak(self, url).await,
            watched if watched.is_watched() => sustained::sustained(self, url, watched).await,
            other => self.measure(other).await,
        }
    }

    /// Fills the directory for [`measure_open`].
    pub(super) async fn prepare_open(&self) -> Result<Sample> {
        self.fill(self.profile.deep_others, 1).await?;
        Ok(Sample::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::baseline::{Baseline, Log, Slim};

    fn bench<S: Subject>(subject: S, calls: Calls) -> Bench<S> {
        let (profile, progress) = (Arc::new(Profile::tiny()), Progress::hidden());
        Bench { subject, profile, progress, calls, process: Process::This }
    }

    async fn assert_all_run(url: &Url, calls: Calls) {
        for workload in Workload::ALL.into_iter().filter(|it| it.applies_to(url)) {
            let bench = bench(EngineSubject::open(url).await.unwrap(), calls);
            let sample = bench.measure_engine(workload, url).await.unwrap();
            assert!(sample.jobs > 0, "{workload:?}: {sample:?}");
            assert!(sample.jobs_per_s.is_none_or(|it| it > 0.0), "{workload:?}: {sample:?}");
            bench.subject.clear().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_workload_runs_on_an_engine() {
        assert_all_run(&Url::Memory, Calls::INSIDE).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_workload_runs_through_a_server_and_leaves_nothing_waiting() {
        use windlass_core::engine::{Admin as _, StatsRequest};
        let options = windlass_server::Options::new(([127, 0, 0, 1], 0).into());
        let server = windlass_server::Server::bind(options).await.unwrap();
        let url = Url::Http(format!("http://{}", server.address()));
        let store = windlass_memory::MemoryEngine::new();
        let handle = server.serve(Arc::new(store.clone())).unwrap();
        assert_all_run(&url, Calls::OVER_HTTP).await;
        let lanes = store.stats(StatsRequest::default()).await.unwrap().value;
        assert!(lanes.iter().all(|lane| lane.available + lane.running == 0), "{lanes:?}");
        handle.stop().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_baselines_run_what_they_are_compared_in() {
        for workload in Workload::ALL.into_iter().filter(|it| it.has_baseline()) {
            let dir = tempfile::tempdir().unwrap();
            let log = bench(Baseline::start(Log::create(dir.path()).unwrap()), Calls::INSIDE);
            let slim = bench(Baseline::start(Slim::create(dir.path()).unwrap()), Calls::INSIDE);
            for sample in
                [log.measure(workload).await.unwrap(), slim.measure(workload).await.unwrap()]
            {
                assert!(sample.jobs_per_s.unwrap() > 0.0, "{workload:?}: {sample:?}");
                assert!(sample.fsyncs_per_job.unwrap() > 0.0, "{workload:?}: {sample:?}");
            }
        }
    }
}
