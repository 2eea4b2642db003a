//! One run from its start to its verdict.

use super::client::Order;
use super::client_processes::ClientProcesses;
use super::drain::drain;
use super::progress::Progress;
use super::report::Report;
use super::schedule::{Action, Step, schedule};
use super::target::Target;
use super::{Plan, journal, limits};
use crate::output::{print, print_json};
use anyhow::{Context as _, Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use windlass_kit::history::{Options, Snapshot, check, paces};

/// Maximum time for all processes to end after they are asked to.
const STOP_MAX: Duration = Duration::from_secs(30);

/// Runs the faults against the store and checks the result.
pub(crate) async fn run(plan: Plan) -> Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for ctrl-c")?;
    let evidence = Evidence::create(plan.evidence.as_deref())?;
    let target = Target::prepare(&plan, evidence.path()).await?;
    let steps = schedule(plan.seed, plan.seconds * 1_000, target.participants);
    let faults = steps.iter().filter(|step| step.action.is_fault()).count();
    evidence.write(
        "schedule.json",
        &json!({ "seed": plan.seed, "seconds": plan.seconds, "steps": steps }),
    )?;
    let progress = Progress::begin(&plan, faults, evidence.path());
    let left = format!("this may remain: {}", target.place());
    let clients = ClientProcesses::start(target, evidence.path().to_owned(), plan.seed).await;
    let clients = clients.with_context(|| left.clone())?;
    let mut run = Run { plan, evidence, progress, clients, faults: 0 };
    run.torture(&steps, &mut interrupt).await?;
    tokio::select! {
        verified = run.verify() => {
            let report = verified?;
            run.end(report).await
        }
        _ = interrupt.recv() => bail!("stopped by a second signal, without a verdict; {left}"),
    }
}

struct Run {
    plan: Plan,
    evidence: Evidence,
    progress: Progress,
    clients: ClientProcesses,
    /// Number of faults so far.
    faults: u64,
}

impl Run {
    /// Executes the schedule until the time is up; a signal ends it earlier.
    async fn torture(&mut self, steps: &[Step], interrupt: &mut Signal) -> Result<()> {
        let start = Instant::now();
        let end = start + Duration::from_secs(self.plan.seconds);
        let mut steps = steps.iter().peekable();
        loop {
            let next = steps.peek().map(|step| start + Duration::from_millis(step.at_ms));
            let tick = Instant::now() + self.progress.every();
            let until = next.unwrap_or(end).min(tick);
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                _ = interrupt.recv() => return Ok(()),
            }
            if next.is_some_and(|next| next <= Instant::now()) {
                if let Some(Step { action, .. }) = steps.next() {
                    self.act(*action).await?;
                }
            } else if Instant::now() >= end {
                return Ok(());
            }
            self.clients.notice()?;
            self.progress.at(start.elapsed(), self.faults, self.clients.counts());
        }
    }

    async fn act(&mut self, action: Action) -> Result<()> {
        self.faults += u64::from(action.is_fault());
        self.progress.action(action);
        self.clients.act(action).await
    }

    /// Ends the faults, waits until all jobs have ended, and checks the histories of all clients.
    async fn verify(&mut self) -> Result<Report> {
        self.progress.says("the faults are over; waiting until all jobs have ended");
        self.clients.recover().await?;
        self.clients.target.calm_down().await;
        self.clients.order(Order::Rest).await?;
        self.clients.gone(super::participants::Member::makes_work, STOP_MAX).await?;
        let drained = drain(&mut self.clients, self.evidence.path(), &self.progress).await?;
        self.clients.order(Order::Stop).await?;
        self.clients.gone(|_| true, STOP_MAX).await?;
        self.progress.says("judging");
        let history = journal::read(self.evidence.path())?;
        let engine = self.clients.target.open().await?;
        let mut end = Snapshot::read(&*engine, history.wanted()).await?;
        end.add_queue(&*engine, &self.clients.target.queue).await?;
        let findings = match engine.check(false).await {
            Ok(report) => report.value.findings,
            // On a shared server, the check may exceed its time limit.
            Err(error) => {
                self.progress.says(&format!("the store's consistency check failed: {error}"));
                Vec::new()
            }
        };
        let mut options = Options::default();
        // Claims are not synced to disk: the last ones before a kill may be lost.
        options.claims_forgotten = self.clients.target.participants.store;
        options.retention = self.plan.retention_ms.is_some();
        if self.plan.limits {
            options.limits = limits::checked(&self.clients.target.queue);
        }
        Ok(Report {
            target: self.plan.store.to_string(),
            seed: self.plan.seed,
            seconds: self.plan.seconds,
            faults: self.faults,
            drained,
            verdict: check(&history, &end, &options),
            paces: paces(&history, &options),
            unexpected: self.clients.unexpected.all(),
            findings: findings.into_iter().map(|finding| finding.what).collect(),
            evidence: None,
        })
    }

    /// Prints the verdict; keeps the evidence of a bad one.
    async fn end(self, mut report: Report) -> Result<ExitCode> {
        let is_clean = report.is_clean();
        let target = self.clients.target;
        self.evidence.write("report.json", &report.json())?;
        if is_clean {
            target.remove().await?;
            report.evidence = self.evidence.close()?.map(|it| it.display().to_string());
        } else {
            self.progress.says(&format!("kept: {}", target.place()));
            target.keep().await?;
            report.evidence = Some(self.evidence.keep().display().to_string());
        }
        self.progress.clear();
        match self.plan.json {
            true => print_json(&report.json())?,
            false => print(&report.to_string())?,
        }
        Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The directory of histories, logs, schedule and findings.
struct Evidence {
    path: PathBuf,
    /// Set if the directory is temporary; removed on drop unless kept.
    fresh: Option<tempfile::TempDir>,
}

impl Evidence {
    /// Uses `wanted`, which must be empty or missing, or creates a temporary directory.
    fn create(wanted: Option<&Path>) -> Result<Self> {
        let Some(path) = wanted else {
            let fresh = tempfile::Builder::new().prefix("windlass-torture-").tempdir();
            let fresh = fresh
                .context("cannot make a directory for the evidence; name one with --evidence")?;
            return Ok(Self { path: fresh.path().to_owned(), fresh: Some(fresh) });
        };
        std::fs::create_dir_all(path)
            .with_context(|| format!("--evidence: cannot make {}", path.display()))?;
        if std::fs::read_dir(path)?.next().is_some() {
            bail!("--evidence: {} is not empty; name a new directory", path.display());
        }
        Ok(Self { path: path.to_owned(), fresh: None })
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, name: &str, value: &serde_json::Value) -> Result<()> {
        let path = self.path.join(name);
        let text = serde_json::to_string_pretty(value)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn keep(self) -> PathBuf {
        self.fresh.map_or(self.path, tempfile::TempDir::keep)
    }

    /// Removes the directory if it is temporary; returns its path if the user chose it.
    fn close(self) -> Result<Option<PathBuf>> {
        match self.fresh {
            Some(fresh) => fresh.close().map(|()| None).context("cannot remove the evidence"),
            None => Ok(Some(self.path)),
        }
    }
}
