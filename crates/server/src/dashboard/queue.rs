//! `/queues/{queue}`: one queue with its lanes, settings and jobs.

use super::failure::Failure;
use super::format::{Clock, Count, Time};
use super::job_row::{self, JobRows, StateTab};
use super::links;
use super::page::{Page, Section};
use super::queue_row::{Queue as Counted, QueueRow};
use super::spark::Spark;
use super::throughput::Throughput;
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use std::collections::HashSet;
use windlass_core::check_name;
use windlass_core::engine::{Filter, Gate, LaneStats, LaneSums, Settings, StatsRequest};
use windlass_core::model::{Name, Order, QueueSettings, Subscription};
use windlass_core::time::rough_span;
use windlass_services::Breakers;

/// Jobs per page.
const JOBS_MAX: u32 = 25;
/// Maximum number of lanes to show. A queue should not have more kinds than this.
const LANES_MAX: usize = 100;

/// A lane, as a table row.
struct LaneRow {
    kind: Name,
    jobs_href: String,
    change_href: String,
    available: Count,
    running: Count,
    scheduled: Count,
    blocked: Count,
    /// Jobs paused individually.
    paused: Count,
    dead: Count,
    oldest: Option<Time>,
    /// Why claims skip the lane, unless the whole queue is paused.
    gate: Option<&'static str>,
    kind_paused: bool,
}

impl LaneRow {
    fn new(lane: &LaneStats, kinds: &Kinds, clock: Clock) -> Self {
        Self {
            kind: lane.kind.clone(),
            jobs_href: links::jobs(Some(&lane.queue), Some(&lane.kind), None),
            change_href: links::kind(&lane.kind),
            available: Count(lane.available),
            running: Count(lane.running),
            scheduled: Count(lane.scheduled),
            blocked: Count(lane.blocked),
            paused: Count(lane.paused),
            dead: Count(lane.dead),
            oldest: lane.head_ready_at.map(|at| clock.age(at)),
            gate: lane.gate.and_then(|gate| kinds.label(gate, &lane.kind)),
            // The gate of a paused queue hides that of a paused kind.
            kind_paused: kinds.paused.contains(&lane.kind),
        }
    }
}

/// What is known about the kinds of a queue beside their lanes.
struct Kinds {
    paused: HashSet<Name>,
    /// Kinds whose circuit breaker is open.
    broken: HashSet<Name>,
}

impl Kinds {
    async fn read(app: &App, settings: &Settings, lanes: &[LaneStats]) -> Result<Self, Failure> {
        let paused = settings.kinds.iter().filter(|(_, kind)| kind.paused);
        let paused = paused.map(|(name, _)| name.clone()).collect();
        // Only an open breaker takes all permits; others need not be read.
        let is_closed = lanes.iter().any(|lane| lane.gate == Some(Gate::NoPermits));
        let breakers = match is_closed {
            true => app.in_time(Breakers::new(app.engine.clone()).all(), 0).await?,
            false => Vec::new(),
        };
        let open = breakers.into_iter().filter(|(_, breaker)| breaker.open_since().is_some());
        Ok(Self { paused, broken: open.map(|(kind, _)| kind).collect() })
    }

