//! Judges what many concurrent clients saw, lost replies included.
//!
//! Clients write down each call before they make it and each answer after it came
//! ([`Event`]; [`Recorded`] does it for any engine). When all is over, somebody reads where the jobs
//! stand ([`Snapshot`]), and [`check`] says whether any promise was broken: a job lost, a stale lease
//! accepted, a job settled twice or stuck, a key out of order ([`Kind`] lists them all).
//!
//! The checker knows two things about time, and no more. A call takes effect at some instant between
//! its invocation and its answer. A call without an answer may take effect at any time after it was
//! invoked, or never. So two calls have an order only if one was answered before the other was
//! invoked, and a verdict is only given against what no order of the calls can explain.
//!
//! The price: a fault that only shows while calls overlap, or in a call nobody got an answer to, is
//! not seen. Runs are cheap; make many.
//!
//! [`drive()`] makes such a history: producers and workers that lose replies, stall and die.

mod checker;
mod drive;
mod facts;
mod keys;
mod life;
mod record;
mod recorder;
mod snapshot;
mod verdict;

pub use checker::{Options, check};
pub use drive::{Driven, Load, drive};
pub use record::{
    Admission, Call, Effect, Event, History, Hold, Note, Receipt, Reply, Report, Start, Wanted,
    Wish,
};
pub use recorder::{Diary, Journal, Recorded};
pub use snapshot::Snapshot;
pub use verdict::{Counts, Kind, VIOLATIONS_TOLD_MAX, Verdict, Violation};

use crate::subject::Subject;
use std::future::Future;
use std::ops::Range;

/// How long ended jobs are kept where they are removed during a run: a few sessions.
const RETENTION_MS: u64 = 30_000;

/// Batches by each producer of such a run.
const REMOVED_BATCHES: u32 = 20;

/// Drives fresh engines, two per seed, with clients that lose replies, stall and die, once with ended jobs kept
/// and once with ended jobs removed after 30 s; panics with the verdict if anything they saw cannot be explained.
pub fn run<F: Future<Output = Subject>>(seeds: Range<u64>, fresh: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    for seed in seeds {
        let short = Load::new(seed).batches(REMOVED_BATCHES).retention_ms(RETENTION_MS);
        for load in [Load::new(seed), short] {
            let driven = runtime.block_on(async { drive(fresh().await, load).await });
            let verdict = check(&driven.history, &driven.end, &load.options());
            assert!(verdict.is_clean(), "{load:?}: {verdict}");
        }
    }
}

/// Makes a `#[test]` that drives engines made by a function `async fn() -> Subject` and judges what
/// the clients saw, once for each seed.
#[macro_export]
macro_rules! histories {
    ($seeds:expr, $factory:path) => {
        #[test]
        fn what_clients_saw_can_be_explained() {
            $crate::history::run($seeds, $factory);
        }
    };
}
