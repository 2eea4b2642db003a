//! Runs one service: step by step while its process leads, with pauses in between and backoff while the store
//! does not answer. Independent of what the service does.

use crate::board::Board;
use crate::lead::Lead;
use crate::service::{NextRun, Service, Step, StepContext};
use futures_util::FutureExt as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use windlass_core::engine::Engine;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::{Error, Result};

/// Timeout of a step; a store that never answers counts as down.
const STEP_MAX: Duration = Duration::from_secs(30);
/// How long a step may continue after the services were asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// First pause after a failure; doubles with each further one.
const FAILURE_REST_MS: u64 = 100;
/// Longest pause after failures, to which jitter of up to the same length is added.
const FAILURE_REST_MAX_MS: u64 = 5_000;

/// The context in which a runner runs its service.
pub(crate) struct Runner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) lead: Lead,
    pub(crate) stop: CancellationToken,
    pub(crate) board: Arc<Board>,
    pub(crate) interval_ms: u64,
}

/// How a step ended.
enum Ended {
    Answered(Step, Duration),
    Failed(String),
    /// The leadership was lost or the services were stopped; the step counts as failed.
    Dropped,
}

impl Runner {
    /// Runs until stopped.
    pub(crate) async fn run(mut self, mut service: impl Service) {
        while let Some(term) = self.next_term().await {
            self.work(&mut service, term).await;
            service.halt();
        }
    }

    /// Waits until this process leads; `None` when stopped.
    async fn next_term(&mut self) -> Option<u64> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            term = self.lead.begun() => Some(term),
        }
    }

    /// Runs steps until the term ends.
    async fn work(&self, service: &mut impl Service, term: u64) {
        while self.lead.holds(term) && !self.stop.is_cancelled() {
            let rest = match self.step(service, term).await {
                Ended::Answered(step, took) => {
                    self.board.ran(step.items, step.now);
                    self.rest(step.again, took)
                }
                Ended::Failed(error) => failure_rest(self.board.failed(error)),
                Ended::Dropped => return,
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = self.lead.lost(term) => return,
                () = sleep(rest) => {}
            }
        }
    }

    /// Runs one step, within its timeout and while the term is certainly valid.
    async fn step(&self, service: &mut impl Service, term: u64) -> Ended {
        let begun = Instant::now();
        let context = StepContext { engine: &*self.engine };
        let answer = AssertUnwindSafe(service.step(context)).catch_unwind();
        let stopped = async {
            self.stop.cancelled().await;
            sleep(STOP_GRACE).await;
        };
        tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(Ok(step)) => Ended::Answered(step, begun.elapsed()),
                Ok(Err(error)) => Ended::Failed(error.to_string()),
                Err(panic) => Ended::Failed(format!("it panicked: {}", message(&*panic))),
            },
            () = self.lead.lost(term) => Ended::Dropped,
            () = stopped => Ended::Dropped,
            () = sleep(STEP_MAX) => Ended::Failed(format!("no answer within {STEP_MAX:?}")),
        }
    }

    fn rest(&self, again: NextRun, took: Duration) -> Duration {
        let interval = Duration::from_millis(self.interval_ms);
        match again {
            NextRun::Now => Duration::ZERO,
            NextRun::Rested => took.min(interval),
            NextRun::After(ms) => Duration::from_millis(ms).min(interval),
            NextRun::Idle => interval,
        }
    }
}

/// The pause after this many consecutive failures.
fn failure_rest(failures: u64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    let rest_ms = (FAILURE_REST_MS << doublings).min(FAILURE_REST_MAX_MS);
    Duration::from_millis(rest_ms + SystemRandom.below(rest_ms))
}

/// The message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Makes a call that must return within `within`.
pub(crate) async fn answered<T>(
    within: Duration,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let late = || Error::Unavailable {
        store: "the store".into(),
        reason: format!("no answer within {within:?}"),
    };
    tokio::time::timeout(within, call).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::ServiceName;
    use std::sync::atomic::{AtomicU64, Ordering};
    use windlass_core::Timestamp;
    use windlass_memory::MemoryEngine;

    /// Counts its steps and halts.
    #[derive(Default)]
    struct Counting {
        steps: AtomicU64,
        halts: AtomicU64,
    }

    struct Probe(Arc<Counting>);

    impl Service for Probe {
        fn name(&self) -> ServiceName {
            ServiceName::Compact
        }

        async fn step(&mut self, _: StepContext<'_>) -> Result<Step> {
            self.0.steps.fetch_add(1, Ordering::SeqCst);
            Ok(Step { now: Timestamp::EPOCH, items: 2, again: NextRun::After(400) })
        }

        fn halt(&mut self) {
            self.0.halts.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_steps_at_its_interval_and_is_notified_when_it_must_stop() {
        let counting = Arc::new(Counting::default());
        let board = Arc::new(Board::new(ServiceName::Compact));
        let stop = CancellationToken::new();
        let runner = Runner {
            engine: Arc::new(MemoryEngine::new()),
            lead: Lead::always(),
            stop: stop.clone(),
            board: board.clone(),
            interval_ms: 1_000,
        };
        let running = tokio::spawn(runner.run(Probe(counting.clone())));
        sleep(Duration::from_millis(1_900)).await;
        assert_eq!(counting.halts.load(Ordering::SeqCst), 0);
        stop.cancel();
        running.await.unwrap();
        assert_eq!(counting.steps.load(Ordering::SeqCst), 5, "at 0, 400, … 1,600 ms");
        assert_eq!(counting.halts.load(Ordering::SeqCst), 1);
        assert_eq!((board.status().runs, board.status().items), (5, 10));
    }

    #[test]
    fn failures_in_a_row_are_followed_by_longer_rests_up_to_a_bound() {
        let bounds = |failures, low_ms, high_ms| {
            let rest = failure_rest(failures).as_millis();
            assert!((low_ms..high_ms).contains(&rest), "{rest} ms after {failures} failures");
        };
        bounds(1, 100, 200);
        bounds(3, 400, 800);
        bounds(u64::MAX, 5_000, 10_000);
    }
}
