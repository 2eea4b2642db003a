//! One attempt at one job: runs the handler, catches its panics, stops it when it must stop, and
//! turns how it ended into an outcome. Knows nothing of claims, sessions or other jobs.

use crate::ctx::Ctx;
use crate::panics;
use crate::running::Running;
use crate::shared::Finished;
use crate::signal::{Cause, Causes};
use crate::stop::{Ended, Stop, Why, code};
use crate::trace;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument as _;
use windlass_core::engine::Outcome;
use windlass_core::limits::BACKOFF_MAX_MS;
use windlass_core::model::JobError;

/// An attempt at work.
pub(crate) type Attempting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the handler of a job to its end and reports that.
pub(crate) fn run(running: Arc<Running>) -> Attempting {
    let span = running.span.clone();
    let attempt = async move {
        let mut report = Report { running: Some(running.clone()) };
        let ended = drive(&running).await;
        let outcome = outcome(&running, ended, running.signal.causes());
        report.send(outcome);
    };
    // Without anybody listening, entering a span that is not there still costs at every poll.
    if span.is_disabled() { Box::pin(attempt) } else { Box::pin(attempt.instrument(span)) }
}

/// Sees to it that whatever happens in the task, the runtime hears of its end.
struct Report {
    running: Option<Arc<Running>>,
}

impl Report {
    fn send(&mut self, outcome: Option<Outcome>) {
        if let Some(running) = self.running.take() {
            let took = running.began().elapsed();
            trace::end(&running.span, outcome.as_ref());
            let shared = running.shared.clone();
            shared.inbox.finish(Finished { running, outcome, took });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.send(Some(Outcome::retry(code::PANIC, "the task of the handler was torn down")));
    }
}

/// Runs the handler to its end; `None` if it had to be dropped.
async fn drive(running: &Arc<Running>) -> Option<Ended> {
    let shared = &running.shared;
    let route = &shared.routes[running.kind];
    let mut attempt = route.attempt(Ctx::new(running.clone()), &shared.stack);
    // Timer and signal are listened to only once the handler has to wait for something: most jobs
    // of a busy worker never pay for them.
    let mut stopped = None;
    let ended = poll_fn(|cx| {
        match panics::catch(|| attempt.as_mut().poll(cx)) {
            Ok(Poll::Ready(ended)) => return Poll::Ready(Some(ended)),
            Err(panic) => return Poll::Ready(Some(Err(Stop::failed(panic)))),
            Ok(Poll::Pending) => {}
        }
        let stopped = stopped.get_or_insert_with(|| Box::pin(stopped_at_last(running)));
        stopped.as_mut().poll(cx).map(|()| None)
    })
    .await;
    if let Err(panic) = panics::catch(|| drop(attempt)) {
        tracing::warn!(error = %panic, "a handler panicked while it was dropped");
    }
    ended
}

/// Waits until the handler may go on no longer.
async fn stopped_at_last(running: &Running) {
    let deadline = running.deadline();
    let mut seen = Causes::default();
    let mut drop_at: Option<Instant> = None;
    loop {
        let causes = running.signal.causes();
        for cause in [Cause::LeaseLost, Cause::Operator, Cause::Timeout, Cause::Shutdown] {
            if causes.has(cause) && !seen.has(cause) {
                let at = Instant::now() + running.grace(cause);
                drop_at = Some(drop_at.map_or(at, |earlier| earlier.min(at)));
            }
        }
        seen = causes;
        let next = match drop_at {
            Some(at) if at <= Instant::now() => return,
            Some(at) if causes.has(Cause::Timeout) => at,
            Some(at) => at.min(deadline),
            None => deadline,
        };
        tokio::select! {
            () = sleep_until(next) => if next == deadline { running.signal.tell(Cause::Timeout); },
            _ = running.signal.changed(seen) => {}
        }
    }
}

/// What to report; `None` if there is nobody left to report to.
fn outcome(running: &Running, ended: Option<Ended>, causes: Causes) -> Option<Outcome> {
    let cause = causes.gravest();
    let why = match ended {
        _ if cause == Some(Cause::LeaseLost) => return None,
        // Whoever finishes in spite of everything has finished.
        Some(Ok(done)) => return Some(Outcome::Complete { result: done.0 }),
        Some(Err(stop)) => Some(stop.0),
        None => None,
    };
    Some(match (cause, why) {
        (Some(Cause::Operator), _) => Outcome::Cancel,
        (_, Some(Why::Fatal { error })) => Outcome::Fail { error },
        (Some(Cause::Timeout), _) => retry(running, timed_out(running), None),
        // A failure after the worker asked to stop is most likely because it asked.
        (Some(Cause::Shutdown), None | Some(Why::Retry { .. })) => Outcome::Release,
        (_, Some(why)) => by_handler(running, why),
        (_, None) => Outcome::Release,
    })
}

/// The outcome the handler asked for.
fn by_handler(running: &Running, why: Why) -> Outcome {
    match why {
        Why::Retry { error, after } => retry(running, error, after),
        Why::Fatal { error } => Outcome::Fail { error },
        Why::Snooze { delay } => Outcome::Snooze { delay_ms: bounded_ms(delay) },
        Why::Cancel { reason } => {
            running.draft(|draft| draft.note_line(format!("cancelled: {reason}")));
            Outcome::Cancel
        }
        Why::Wait => Outcome::Wait,
        Why::Release => Outcome::Release,
    }
}

fn retry(running: &Running, error: JobError, after: Option<Duration>) -> Outcome {
    let header = &running.header;
    let delay_ms = after.map_or_else(
        || {
            let failures = header.counters.failures.saturating_add(1);
            header.policy.backoff.delay_ms(failures, &*running.shared.random)
        },
        bounded_ms,
    );
    Outcome::Retry { error, delay_ms: Some(delay_ms) }
}

fn timed_out(running: &Running) -> JobError {
    let limit = running.timeout();
    let way_out = "make it faster, or give the job, its kind or the worker a longer timeout";
    JobError::new(code::TIMEOUT, format!("the handler ran longer than {limit:?}; {way_out}"))
}

fn bounded_ms(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).min(BACKOFF_MAX_MS)
}
