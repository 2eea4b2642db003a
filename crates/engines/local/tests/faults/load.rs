//! The child that is to be killed: producers and workers on one engine, in a hurry.

use crate::child::say;
use crate::journal::Lines;
use crate::producer::Producer;
use crate::support::{instant, open, runtime};
use crate::worker::Worker;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use windlass_core::engine::{Engine, MaintainRequest, Work};
use windlass_core::random::{Random, Seeded};
use windlass_core::time::{Clock, Timestamp};
use windlass_core::{Error, JobId, Result};
use windlass_kit::history::Recorded;

/// The child's clock runs so many times faster than the real one: delays, backoffs and sessions
/// come and go within a round.
pub(crate) const HURRY: u64 = 20;
/// A child nobody kills ends by itself after this time.
const ALIVE_MAX: Duration = Duration::from_secs(30);
const PRODUCERS: u64 = 6;
const WORKERS: u64 = 10;
/// Clients of one round; those of the next have other numbers.
const CLIENTS_PER_ROUND: u32 = 10_000;
/// Producers rest while so many jobs of this round are not settled.
const BACKLOG_MAX: i64 = 400;
/// Maintenance touches at most so many items at a time, so that kills fall between steps too.
const MAINTAIN_BUDGET: u32 = 50;

/// What a child of one round is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) round: u32,
    pub(crate) seed: u64,
    /// What its clock says when it starts.
    pub(crate) now: Timestamp,
    /// Whether unique jobs may take the place of others. A call that is never answered may then have
    /// cancelled anything, and the checker lets more pass.
    pub(crate) replacing: bool,
}

/// A clock that runs fast from a given instant on.
struct Hurried {
    from: Timestamp,
    since: Instant,
}

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        self.from.plus(self.since.elapsed().as_millis() as u64 * HURRY)
    }
}

/// What the clients of a round share.
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
    /// The engine as a new client sees it.
    pub(crate) fn client(&self) -> Recorded {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let client = self.plan.round * CLIENTS_PER_ROUND + number;
        Recorded::new(self.engine.clone(), self.journal.clone(), client)
    }

    pub(crate) fn random(&self, who: u64) -> Seeded {
        let seeds = Seeded::new(self.plan.seed + who * 1_000_003 + u64::from(self.plan.round));
        Seeded::new(seeds.next_u64())
    }

    /// Whether so much is waiting that producers should rest.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > BACKLOG_MAX
    }

    pub(crate) fn pile(&self, jobs: i64) {
        self.backlog.fetch_add(jobs, Ordering::Relaxed);
    }

    pub(crate) fn waits(&self, id: JobId) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }

    pub(crate) fn waiting(&self) -> Option<JobId> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Does what fell due, again and again.
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

/// What an answer holds; `None` where it is an error of one of these codes. Any other is told to the
/// parent, and ends the child.
pub(crate) fn expected<T>(what: &str, answer: Result<T>, codes: &[&str]) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) if codes.contains(&error.code()) => None,
        Err(error) => bad(what, &error),
    }
}

/// The errors among the items of an answer, told if they are not expected.
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

/// Tells the parent that the engine did what it must not, and ends.
pub(crate) fn bad(what: &str, error: &dyn Display) -> ! {
    say(&format!("bad {what}: {error}"));
    std::process::exit(1);
}

/// Opens the engine and lets the clients loose until it is killed.
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
        // None of them ends by itself: one that does has panicked.
        if let Ok(Some(ended)) = tokio::time::timeout(ALIVE_MAX, tasks.join_next()).await {
            let error = ended.err().map_or_else(|| "ended".into(), |error| error.to_string());
            bad("client", &error);
        }
    });
    std::process::exit(0);
}
