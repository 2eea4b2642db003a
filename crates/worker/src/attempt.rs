//! One attempt at one job: runs the handler, catches its panics, stops it when required, and converts its end
//! into an outcome. Independent of claims, sessions and other jobs.

use crate::ctx::Ctx;
use crate::panics;
use crate::running::Running;
use crate::shared::Finished;
use crate::signal::{Cause, Causes};
use crate::stop::{Ended, Stop, Suspended, Why, code};
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

/// The future of one attempt.
pub(crate) type Attempting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the handler of a job to its end and reports the outcome.
pub(crate) fn run(running: Arc<Running>) -> Attempting {
    let span = running.span.clone();
    let attempt = async move {
        let mut report = Report { running: Some(running.clone()) };
        let ended = drive(&running).await;
        let outcome = outcome(&running, ended, running.signal.causes());
        report.send(outcome);
    };
    // Entering a disabled span still costs time at every poll, so skip it when there is no subscriber.
    if span.is_disabled() { Box::pin(attempt) } else { Box::pin(attempt.instrument(span)) }
}

/// Guarantees that the runtime learns of the end of the task, even if the task is dropped.
struct Report {
    running: Option<Arc<Running>>,
}

impl Report {
    fn send(&mut self, outcome: Option<Outcome>) {
        if let Some(running) = self.running.take() {
            if running.batching().is_some()
                && let Some(group) = running.take_group()
            {
                // It ended without joining its batch, which must not wait for it.
                group.leave();
            }
            let took = running.began().elapsed();
            trace::end(&running.span, outcome.as_ref());
            let shared = running.shared.clone();
            shared.inbox.finish(Finished { running, outcome, took });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.send(Some(Outcome::retry(code::PANIC, "the task of the handler was dropped")));
    }
}

/// Runs the handler to its end; `None` if it had to be dropped.
async fn drive(running: &Arc<Running>) -> Option<Ended> {
    let shared = &running.shared;
    let route = &shared.routes[running.kind];
    let mut attempt = route.attempt(Ctx::new(running.clone()), &shared.stack);
    // The timer and the stop signal are polled only after the handler returns `Pending`: most jobs of a busy
    // worker finish on the first poll and never pay for them.
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
        tracing::warn!(error = %panic, "handler panicked while being dropped");
    }
    ended
}

/// Waits until the handler must be dropped: its grace time after a stop signal, or its deadline, is over.
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
            () = sleep_until(next) => if next == deadline { running.signal.send(Cause::Timeout); },
            _ = running.signal.changed(seen) => {}
        }
    }
}

/// The outcome to report; `None` if the lease is lost, so that there is nothing to report.
fn outcome(running: &Running, ended: Option<Ended>, causes: Causes) -> Option<Outcome> {
    let cause = causes.gravest();
    let why = match ended {
        _ if cause == Some(Cause::LeaseLost) => return None,
        // A handler that completes after it was asked to stop has still completed.
        Some(Ok(done)) => return Some(Outcome::Complete { result: done.0 }),
        Some(Err(stop)) => Some(stop.0),
        None => None,
    };
    Some(match (cause, why) {
        (Some(Cause::Operator), _) => Outcome::Cancel,
        (_, Some(Why::Fatal { error })) => Outcome::Fail { error },
        (Some(Cause::Timeout), _) => retry(running, timed_out(running), None),
        // A failure after a shutdown request is most likely a consequence of the request.
        (Some(Cause::Shutdown), None | Some(Why::Retry { .. })) => Outcome::Release,
        (_, Some(why)) => by_handler(running, why),
        (_, None) => Outcome::Release,
    })
}

/// Converts the handler's own reason for stopping into an outcome.
fn by_handler(running: &Running, why: Why) -> Outcome {
    match why {
        Why::Retry { error, after } => retry(running, error, after),
        Why::Fatal { error } => Outcome::Fail { error },
        Why::Snooze { delay } => Outcome::Snooze { delay_ms: bounded_ms(delay) },
        Why::Cancel { reason } => {
            running.draft(|draft| draft.note_line(format!("cancelled: {reason}")));
            Outcome::Cancel
        }
        Why::Wait(wait) => Outcome::Wait(wait),
        Why::WaitForJobs => Outcome::WaitForJobs,
        Why::Suspend(suspended) => {
            let Suspended { outcome, step, children } = *suspended;
            running.draft(|draft| draft.suspend(step, children));
            outcome
        }
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
