//! W6, W7 and the soak: everything at once for a time that can be long, watched over that time.

use super::super::clock;
use super::super::meter::{Meter, Sample};
use super::super::subject::{EngineSubject, Subject as _};
use super::super::timeline::{Database, Sizes, Timeline, Watch};
use super::hold::{Hold, Taken};
use super::load::{Line, Load, Pace};
use super::upkeep::Upkeep;
use super::{Bench, Workload};
use crate::connect::Url;
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_core::engine::Work;

/// W6: how long finished jobs are kept, so that removing them is part of what is sustained.
const KEEP_FINISHED_MS: u64 = 2_000;
/// For how long it works before it is measured.
const BREAK_IN: Duration = Duration::from_secs(1);
/// How often it is seen to that everybody is at work.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// W7: for how long hot tables may take to be small again once nobody is in the way any more.
const RECLAIM_MAX: Duration = Duration::from_secs(60);

/// W6: enqueue, run and complete together, with finished jobs being removed. W7: the same while somebody is in
/// the way, and how long it takes after that until hot tables are small again, with the load going on.
pub(super) async fn sustained(
    bench: &Bench<EngineSubject>,
    url: &Url,
    workload: Workload,
) -> Result<Sample> {
    bench.subject.keep_finished(KEEP_FINISHED_MS).await?;
    break_in(bench).await?;
    let hold = match Hold::take(url, workload).await? {
        Taken::Held(hold) => Some(hold),
        Taken::Nothing => None,
        Taken::Impossible(reason) => return Ok(Sample::skipped(reason)),
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

/// The soak: paced producers, finished jobs kept for a while, and the services of a server to keep order.
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

/// Works for a moment, unmeasured: whoever gets in the way finds a queue in operation, not one that was never used.
async fn break_in(bench: &Bench<EngineSubject>) -> Result<()> {
    let line = Line::new();
    let load = Load::start(&bench.subject, &line, Pace::Full).await?;
    tokio::time::sleep(BREAK_IN).await;
    load.finish().await?;
    bench.subject.maintain(Work::Compact).await?;
    Ok(())
}

/// A load under way, and who watches it.
struct Run<'a> {
    bench: &'a Bench<EngineSubject>,
    line: Arc<Line>,
    load: Load,
    /// `None` where services do it.
    upkeep: Option<Upkeep>,
    watch: Watch,
    meter: Meter,
    began: Instant,
    until: Instant,
    /// Asked between the points of the watch, which has a connection of its own.
    database: Option<Database>,
    /// How large everything was at the start.
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

    /// Until the measured stretch is over.
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

    /// Waits a little, and ends it if somebody failed.
    async fn step(&mut self, at_most: Duration) -> Result<()> {
        tokio::time::sleep(LOOK_EVERY.min(at_most)).await;
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.check()?;
        }
        self.load.check()
    }

    /// Ends the measured stretch; the load goes on.
    async fn measured(&mut self) -> Sample {
        let (jobs, latencies) = (self.line.counter.completed(), self.line.latencies());
        self.meter.end(self.bench.subject.counts().await);
        self.meter.sample_with(jobs, &latencies)
    }

    async fn sizes(&self) -> Option<Sizes> {
        read(self.database.as_ref()).await
    }

    /// Waits until hot tables are small again, with the load and maintenance going on.
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

    /// Ends the load and the watch.
    async fn finish(self) -> Result<Timeline> {
        self.load.finish().await?;
        if let Some(upkeep) = self.upkeep {
            upkeep.stop().await?;
        }
        self.watch.stop().await
    }
}

/// The sizes now, if there is a database that answers in time.
async fn read(database: Option<&Database>) -> Option<Sizes> {
    database?.read().await.ok()
}
