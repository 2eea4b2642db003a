//! Checks what many concurrent clients observed, including lost replies.
//!
//! Clients record each call before they make it and each reply after they received it ([`Event`];
//! [`Recorded`] does so for any engine). At the end, the final states of the jobs are read ([`Snapshot`]),
//! and [`check`] reports whether any promise was broken: a lost job, a stale lease that was accepted, a job
//! settled twice or stuck, keys out of order ([`Kind`] lists them all).
//!
//! The checker makes only two assumptions about time. A call takes effect at some time between its invocation
//! and its reply. A call without a reply may take effect at any time after its invocation, or never. So two
//! calls are ordered only if one was answered before the other was invoked, and a violation is reported only
//! if no order of the calls can explain the observations.
//!
//! The price: a fault that shows only while calls overlap, or in a call without a reply, is not detected.
//! Runs are cheap; make many.
//!
//! [`drive()`] creates such a history: producers and workers that lose replies, stall and die. [`Producers`] are load for
//! tests with real workers and processes.

mod checker;
mod dependents;
mod drive;
mod facts;
mod keys;
mod life;
mod limits;
mod pace;
mod producers;
mod record;
mod recorder;
mod snapshot;
mod verdict;

pub use checker::{Options, check};
pub use drive::{Driven, Load, drive};
pub use limits::CheckedLimit;
pub use pace::{Pace, paces};
pub use producers::{HandlerEnd, LoadCounts, Producers};
pub use record::{
    Admission, Call, Effect, Event, History, Hold, Note, Receipt, Reply, Report, Start, Wanted,
    Wish,
};
pub use recorder::{Journal, MemoryJournal, Recorded};
pub use snapshot::Snapshot;
pub use verdict::{Counts, Kind, VIOLATIONS_SHOWN_MAX, Verdict, Violation};

use crate::subject::Subject;
use std::future::Future;
use std::ops::Range;
use windlass_core::engine::Capability;
use windlass_core::model::{Rate, Rule};

/// Retention of ended jobs in runs that remove them: a few sessions.
const RETENTION_MS: u64 = 30_000;

/// Batches per producer in such a run.
const REMOVED_BATCHES: u32 = 20;

/// Drives fresh engines, four per seed, with clients that lose replies, stall and die: one run keeps ended
/// jobs, one removes them after 30 s, one has a limit by group, one has jobs that run after others. Panics with the verdict if an observation cannot be explained.
pub fn run<F: Future<Output = Subject>>(seeds: Range<u64>, fresh: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    for seed in seeds {
        let short = Load::new(seed).batches(REMOVED_BATCHES).retention_ms(RETENTION_MS);
        let rule = Rule::running(2).at_rate(Rate::window(6, 10_000));
        let limited = Load::new(seed).batches(REMOVED_BATCHES).limit(rule);
        let flows = Load::new(seed).batches(REMOVED_BATCHES).dependencies();
        for load in [Load::new(seed), short, limited, flows] {
            let subject = runtime.block_on(fresh());
            let has = |capability| subject.engine().capabilities().has(capability);
            if load.limit.is_some() && !has(Capability::Limits)
                || load.dependencies && !has(Capability::Flows)
            {
                continue;
            }
            let driven = runtime.block_on(drive(subject, load));
            let verdict = check(&driven.history, &driven.end, &load.options());
            assert!(verdict.is_clean(), "{load:?}: {verdict}");
        }
    }
}

/// Creates a `#[test]` that drives engines created by a function `async fn() -> Subject` and checks what the
/// clients observed, once per seed.
#[macro_export]
macro_rules! histories {
    ($seeds:expr, $factory:path) => {
        #[test]
        fn histories_of_concurrent_clients_can_be_explained() {
            $crate::history::run($seeds, $factory);
        }
    };
}
