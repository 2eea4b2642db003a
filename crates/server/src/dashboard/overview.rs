//! `/`: the overview.

use super::failure::Failure;
use super::format::{Count, Rate, Time};
use super::job_row::{self, JobRow};
use super::links;
use super::page::{Page, Section};
use super::queue_row::{QueueRow, queues};
use super::spark::Spark;
use super::throughput::Throughput;
use super::visit::Visit;
use super::workers::WorkerRow;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use std::cmp::Reverse;
use windlass_core::engine::{Filter, LaneSums, StatsRequest};

/// Maximum number of queues, deepest first.
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
    let mut deepest: Vec<_> = all.into_iter().collect();
    deepest.sort_by_key(|(_, queue)| {
        let LaneSums { available, running, scheduled, blocked, paused, dead, .. } = queue.sums;
        Reverse((available + scheduled + blocked + paused, running, dead))
    });
    let throughput = Throughput::read(&app, now).await;
    let row = |(name, queue)| QueueRow::new(&name, queue, &throughput, clock);
    let totals = throughput.totals();
    let flow = |label, tone, rate, count| {
        let spark = throughput.curve(None, count);
        Flow { label, rate, spark, tone }
    };
    let overview = Overview {
        tiles: tiles(&sums, clock),
        flows: [
            flow("in", "available", totals.enqueued, |it| it.enqueued),
            flow("out", "running", totals.started, |it| it.started),
            flow("completed", "completed", totals.completed, |it| it.completed),
            flow("failed", "dead", totals.failed, |it| it.failed),
        ],
        queues: deepest.into_iter().take(QUEUES_MAX).map(row).collect(),
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
