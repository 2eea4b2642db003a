//! The services of many processes on one database: one of them works at a time, and when it is killed
//! another takes over.

use crate::child::{Part, Running};
use crate::common::{OwnSchema, open, url};
use crate::journal::stamp;
use crate::trial::times;
use crate::waiting::until;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::{Due, NewJob, State};
use windlass_core::policy::{Missed, Schedule};
use windlass_core::sync::lock;
use windlass_kit::history::LoadCounts;
use windlass_postgres::{Options, PostgresEngine};
use windlass_services::{Schedules, ServiceOptions, Services};

/// Processes that would all do the work.
const PROCESSES: u32 = 10;
/// How long a leader that died is waited for.
const LEAD_TTL_MS: u64 = 1_000;
/// Jobs that fall due in each round.
const JOBS: u64 = 100;
/// Times that a schedule fires in all.
const FIRES: u64 = 3;

/// Where a process finds the store, and writes down what it did there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    url: String,
    schema: String,
    number: u32,
    log: PathBuf,
}

/// A step that a process did.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Step {
    process: u32,
    from: u64,
    to: u64,
    promoted: u64,
}

/// The engine as a process sees it, each step of its services written down.
struct Watched {
    inner: PostgresEngine,
    process: u32,
    log: Mutex<File>,
}

impl Jobs for Watched {
    windlass_core::pass_on!(inner: capabilities, enqueue, open_session, heartbeat, close_session, take,
        claim, wait, settle, update);
}

impl Admin for Watched {
    windlass_core::pass_on!(inner: get, list, stats, limits, why, sessions, change, configure, settings, removed, events, records,
        import, health);
}

impl Maintain for Watched {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        Box::pin(async move {
            let from = stamp();
            let answer = self.inner.maintain(request).await;
            let done = answer.as_ref().map_or(0, |answer| u64::from(answer.value.done));
            let promoted = if request.work == Work::Promote { done } else { 0 };
            let step = Step { process: self.process, from, to: stamp(), promoted };
            let line = serde_json::to_string(&step).expect("a step is JSON") + "\n";
            let mut log = lock(&self.log);
            log.write_all(line.as_bytes()).expect("the log takes it");
            answer
        })
    }

    windlass_core::pass_on!(inner: check);
}

/// Hosts the services until the process is killed.
pub(crate) async fn serve(plan: Plan) {
    let options = Options::new(plan.url).schema(plan.schema).connections(1);
    let inner = PostgresEngine::connect(options).await.expect("connects");
    let log = Mutex::new(File::create_new(&plan.log).expect("a new log"));
    let engine = Arc::new(Watched { inner, process: plan.number, log });
    let mut options = ServiceOptions::default();
    options.label = plan.number.to_string();
    options.lead_ttl = Duration::from_millis(LEAD_TTL_MS);
    options.promote.interval = Duration::from_millis(20);
    options.schedule.interval = Duration::from_millis(50);
    let _services = Services::builder(engine).options(options).start().expect("good options");
    std::future::pending::<()>().await;
}

fn steps(directory: &Path) -> Vec<Step> {
    let files = std::fs::read_dir(directory).expect("the directory").flatten();
    let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("a log"));
    let whole = |text: String| {
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.collect::<Vec<Step>>()
    };
    texts.flat_map(whole).collect()
}

fn promoted(steps: &[Step]) -> u64 {
    steps.iter().map(|step| step.promoted).sum()
}

/// The number of the leader.
async fn leader(engine: &PostgresEngine) -> Option<u32> {
    let leader = Services::leader(engine).await.expect("a record")?;
    leader.label.parse().ok()
}

async fn enqueue_due_soon(engine: &PostgresEngine) {
    let job = |_| NewJob::new("due").due(Due::After(200));
    let added = engine.enqueue(Enqueue::each((0..JOBS).map(job))).await.expect("enqueues").value;
    assert!(added.iter().all(Item::is_ok), "{added:?}");
}

async fn in_state(engine: &PostgresEngine, state: State) -> u64 {
    let lanes = engine.stats(StatsRequest::default()).await.expect("stats").value;
    let due = lanes.iter().filter(|lane| &*lane.kind == "due");
    due.map(|lane| if state == State::Available { lane.available } else { lane.scheduled }).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_processes_one_does_the_work_and_another_takes_over_when_it_is_killed() {
    let (schema, logs) = (OwnSchema::new(), tempfile::tempdir().expect("a directory"));
    let engine = Arc::new(open(&schema).await);
    let start = |number: u32| {
        let log = logs.path().join(number.to_string());
        let plan = Plan { url: url(), schema: schema.name.clone(), number, log };
        (number, Running::start(&Part::Serve(plan), Arc::<LoadCounts>::default()))
    };
    let mut processes: BTreeMap<u32, Running> = (0..PROCESSES).map(start).collect();
    let schedules = Schedules::new(engine.clone());
    let every_second = Schedule::every_ms(1_000).missed(Missed::All).limit(FIRES);
    schedules.put("tick", every_second, NewJob::new("tick")).await.expect("puts");
    let kills = times(2, 8);
    for round in 1..=u64::from(kills) + 1 {
        enqueue_due_soon(&engine).await;
        until("all are let in", async || in_state(&engine, State::Available).await == round * JOBS)
            .await;
        // Before the leader is killed.
        until("it is written down", async || promoted(&steps(logs.path())) >= round * JOBS).await;
        if round <= u64::from(kills) {
            let old = leader(&engine).await.expect("there is a leader");
            processes.remove(&old).expect("it lives");
            until("another leads", async || leader(&engine).await.is_some_and(|new| new != old))
                .await;
        }
    }
    until("the schedule has fired", async || {
        let view = schedules.get("tick").await.expect("gets").expect("it is there");
        view.fired == FIRES
    })
    .await;
    drop(processes);
    let steps = steps(logs.path());
    let beside = |one: &Step, other: &Step| {
        one.process != other.process && one.from < other.to && other.from < one.to
    };
    for (place, one) in steps.iter().enumerate() {
        let other = steps[..place].iter().find(|other| beside(one, other));
        assert!(other.is_none(), "two worked at the same time: {one:?}, {other:?}");
    }
    assert_eq!(promoted(&steps), (u64::from(kills) + 1) * JOBS, "each was let in once");
    let filter = Filter::default().queue("default");
    let listed = engine.list(List::new(filter).limit(1_000)).await.expect("lists").value.rows;
    let fired = listed.iter().filter(|job| &*job.header.kind == "tick").count() as u64;
    assert_eq!(fired, FIRES);
    assert_eq!(in_state(&engine, State::Scheduled).await, 0);
}