    /// Label of a gate that applies to a single lane.
    fn label(&self, gate: Gate, kind: &Name) -> Option<&'static str> {
        match gate {
            Gate::KindPaused => Some("kind paused"),
            Gate::NoPermits if self.broken.contains(kind) => Some("breaker open"),
            Gate::NoPermits => Some("no permits"),
            Gate::Limited => Some("limit reached"),
            _ => None,
        }
    }
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueueContent {
    queue: QueueRow,
    lanes: Vec<LaneRow>,
    lane_count: usize,
    settings: Vec<(&'static str, String)>,
    depth: Spark,
    depth_max: Count,
    tabs: Vec<StateTab>,
    jobs: JobRows,
    here: String,
    /// Whether to show buttons.
    may_act: bool,
}

/// `GET /queues/{queue}`
pub(super) async fn show(
    State(app): State<App>,
    visit: Visit,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    check_name("queue", &name)
        .map_err(|error| Failure::not_here(error.to_string()).back("/queues"))?;
    let name = Name::from(name);
    let lanes = app.call(app.engine.stats(StatsRequest::queue(name.clone()))).await?.value;
    let settings = app.call(app.engine.settings()).await?.value;
    let kinds = Kinds::read(&app, &settings, &lanes).await?;
    let settings = settings.queues.into_iter().find(|(known, _)| *known == name);
    let settings = settings.map(|(_, settings)| settings).unwrap_or_default();

    let path = links::queue(&name);
    let state = job_row::state(visit.param("state"))?;
    let href = |state| links::with(&path, &[("state", state)]);
    let mut filter = Filter::default().queue(name.clone());
    filter.state = state;
    let first = href(state.map(windlass_core::model::State::as_str));
    let found = job_row::find(&app, filter, visit.param("after"), JOBS_MAX, &first).await?;
    let (now, clock) = (found.now, visit.clock(found.now));
    let (jobs, places) = found.value;

    let counted = Counted { sums: LaneSums::of(&lanes), paused: settings.paused };
    let flow = Throughput::of_queue(&app, &name, now).await;
    let depth = flow.depth(&name);
    let content = QueueContent {
        queue: QueueRow::new(&name, counted, &flow, clock),
        lane_count: lanes.len(),
        lanes: lanes.iter().take(LANES_MAX).map(|lane| LaneRow::new(lane, &kinds, clock)).collect(),
        settings: described(&settings),
        depth_max: Count(depth.iter().copied().fold(0.0, f64::max) as u64),
        depth: Spark::new(depth),
        tabs: job_row::tabs(state, href),
        jobs: JobRows::new(&jobs, places, clock),
        here: visit.here.clone(),
        may_act: visit.may_act(),
    };
    Ok(Page::new(&visit, Section::Queues, &name, now).respond(&content))
}

/// Human-readable settings.
fn described(settings: &QueueSettings) -> Vec<(&'static str, String)> {
    let order = match settings.order {
        Order::Strict => "by priority, then by entry".to_owned(),
        Order::Ageing { quantum_ms } => {
            format!("by age; one step of priority is worth {}", rough_span(quantum_ms))
        }
        Order::Lifo => "newest first".to_owned(),
        Order::Fair => "round-robin over tenants".to_owned(),
        _ => "unknown".to_owned(),
    };
    let limit = settings.max_depth.map_or_else(|| "none".to_owned(), |max| Count(max).to_string());
    let wait = settings.max_wait_ms.map_or_else(|| "none".to_owned(), rough_span);
    let bytes = settings.dead_bytes_max;
    let bytes = bytes.map_or_else(|| "unlimited".to_owned(), |max| format!("up to {}", Count(max)));
    let most = settings.keep_max.limits();
    let most: Vec<_> = most.map(|(state, max)| format!("up to {} {state}", Count(max))).collect();
    let most = most.join(", ");
    let kept = settings.retention;
    let usual = [
        ("order", order),
        ("depth limit", limit),
        ("maximum wait", wait),
        ("finished jobs kept", rough_span(kept.finished_ms)),
        ("dead jobs kept", rough_span(kept.dead_ms)),
        ("number of ended jobs", if most.is_empty() { "unlimited".to_owned() } else { most }),
        ("bytes of dead jobs", bytes),
        ("expired jobs kept", rough_span(kept.expired_ms)),
    ];
    let copied = |it: &Subscription| {
        let filters = [it.kinds.iter().map(|kind| kind.to_string()).collect(), it.tags.clone()];
        let filters: Vec<String> = filters.into_iter().map(|filter| filter.join(" or ")).collect();
        let only = match (&*filters[0], &*filters[1]) {
            ("", "") => String::new(),
            (kinds, "") => format!(" ({kinds})"),
            ("", tags) => format!(" (tagged {tags})"),
            (kinds, tags) => format!(" ({kinds}, tagged {tags})"),
        };
        format!("{} → {}{only}", it.name, it.queue)
    };
    let copied: Vec<String> = settings.subscriptions.iter().map(copied).collect();
    let events = settings
        .events
        .map(|kept| format!("the latest {}, for {}", Count(kept.max), rough_span(kept.max_age_ms)));
    let rare = [
        ("limits", (!settings.limits.is_empty()).then(|| settings.limits.join(", "))),
        ("events", events),
        ("topic of", (!copied.is_empty()).then(|| copied.join(", "))),
    ];
    let rare = rare.into_iter().filter_map(|(label, value)| Some((label, value?)));
    usual.into_iter().chain(rare).collect()
}
