//! W6, W7 and the soak: enqueue, run and complete at the same time, possibly for hours, with a time series.

use super::super::clock;
use super::super::meter::{Meter, Sample};
use super::super::subject::{EngineSubject, Subject as _};
use super::super::timeline::{Database, Sizes, Timeline, Watch};
use super::hold::{Hold, SetUp};
use super::load::{Line, Load, Pace};
use super::upkeep::Upkeep;
use super::{Bench, Workload};
use crate::connect::Url;
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_core::engine::Work;

/// W6: retention of finished jobs: short, so that their removal is part of the load.
const KEEP_FINISHED_MS: u64 = 2_000;
/// Duration of the unmeasured warm-up.
const BREAK_IN: Duration = Duration::from_secs(1);
/// Interval of checks that producers, workers and maintenance are still running.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// W7: maximum time until hot tables are small again after the release.
const RECLAIM_MAX: Duration = Duration::from_secs(60);

/// W6: enqueue, run and complete at the same time, with finished jobs being removed. W7: the same with an
/// obstacle to vacuuming, and the time from its release until hot tables are small again, under load.
pub(super) async fn sustained(
    bench: &Bench<EngineSubject>,
    url: &Url,
    workload: Workload,
) -> Result<Sample> {
    bench.subject.keep_finished(KEEP_FINISHED_MS).await?;
    break_in(bench).await?;
    let hold = match Hold::take(url, workload).await? {
        SetUp::Held(hold) => Some(hold),
        SetUp::Nothing => None,
        SetUp::Impossible(reason) => return Ok(Sample::skipped(reason)),
    };
    let mut run = Run::start(bench, url, Pace::Full, bench.profile.sustained_ms).await?;
    run.upkeep = Some(Upkeep::start(&bench.subject));
    run.go_on().await?;
    let mut sample = run.measured().await;
    if let Some(hold) = hold {
        sample.note_growth(run.before, run.sizes().await);
        hold.release(&mut sample).await?;
        run.reclaim(&mut sample).await?;
    }
    sample.timeline = Some(run.finish().await?);
    Ok(sample)
}

/// The soak: paced producers, finished jobs with a retention, and maintenance by the services of a server.
pub(super) async fn soak(bench: &Bench<EngineSubject>, url: &Url) -> Result<Sample> {
    let profile = &bench.profile;
    bench.subject.keep_finished(profile.soak_retention_ms).await?;
    let services = bench.subject.services()?;
    let mut run =
        Run::start(bench, url, Pace::PerSecond(profile.soak_rate), profile.soak_ms).await?;
    run.go_on().await?;
    let mut sample = run.measured().await;
    let timeline = run.finish().await?;
    services.stop().await;
    if let Some(growth) = timeline.growth() {
        sample.figure("database_growth_percent", growth.database_percent);
        sample.figure("schema_growth_percent", growth.schema_percent);
        sample.said.push(growth.said());
    }
    sample.timeline = Some(timeline);
    Ok(sample)
}

/// Runs an unmeasured warm-up, so that the obstacle is set up while the queue is in use.
async fn break_in(bench: &Bench<EngineSubject>) -> Result<()> {
    let line = Line::new();
    let load = Load::start(&bench.subject, &line, Pace::Full).await?;
    tokio::time::sleep(BREAK_IN).await;
    load.finish().await?;
    bench.subject.maintain(Work::Compact).await?;
    Ok(())
}

/// A running load and its time series.
struct Run<'a> {
    bench: &'a Bench<EngineSubject>,
    line: Arc<Line>,
    load: Load,
    /// Maintenance; `None` if the services do it.
    upkeep: Option<Upkeep>,
    watch: Watch,
    meter: Meter,
    began: Instant,
    until: Instant,
    /// Connection for size queries outside the time series, which has its own.
    database: Option<Database>,
    /// The sizes at the start.
    before: Option<Sizes>,
}

impl<'a> Run<'a> {
    async fn start(
        bench: &'a Bench<EngineSubject>,
        url: &Url,
        pace: Pace,
        for_ms: u64,
    ) -> Result<Self> {
        let (mut database, mut watching) = (None, None);
        if let Url::Postgres(at) = url {
            database = Some(Database::connect(at).await?);
            watching = Some(Database::connect(at).await?);
        }
        let before = read(database.as_ref()).await;
        let line = Line::new();
        bench.progress.phase("working", for_ms);
        let mut meter = bench.meter();
        meter.begin(bench.subject.counts().await);
        let every = Duration::from_millis(bench.profile.watch_ms);
        let watch = Watch::start(Arc::clone(&line.counter), watching, every);
        let began = clock::now();
        let load = Load::start(&bench.subject, &line, pace).await?;
        let until = began + Duration::from_millis(for_ms);
        Ok(Self { bench, line, load, upkeep: None, watch, meter, began, until, database, before })
    }

    /// Runs until the end of the measured period.
    async fn go_on(&mut self) -> Result<()> {
        loop {
            let left = self.until.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Ok(());
            }
            self.step(left).await?;
            self.bench.progress.at(self.began.elapsed().as_millis() as u64);
        }
    }

    /// Waits for at most `at_most`, and fails if a part of the load has failed.
    async fn step(&mut self, at_most: Duration) -> Result<()> {
        tokio::time::sleep(LOOK_EVERY.min(at_most)).await;
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.check()?;
        }
        self.load.check()
    }

    /// Ends the measured period; the load continues.
    async fn measured(&mut self) -> Sample {
        let (jobs, latencies) = (self.line.counter.completed(), self.line.latencies());
        self.meter.end(self.bench.subject.counts().await);
        self.meter.sample_with(jobs, &latencies)
    }

    async fn sizes(&self) -> Option<Sizes> {
        read(self.database.as_ref()).await
    }

    /// Waits until hot tables are small again, while load and maintenance continue.
    async fn reclaim(&mut self, sample: &mut Sample) -> Result<()> {
        let released = clock::now();
        self.watch.mark("released").await;
        loop {
            let after = released.elapsed();
            if self.sizes().await.is_some_and(|sizes| sizes.are_bounded()) {
                let said = format!("hot tables reclaimed after {:.1} s", after.as_secs_f64());
                self.watch.mark(format!("reclaimed after {:.1} s", after.as_secs_f64())).await;
                sample.figure("reclaimed_after_s", after.as_secs_f64());
                sample.said.push(said);
                return Ok(());
            }
            if after >= RECLAIM_MAX {
                self.watch.mark("not reclaimed").await;
                sample.said.push(format!("hot tables NOT reclaimed within {RECLAIM_MAX:?}"));
                return Ok(());
            }
            self.step(LOOK_EVERY).await?;
        }
    }

    /// Ends the load and the time series.
    async fn finish(self) -> Result<Timeline> {
        self.load.finish().await?;
        if let Some(upkeep) = self.upkeep {
            upkeep.stop().await?;
        }
        self.watch.stop().await
    }
}

/// The current sizes, if there is a database and it answers in time.
async fn read(database: Option<&Database>) -> Option<Sizes> {
    database?.read().await.ok()
}
