//! The workloads: their names, and which code each of them is.

mod drain;
mod enqueue;
mod live;
mod open;
mod pairs;
mod polls;

use super::meter::{Meter, Sample};
use super::process::Process;
use super::profile::Profile;
use super::progress::Progress;
use super::subject::{EngineSubject, LANES_MAX, Subject};
use crate::connect::Url;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Jobs per call where a workload goes through in batches.
const BATCH: u32 = 100;
/// Jobs per call that fills a queue before the measurement.
const FILL: u64 = 1_000;

/// How a store is called where its users would call one in a process otherwise than one over HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    /// W2: jobs per call.
    bulk: u64,
    /// W2: callers; while one batch is written, the next is made.
    bulk_callers: usize,
    /// W3 and W5: jobs per call.
    drain: u32,
    /// W3 and W5: batches a worker process has under way at a time; while one is settled, others run.
    fetchers: usize,
}

impl Calls {
    /// Of a store in the same process.
    pub(super) const INSIDE: Self = Self { bulk: 1_000, bulk_callers: 2, drain: 100, fetchers: 4 };
    /// Of a server: smaller batches, and more of them under way, because each takes longer.
    pub(super) const OVER_HTTP: Self = Self { bulk: 100, bulk_callers: 8, drain: 50, fetchers: 8 };
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Workload {
    /// Single enqueues, one after the other.
    W1seq,
    /// Single enqueues by 64 concurrent callers.
    W1c64,
    /// Single enqueues by 512 concurrent callers.
    W1c512,
    /// Single enqueues by 64 callers with an engine and connections of their own, as 64 processes have.
    W1p64,
    /// Many jobs by the fastest bulk path.
    W2,
    /// Drain waiting jobs with one worker process.
    W3,
    /// The same with 64 claims at a time.
    C64,
    /// The same with 256 claims at a time.
    C256,
    /// The same with 64 engines that have connections of their own, as 64 processes have.
    C64apart,
    /// From the call of enqueue to the start of the handler, on an idle queue.
    W4,
    /// From the commit of an application's transaction to the start of the handler, while another stays open.
    W4commit,
    /// What `W5same` is compared with: the same jobs in one lane, nothing else waiting.
    W5same0,
    /// Drain jobs from the head of a long line.
    W5same,
    /// What `W5lanes` is compared with: the same jobs over 20 lanes, nothing else waiting.
    W5lanes0,
    /// Drain jobs from the heads of 20 long lines.
    W5lanes,
    /// Enqueue, run and complete at the same time.
    W6,
    /// The same while another session holds an old snapshot.
    W7snapshot,
    /// The same while another session holds an old snapshot and has read our views.
    W7reader,
    /// The same while another session has a transaction open that has written something.
    W7writer,
    /// 256 producers and 256 workers of single jobs, each claimed in one call and completed in another.
    P256,
    /// The same, completing a job and claiming the next in one call.
    P256next,
    /// Open a directory in which many jobs wait.
    Open,
    /// 2,000 connections whose claims wait for something to come: what that costs a server.
    Idle2000,
}

impl Workload {
    /// All of them, in the order they are run.
    pub(crate) const ALL: [Self; 23] = [
        Self::W1seq,
        Self::W1c64,
        Self::W1c512,
        Self::W1p64,
        Self::W2,
        Self::W3,
        Self::C64,
        Self::C256,
        Self::C64apart,
        Self::W4,
        Self::W4commit,
        Self::W5same0,
        Self::W5same,
        Self::W5lanes0,
        Self::W5lanes,
        Self::W6,
        Self::W7snapshot,
        Self::W7reader,
        Self::W7writer,
        Self::P256,
        Self::P256next,
        Self::Open,
        Self::Idle2000,
    ];

