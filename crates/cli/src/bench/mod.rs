//! `windlass bench`: measures engines. Workloads × contenders × repeats, each in a separate process.
//!
//! One process per measurement, because its memory and CPU are then those of that workload alone, and because
//! this process can remove its directory even if the measurement crashes.

mod baseline;
mod child;
mod clock;
mod connections;
mod histogram;
mod meter;
mod process;
mod profile;
mod progress;
mod report;
mod served;
mod stats;
mod subject;
mod table;
mod timeline;
mod workload;
mod workspace;

pub(crate) use child::{end_with_parent, received_spec};
pub(crate) use profile::Profile;
pub(crate) use served::{SERVE_COMMAND, Served};
pub(crate) use workload::Workload;

use crate::connect::Url;
use anyhow::{Context as _, Result, ensure};
use baseline::{Baseline, Log, Slim};
use child::{Ended, Interrupts};
use meter::Sample;
use process::Process;
use progress::Progress;
use report::{Contender, Report};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use subject::{EngineSubject, Subject};
use workload::{Bench, Calls};
use workspace::Workspace;

/// The options of a benchmark.
#[derive(Debug)]
pub(crate) struct Plan {
    /// URL of the engine.
    pub(crate) url: Url,
    /// Workloads to run.
    pub(crate) workloads: Vec<Workload>,
    /// Sizes and durations of the workloads.
    pub(crate) profile: Profile,
    /// Number of repeats.
    pub(crate) repeats: u32,
    /// Whether to measure the baselines in addition to an engine on disk.
    pub(crate) baselines: bool,
    /// Whether to measure a server in a separate process in addition to an engine on disk.
    pub(crate) over_http: bool,
    /// Whether to print JSON instead of the table.
    pub(crate) json: bool,
    /// Directory for the time series of watched workloads.
    pub(crate) csv: Option<PathBuf>,
}

/// The specification of one measurement, sent to its process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunSpec {
    target: Target,
    workload: Workload,
    stage: Stage,
    profile: Profile,
    /// Label of the progress bar.
    label: String,
    /// Pid of the server behind the URL, if it was started for this measurement.
    server: Option<u32>,
}

/// The store under measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Target {
    Engine(Url),
    Log(PathBuf),
    Slim(PathBuf),
}

/// The part of a workload to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Fill the directory for the following measurement.
    Prepare,
    /// Measure.
    Measure,
}

impl Plan {
    /// The contenders of a workload.
    fn contenders(&self, workload: Workload) -> Vec<Contender> {
        let on_disk = matches!(self.url, Url::File(_));
        let mut contenders = Vec::new();
        if workload.applies_to(&self.url) {
            contenders.push(Contender::Engine);
        }
        if on_disk && self.baselines && workload.has_baseline() {
            contenders.extend([Contender::Log, Contender::Slim]);
        }
        if on_disk && self.over_http && workload.is_served() {
            contenders.push(Contender::Served);
        }
        contenders
    }

    /// All runs of one repeat, in order. Contenders of one workload run in sequence, so that a temporary
    /// slowdown of the machine affects all of them. For the same reason, a workload that is compared with
    /// another runs directly after it, in every repeat.
    fn runs(&self) -> Vec<(Workload, Contender)> {
        let mut runs: Vec<(Workload, Contender)> = Vec::new();
        for workload in &self.workloads {
            let beside = workload.beside().filter(|_| workload.applies_to(&self.url));
            let is_last = |other: &Workload| runs.last().is_some_and(|run| run.0 == *other);
            let beside = beside.filter(|other| !is_last(other));
            for workload in beside.into_iter().chain([*workload]) {
                runs.extend(self.contenders(workload).into_iter().map(|it| (workload, it)));
            }
        }
        runs
    }
}

