//! The child that is killed: producers and workers on one engine, on a fast clock.

use crate::child::say;
use crate::journal::Lines;
use crate::producer::Producer;
use crate::support::{instant, open, runtime};
use crate::worker::Worker;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use windlass_core::engine::{Engine, MaintainRequest, Work};
use windlass_core::random::{Random, Seeded};
use windlass_core::sync::lock;
use windlass_core::time::{Clock, Timestamp};
use windlass_core::{Error, JobId, Result};
use windlass_kit::history::Recorded;

/// Factor by which the child's clock is faster than real time, so that delays, backoffs and sessions end within a
/// round.
pub(crate) const HURRY: u64 = 20;
/// Time after which a child ends if it was not killed.
const ALIVE_MAX: Duration = Duration::from_secs(30);
const PRODUCERS: u64 = 6;
const WORKERS: u64 = 10;
/// Range of client numbers per round; rounds do not share numbers.
const CLIENTS_PER_ROUND: u32 = 10_000;
/// Unsettled jobs of this round above which producers pause.
const BACKLOG_MAX: i64 = 400;
/// Maximum number of items per maintenance step, so that kills also happen between steps.
const MAINTAIN_BUDGET: u32 = 50;

/// The task of a child in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) round: u32,
    pub(crate) seed: u64,
    /// Start time of its clock.
    pub(crate) now: Timestamp,
    /// Whether unique jobs may replace others. An unanswered call may then have cancelled any job, so the checker
    /// is more tolerant.
    pub(crate) replacing: bool,
}

/// A clock that starts at a given time and runs [`HURRY`] times as fast as real time.
struct Hurried {
    from: Timestamp,
    since: Instant,
}

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        self.from.plus(self.since.elapsed().as_millis() as u64 * HURRY)
    }
}

/// State shared by the clients of a round.
pub(crate) struct Stage {
    pub(crate) plan: Plan,
    engine: Arc<dyn Engine>,
    journal: Arc<Lines>,
    pub(crate) clock: Arc<dyn Clock>,
    clients: AtomicU32,
    backlog: AtomicI64,
    /// Jobs that wait for a signal.
    waiting: Mutex<Vec<JobId>>,
}

impl Stage {
    /// The engine for a new client, with its calls recorded.
    pub(crate) fn client(&self) -> Recorded {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let client = self.plan.round * CLIENTS_PER_ROUND + number;
        Recorded::new(self.engine.clone(), self.journal.clone(), client)
    }

    pub(crate) fn random(&self, who: u64) -> Seeded {
        let seeds = Seeded::new(self.plan.seed + who * 1_000_003 + u64::from(self.plan.round));
        Seeded::new(seeds.next_u64())
    }

    /// Whether the backlog is so large that producers should pause.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > BACKLOG_MAX
    }

    pub(crate) fn pile(&self, jobs: i64) {
        self.backlog.fetch_add(jobs, Ordering::Relaxed);
    }

    pub(crate) fn waits(&self, id: JobId) {
        lock(&self.waiting).push(id);
    }

    pub(crate) fn waiting(&self) -> Option<JobId> {
        lock(&self.waiting).pop()
    }

    /// Runs all maintenance repeatedly.
    async fn maintain(self: Arc<Self>) {
        loop {
            for work in Work::ALL {
                let step = self.engine.maintain(MaintainRequest::new(work, MAINTAIN_BUDGET)).await;
                let _ = expected("maintain", step, &[]);
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
}

/// Returns the value of a reply; `None` for an error with one of these codes. Any other error is reported to the
/// parent and ends the child.
pub(crate) fn expected<T>(what: &str, answer: Result<T>, codes: &[&str]) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) if codes.contains(&error.code()) => None,
        Err(error) => bad(what, &error),
    }
}

/// Checks the errors of the items in a reply; reports unexpected ones to the parent.
pub(crate) fn expected_items<'a, T: 'a>(
    what: &str,
    items: impl IntoIterator<Item = &'a Result<T>>,
    codes: &[&str],
) {
    let errors = items.into_iter().filter_map(|item| item.as_ref().err());
    for error in errors {
        if !codes.contains(&Error::code(error)) {
            bad(what, error);
        }
    }
}

/// Reports an unexpected error to the parent and ends the child.
pub(crate) fn bad(what: &str, error: &dyn Display) -> ! {
    say(&format!("bad {what}: {error}"));
    std::process::exit(1);
}

/// Opens the engine and runs the clients until the process is killed.
pub(crate) fn run(plan: Plan) {
    let clock: Arc<dyn Clock> = Arc::new(Hurried { from: plan.now, since: instant() });
    let engine = match open(&plan.dir, clock.clone()) {
        Ok(engine) => engine,
        Err(error) => bad("open", &error),
    };
    say("open");
    let journal = Arc::new(Lines::create(&plan.journal, plan.round.into()));
    let stage = Arc::new(Stage {
        plan,
        engine: Arc::new(engine),
        journal,
        clock,
        clients: AtomicU32::new(0),
        backlog: AtomicI64::new(0),
        waiting: Mutex::default(),
    });
    runtime().block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(stage.clone().maintain());
        for number in 0..PRODUCERS {
            tasks.spawn(Producer::new(stage.clone(), number).run());
        }
        for number in 0..WORKERS {
            tasks.spawn(Worker::new(stage.clone(), PRODUCERS + number).run());
        }
        // Tasks never end by themselves: one that did has panicked.
        if let Ok(Some(ended)) = tokio::time::timeout(ALIVE_MAX, tasks.join_next()).await {
            let error = ended.err().map_or_else(|| "ended".into(), |error| error.to_string());
            bad("client", &error);
        }
    });
    std::process::exit(0);
}
