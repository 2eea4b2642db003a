//! Measures engines: workloads × contenders × repeats, each in a process of its own.
//!
//! A process per measurement, because memory and CPU are then those of that workload alone, and
//! because whatever happens to it, this process is there to remove its directory.

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

pub(crate) use child::{end_with_parent, told};
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

/// What the user asked for.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The engine.
    pub(crate) url: Url,
    /// What to run on it.
    pub(crate) workloads: Vec<Workload>,
    /// How large and how long.
    pub(crate) profile: Profile,
    /// How often.
    pub(crate) repeats: u32,
    /// Whether the baselines run beside an engine on disk.
    pub(crate) baselines: bool,
    /// Whether a server in a process of its own is measured beside an engine on disk.
    pub(crate) over_http: bool,
    /// Whether to print JSON instead of the table.
    pub(crate) json: bool,
    /// Where to write how watched workloads went over time.
    pub(crate) csv: Option<PathBuf>,
}

/// What one process is to measure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunSpec {
    target: Target,
    workload: Workload,
    stage: Stage,
    profile: Profile,
    /// What the progress bar calls it.
    label: String,
    /// The server behind the URL, if it was started for this.
    server: Option<u32>,
}

/// Where the jobs go.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Target {
    Engine(Url),
    Log(PathBuf),
    Slim(PathBuf),
}

/// Which part of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Fill the directory for the measurement that follows.
    Prepare,
    /// Measure.
    Measure,
}

impl Plan {
    /// Who runs this workload.
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

    /// All runs of one repeat, in order: contenders of one workload stand side by side, so that
    /// what slows the machine down for a while slows them all. For the same reason those that say nothing
    /// without another come just after it, each time.
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

/// Carries the plan out and prints the report.
pub(crate) async fn run(plan: Plan) -> Result<ExitCode> {
    let mut interrupts = Interrupts::listen()?;
    let workspace = Workspace::create(&plan.url)?;
    let runs = plan.runs();
    ensure!(!runs.is_empty(), "none of these workloads means anything for {}", plan.url);
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
            // The other figures are good all the same.
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

/// Writes to files how a run went over time, if that is wanted and known.
fn write_down(plan: &Plan, workload: Workload, number: usize, sample: &Sample) -> Result<()> {
    let (Some(dir), Some(timeline)) = (&plan.csv, &sample.timeline) else { return Ok(()) };
    let name = format!("{}-{number}", workload.name());
    let title = format!("{} · {} · run {number}", workload.name(), workload.about());
    timeline.write(dir, &name, &title)
}

/// What shells expect of a program ended by ctrl-c.
const INTERRUPTED: u8 = 130;

/// Measures in a process and a directory of its own.
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
    // However it ended: the next run must find nothing of this one.
    if let Target::Engine(Url::Postgres(at)) = &spec.target {
        windlass_postgres::remove(at.server(), at.schema()).await?;
    }
    if let Some(server) = server {
        server.stop().await?;
    }
    if let Some(directory) = directory {
        workspace.clear(directory)?;
    }
    ended
}

/// Measures what `spec` says, in this process.
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
    // Somebody's server keeps what one run leaves for the next: before and after, because the run
    // before may have been cut short.
    bench.subject.clear().await?;
    let measured = bench.measure_engine(spec.workload, url).await;
    bench.subject.clear().await?;
    measured
}

/// What a workload works with, where `url` is that of an engine.
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