/// Runs the benchmark and prints the report.
pub(crate) async fn run(plan: Plan) -> Result<ExitCode> {
    let mut interrupts = Interrupts::listen()?;
    let workspace = Workspace::create(&plan.url)?;
    let runs = plan.runs();
    ensure!(!runs.is_empty(), "none of these workloads applies to {}", plan.url);
    let total = runs.len() * plan.repeats as usize;
    if let Some(dir) = &plan.csv {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the directory {}", dir.display()))?;
    }
    let mut report = Report::default();
    let mut failed = false;
    for number in 0..total {
        let (workload, contender) = runs[number % runs.len()];
        let title = format!("{} {}", workload.name(), contender.title(&plan.url));
        let label = format!("[{}/{total}] {title}", number + 1);
        let run = measure_apart(&plan, &workspace, workload, contender, label, &mut interrupts);
        match run.await {
            Ok(Ended::Measured(sample)) => {
                let number = report.add(workload, contender, (*sample).clone());
                if let Err(error) = write_down(&plan, workload, number, &sample) {
                    eprintln!("error: {title}: {error:#}");
                    failed = true;
                }
            }
            Ok(Ended::Interrupted) => {
                workspace.remove()?;
                eprintln!("interrupted in {title}; everything written was removed");
                return Ok(ExitCode::from(INTERRUPTED));
            }
            // The figures of the other runs are still valid.
            Err(error) => {
                eprintln!("error: {title}: {error:#}");
                failed = true;
            }
        }
    }
    workspace.remove()?;
    match plan.json {
        true => println!("{}", report.json()?),
        false => print!("{}", report.table(&plan.url)),
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Writes the time series of a run to files, if requested and recorded.
fn write_down(plan: &Plan, workload: Workload, number: usize, sample: &Sample) -> Result<()> {
    let (Some(dir), Some(timeline)) = (&plan.csv, &sample.timeline) else { return Ok(()) };
    let name = format!("{}-{number}", workload.name());
    let title = format!("{} · {} · run {number}", workload.name(), workload.about());
    timeline.write(dir, &name, &title)
}

/// The conventional exit code of a program that is ended by ctrl-c.
const INTERRUPTED: u8 = 130;

/// Measures in a separate process and directory.
async fn measure_apart(
    plan: &Plan,
    workspace: &Workspace,
    workload: Workload,
    contender: Contender,
    label: String,
    interrupts: &mut Interrupts,
) -> Result<Ended> {
    let directory = workspace.directory()?;
    let path = directory.as_ref().map(|it| it.path().to_owned()).unwrap_or_default();
    let mut server = None;
    let target = match (contender, &plan.url) {
        (Contender::Log, _) => Target::Log(path),
        (Contender::Slim, _) => Target::Slim(path),
        (Contender::Engine, Url::File(_)) => Target::Engine(Url::File(path)),
        (Contender::Engine, Url::Postgres(at)) => {
            let schema = format!("windlass_bench_{}", std::process::id());
            Target::Engine(Url::Postgres(at.with_schema(schema)))
        }
        (Contender::Engine, Url::Redis(at)) => {
            let name = format!("windlass_bench_{}", std::process::id());
            Target::Engine(Url::Redis(at.with_name(name)))
        }
        (Contender::Served, _) => Target::Engine(server.insert(Served::start(&path).await?).url()),
        (Contender::Engine, elsewhere) => Target::Engine(elsewhere.clone()),
    };
    let mut spec = RunSpec {
        target,
        workload,
        stage: Stage::Prepare,
        profile: plan.profile.clone(),
        label,
        server: server.as_ref().and_then(Served::pid),
    };
    if workload.is_prepared() {
        let prepared = child::run(&spec, interrupts).await?;
        if matches!(prepared, Ended::Interrupted) {
            return Ok(prepared);
        }
    }
    spec.stage = Stage::Measure;
    let ended = child::run(&spec, interrupts).await;
    // The schema is removed even after an error: the next run must start without it.
    if let Target::Engine(Url::Postgres(at)) = &spec.target {
        windlass_postgres::remove(at.server(), at.schema()).await?;
    }
    if let Target::Engine(Url::Redis(at)) = &spec.target {
        windlass_redis::remove(at.server(), at.name()).await?;
    }
    if let Some(server) = server {
        server.stop().await?;
    }
    if let Some(directory) = directory {
        workspace.clear(directory)?;
    }
    ended
}

/// Runs the measurement of `spec` in this process.
pub(crate) async fn measure(spec: &RunSpec) -> Result<Sample> {
    let progress = Progress::new(&spec.label);
    let outcome = match &spec.target {
        Target::Engine(url) => measure_engine(spec, url, &progress).await,
        Target::Log(dir) => {
            let log = Baseline::start(Log::create(dir)?);
            bench(log, spec, &progress, None).measure(spec.workload).await
        }
        Target::Slim(dir) => {
            let slim = Baseline::start(Slim::create(dir)?);
            bench(slim, spec, &progress, None).measure(spec.workload).await
        }
    };
    progress.clear();
    outcome
}

async fn measure_engine(spec: &RunSpec, url: &Url, progress: &Progress) -> Result<Sample> {
    if (spec.workload, spec.stage) == (Workload::Open, Stage::Measure) {
        return workload::measure_open(url).await;
    }
    if let Some(reason) = connections::too_few(spec.workload, url).await? {
        return Ok(Sample::skipped(reason));
    }
    let bench = bench(EngineSubject::open(url).await?, spec, progress, Some(url));
    if spec.stage == Stage::Prepare {
        return bench.prepare_open().await;
    }
    let is_somebodys = matches!(url, Url::Http(_)) && spec.server.is_none();
    if !is_somebodys {
        return bench.measure_engine(spec.workload, url).await;
    }
    // A shared server keeps the jobs of earlier runs. Clears them before and after, because an earlier run may
    // have been interrupted.
    bench.subject.clear().await?;
    let measured = bench.measure_engine(spec.workload, url).await;
    bench.subject.clear().await?;
    measured
}

/// The context of a workload, for the engine at `url`.
fn bench<S: Subject>(
    subject: S,
    spec: &RunSpec,
    progress: &Progress,
    url: Option<&Url>,
) -> Bench<S> {
    let (calls, process) = match (url, spec.server) {
        (Some(Url::Http(_)), Some(pid)) => (Calls::OVER_HTTP, Process::Other(pid)),
        (Some(Url::Http(_)), None) => (Calls::OVER_HTTP, Process::Unknown),
        _ => (Calls::INSIDE, Process::This),
    };
    let profile = Arc::new(spec.profile.clone());
    Bench { subject, profile, progress: progress.clone(), calls, process }
}
