//! The conformance suite: every promise of the contract, by topic, one check each.
//!
//! A check is an async function that takes a [`Rig`] around a fresh engine and panics when a promise
//! is broken. The list below is the suite: [`SUITE`] and [`conformance!`](crate::conformance) are made
//! from it, and a check that is missing from it is dead code, which does not compile here.

use crate::rig::Rig;
use crate::subject::Subject;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::time::Duration;

/// A check may take this long before it counts as hanging.
const CHECK_SECONDS_MAX: u64 = 120;

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The promise it holds an engine to.
    pub name: &'static str,
    run: fn(Rig) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The checks of one topic.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// What they are about.
    pub name: &'static str,
    /// The checks.
    pub checks: &'static [Check],
}

// `$d` is a dollar sign: the only way for one macro to write another that takes arguments.
macro_rules! suite {
    (($d:tt) $($topic:ident { $($check:ident,)* })+) => {
        $(mod $topic;)+

        /// All checks, by topic.
        pub static SUITE: &[Topic] = &[$(Topic {
            name: stringify!($topic),
            checks: &[$(Check {
                name: stringify!($check),
                run: |rig| Box::pin($topic::$check(rig)),
            }),*],
        }),+];

        /// Makes one `#[test]` per check, in a module per topic, for the engines that a function
        /// `async fn() -> Subject` makes.
        ///
        /// The function is named by its path as seen from a module below: `super::fresh`.
        #[macro_export]
        macro_rules! conformance {
            ($d factory:path) => {
                $(mod $topic {
                    use super::*;
                    $(#[test]
                    fn $check() {
                        $crate::run(stringify!($topic), stringify!($check), $d factory);
                    })*
                })+
            };
        }
    };
}

suite! { ($)
    enqueue {
        an_enqueued_job_can_be_claimed_with_everything_it_was_given,
    }
    bulk {
    }
    unique {
    }
    order {
    }
    due {
    }
    keys {
    }
    parts {
    }
    session {
    }
    fencing {
    }
    idempotence {
    }
    heartbeat {
    }
    reclaim {
    }
    settle {
    }
    follow_ups {
    }
    change {
    }
    gates {
    }
    retention {
    }
    dead_letters {
    }
    queries {
    }
    records {
    }
    limits {
    }
    maintenance {
    }
    schedules {
    }
    wait {
    }
    concurrency {
    }
}

/// Runs one check; panics when the promise is broken.
pub fn run<F: Future<Output = Subject>>(topic: &str, check: &str, fresh: impl FnOnce() -> F) {
    let found = SUITE
        .iter()
        .filter(|known| known.name == topic)
        .flat_map(|known| known.checks)
        .find(|known| known.name == check);
    let check = found.unwrap_or_else(|| panic!("no check {topic}::{check}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let rig = Rig::new(fresh().await);
        let limit = Duration::from_secs(CHECK_SECONDS_MAX);
        let finished = tokio::time::timeout(limit, (check.run)(rig)).await;
        assert!(finished.is_ok(), "{topic}::{} hangs", check.name);
    });
}

/// Runs one check and says whether the engine kept the promise, and if not, how it was seen.
pub fn verdict<F: Future<Output = Subject>>(
    topic: &str,
    check: &str,
    fresh: impl FnOnce() -> F,
) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run(topic, check, fresh))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    })
}