    /// Its name in reports and in `--only`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::W1seq => "W1seq",
            Self::W1c64 => "W1c64",
            Self::W1c512 => "W1c512",
            Self::W1p64 => "W1p64",
            Self::W2 => "W2",
            Self::W3 => "W3",
            Self::C64 => "C64",
            Self::C256 => "C256",
            Self::C64apart => "C64apart",
            Self::W4 => "W4",
            Self::W4commit => "W4commit",
            Self::W5same0 => "W5same0",
            Self::W5same => "W5same",
            Self::W5lanes0 => "W5lanes0",
            Self::W5lanes => "W5lanes",
            Self::W6 => "W6",
            Self::W7snapshot => "W7snapshot",
            Self::W7reader => "W7reader",
            Self::W7writer => "W7writer",
            Self::P256 => "P256",
            Self::P256next => "P256next",
            Self::Open => "open",
            Self::Idle2000 => "idle2000",
        }
    }

    /// What it measures, in the table.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::W1seq => "single enqueues, in sequence",
            Self::W1c64 => "single enqueues, 64 callers",
            Self::W1c512 => "single enqueues, 512 callers",
            Self::W1p64 => "single enqueues, 64 engines",
            Self::W2 => "bulk enqueue, in batches",
            Self::W3 => "drain, in batches",
            Self::C64 => "drain, 64 claims at a time",
            Self::C256 => "drain, 256 claims at a time",
            Self::C64apart => "drain, 64 engines",
            Self::W4 => "idle: enqueue to handler start",
            Self::W4commit => "idle: commit to handler start",
            Self::W5same0 => "drain, nothing else waiting",
            Self::W5same => "drain, others behind in the lane",
            Self::W5lanes0 => "drain 20 lanes, nothing else",
            Self::W5lanes => "drain 20 lanes, others behind",
            Self::W6 => "enqueue + run + complete",
            Self::W7snapshot => "… beside an old snapshot",
            Self::W7reader => "… that has read our views",
            Self::W7writer => "… beside an open transaction",
            Self::P256 => "256 producers + 256 workers",
            Self::P256next => "… completing and claiming at once",
            Self::Open => "open with many waiting",
            Self::Idle2000 => "2,000 claims that wait",
        }
    }

    /// Whether the baselines run it too.
    pub(crate) const fn has_baseline(self) -> bool {
        matches!(self, Self::W1c64 | Self::W2 | Self::W3 | Self::P256 | Self::P256next)
    }

    /// Whether it is measured through a server too, beside an engine in this process.
    pub(crate) const fn is_served(self) -> bool {
        matches!(self, Self::W1c64 | Self::W2 | Self::W3 | Self::W4 | Self::Idle2000)
    }

    /// The workload whose rate this one should come near.
    pub(crate) const fn reference(self) -> Option<Self> {
        match self {
            Self::C64 | Self::C256 | Self::C64apart => Some(Self::W3),
            Self::W5same => Some(Self::W5same0),
            Self::W7snapshot | Self::W7reader | Self::W7writer => Some(Self::W6),
            Self::W5lanes => Some(Self::W5lanes0),
            _ => None,
        }
    }

    /// Whether it means anything for an engine at `url`.
    pub(crate) const fn applies_to(self, url: &Url) -> bool {
        match self {
            Self::Open => matches!(url, Url::File(_)),
            Self::Idle2000 => matches!(url, Url::Http(_)),
            Self::W1p64
            | Self::C64apart
            | Self::W4commit
            | Self::W7snapshot
            | Self::W7reader
            | Self::W7writer => matches!(url, Url::Postgres(_)),
            _ => true,
        }
    }

    /// Whether the directory is filled by a process of its own before, so that the memory that
    /// takes does not count.
    pub(crate) const fn is_prepared(self) -> bool {
        matches!(self, Self::Open)
    }

    /// The workloads whose names begin with `text`, in any case.
    pub(crate) fn select(text: &str) -> Result<Vec<Self>, String> {
        let wanted = text.trim().to_ascii_lowercase();
        let begins = |it: &Self| it.name().to_ascii_lowercase().starts_with(&wanted);
        let selected: Vec<Self> = Self::ALL.into_iter().filter(begins).collect();
        if wanted.is_empty() || selected.is_empty() {
            let known = Self::ALL.map(Self::name).join(", ");
            return Err(format!("no workload is called so; the known ones: {known}"));
        }
        Ok(selected)
    }
}

