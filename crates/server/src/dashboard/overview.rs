//! `/`: the overview.

use super::failure::Failure;
use super::format::{Count, Rate, Time};
use super::job_row::{self, JobRow};
use super::links;
use super::page::{Page, Section};
use super::queue_row::{QueueRow, queues};
use super::spark::Spark;
use super::visit::Visit;
use super::workers::WorkerRow;
use crate::app::App;
use crate::meter::Trend;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use std::cmp::Reverse;
use windlass_core::Timestamp;
use windlass_core::engine::{Filter, LaneSums, StatsRequest};
use windlass_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS};
use windlass_wire::Point;

/// Maximum number of queues, busiest first.
const QUEUES_MAX: usize = 12;
/// Maximum number of jobs, newest first.
const JOBS_MAX: u32 = 12;
/// Maximum number of workers.
const WORKERS_MAX: usize = 8;

/// A labelled number.
struct Tile {
    label: &'static str,
    value: Count,
    href: String,
    /// Name of the state that determines its colour, or empty.
    tone: &'static str,
    note: Option<Time>,
}

/// A rate with its chart.
struct Flow {
    label: &'static str,
    rate: Rate,
    spark: Spark,
    tone: &'static str,
}

impl Flow {
    /// The rate is the maximum of this server's current rate and the stored rate over all servers.
    /// Other servers' counts are stored only after each minute ends.
    fn new(
        label: &'static str,
        tone: &'static str,
        here: &Trend,
        hour: &[Point],
        now: Timestamp,
        count: fn(&Point) -> u64,
    ) -> Self {
        let latest = hour.last().filter(|point| now.since(point.at) < 2 * MINUTE_MS);
        let stored = latest.map_or(0.0, |point| count(point) as f64 / seconds(MINUTE_MS));
        let rate = Rate(here.per_second.max(stored));
        Self { label, rate, spark: Spark::new(curve(hour, now, count)), tone }
    }
}

/// Counts for each minute of the last hour; zero if there is no data.
fn curve(hour: &[Point], now: Timestamp, count: fn(&Point) -> u64) -> Vec<f64> {
    let mut minutes = vec![0.0; (HOUR_MS / MINUTE_MS) as usize];
    for point in hour {
        let back = (now.since(point.at) / MINUTE_MS) as usize;
        let place = minutes.len().checked_sub(back.max(1));
        if let Some(minute) = place.and_then(|place| minutes.get_mut(place)) {
            *minute += count(point) as f64;
        }
    }
    minutes
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / SECOND_MS as f64
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    tiles: Vec<Tile>,
    flows: [Flow; 4],
    queues: Vec<QueueRow>,
    queue_count: usize,
    rows: Vec<JobRow>,
    workers: Vec<WorkerRow>,
    worker_count: usize,
    is_empty: bool,
    host: String,
}

/// `GET /`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let stats = app.call(app.engine.stats(StatsRequest::default())).await?;
    let settings = app.call(app.engine.settings()).await?.value;
    let sessions = app.call(app.engine.sessions()).await?.value;
    let recent = job_row::find(&app, Filter::default(), None, JOBS_MAX, "/jobs").await?;
    let (now, clock) = (recent.now, visit.clock(recent.now));

    let sums = LaneSums::of(&stats.value);
    let all = queues(&stats.value, &settings);
    let queue_count = all.len();
    let mut busiest: Vec<_> = all.into_iter().collect();
    busiest.sort_by_key(|(_, queue)| {
        let LaneSums { available, running, scheduled, blocked, dead, .. } = queue.sums;
        Reverse((available + running, scheduled + blocked, dead))
    });
    let row = |(name, queue)| QueueRow::new(&app, &name, queue, now, clock);
    let totals = app.rates.totals(now);
    let hour = app.hour.points(now).await;
    let overview = Overview {
        tiles: tiles(&sums, clock),
        flows: [
            Flow::new("in", "available", &totals.enqueued, &hour, now, |it| it.enqueued),
            Flow::new("out", "running", &totals.started, &hour, now, |it| it.started),
            Flow::new("completed", "completed", &totals.completed, &hour, now, |it| it.completed),
            Flow::new("failed", "dead", &totals.failed, &hour, now, |it| it.failed),
        ],
        queues: busiest.into_iter().take(QUEUES_MAX).map(row).collect(),
        queue_count,
        rows: recent.value.0.iter().map(|job| JobRow::new(job, clock)).collect(),
        workers: sessions.iter().take(WORKERS_MAX).map(|it| WorkerRow::new(it, clock)).collect(),
        worker_count: sessions.len(),
        is_empty: queue_count == 0 && recent.value.0.is_empty(),
        host: visit.host.clone(),
    };
    Ok(Page::new(&visit, Section::Overview, "Overview", now).respond(&overview))
}

fn tiles(sums: &LaneSums, clock: super::format::Clock) -> Vec<Tile> {
    let tile = |label, count, tone| Tile {
        label,
        value: Count(count),
        href: links::jobs(None, None, Some(tone)),
        tone,
        note: None,
    };
    let mut tiles = vec![
        tile("available", sums.available, "available"),
        tile("running", sums.running, "running"),
        tile("scheduled", sums.scheduled, "scheduled"),
        tile("blocked", sums.blocked, "blocked"),
        tile("dead", sums.dead, "dead"),
    ];
    if sums.paused > 0 {
        tiles.push(tile("paused", sums.paused, "paused"));
    }
    tiles[0].note = sums.oldest.map(|at| clock.age(at));
    tiles[4].href = "/dead".to_owned();
    tiles
}