/// What every workload works with.
pub(super) struct Bench<S> {
    /// The store.
    pub(super) subject: S,
    /// How large and how long.
    pub(super) profile: Arc<Profile>,
    /// Where to say how far it is.
    pub(super) progress: Progress,
    /// How the store is called.
    pub(super) calls: Calls,
    /// Who does the work that is measured.
    pub(super) process: Process,
}

impl<S: Subject> Bench<S> {
    /// So many callers of the one store.
    fn callers(&self, count: usize) -> Vec<S> {
        vec![self.subject.clone(); count]
    }

    fn meter(&self) -> Meter {
        Meter::of(self.process)
    }

    /// Stores jobs by the fastest path, spread over so many lanes; not measured.
    async fn fill(&self, jobs: u64, lanes: usize) -> Result<()> {
        self.progress.phase("filling", jobs);
        for from in (0..jobs).step_by(FILL as usize) {
            let upto = (from + FILL).min(jobs);
            self.subject.enqueue(from..upto, lanes).await?;
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
            Workload::W3 => drain::rounds(self, &self.callers(self.calls.fetchers)).await,
            Workload::C64 => drain::rounds(self, &self.callers(64)).await,
            Workload::C256 => drain::rounds(self, &self.callers(256)).await,
            Workload::W5same0 => drain::ahead_of(self, 0, 1).await,
            Workload::W5same => drain::ahead_of(self, profile.deep_others, 1).await,
            Workload::W5lanes0 => drain::ahead_of(self, 0, LANES_MAX).await,
            Workload::W5lanes => drain::ahead_of(self, profile.deep_others, LANES_MAX).await,
            Workload::P256 => pairs::pairs(self, 256, false).await,
            Workload::P256next => pairs::pairs(self, 256, true).await,
            other => bail!("{} is for engines, not for baselines", other.name()),
        }
    }
}

impl Bench<EngineSubject> {
    /// Measures any workload that begins with an open engine, which is at `url`.
    pub(super) async fn measure_engine(&self, workload: Workload, url: &Url) -> Result<Sample> {
        match workload {
            Workload::Idle2000 => polls::idle(self, url).await,
            Workload::W1p64 => {
                let callers = self.subject.apart(url, 64).await?;
                enqueue::singles(self, callers, self.profile.callers_ms).await
            }
            Workload::C64apart => drain::rounds(self, &self.subject.apart(url, 64).await?).await,
            Workload::W4 => live::idle(self).await,
            Workload::W4commit => live::committed(self, url).await,
            Workload::W6 => live::sustained(self).await,
            Workload::W7snapshot | Workload::W7reader | Workload::W7writer => {
                live::beside(self, url, workload).await
            }
            other => self.measure(other).await,
        }
    }

    /// Fills the directory for [`measure_open`].
    pub(super) async fn prepare_open(&self) -> Result<Sample> {
        self.fill(self.profile.deep_others, 1).await?;
        Ok(Sample::default())
    }
}

pub(super) use open::measure_open;

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

    #[test]
    fn names_select_by_their_beginning_and_unknown_ones_name_the_known() {
        assert_eq!(Workload::select("w3"), Ok(vec![Workload::W3]));
        assert_eq!(Workload::select("W5same").unwrap().len(), 2);
        assert_eq!(Workload::select("W5").unwrap().len(), 4);
        for unknown in ["W9", ""] {
            let error = Workload::select(unknown).unwrap_err();
            assert!(Workload::ALL.iter().all(|it| error.contains(it.name())), "{error}");
        }
    }
}
