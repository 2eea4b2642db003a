//! Retries enqueues that the server refuses temporarily, after the time it specifies and within the
//! client's limit. It must not know why a server refuses.

use crate::engine::RemoteEngine;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Enqueue, Enqueued, Item, Mode, Stamped};
use windlass_core::random::{Random as _, SystemRandom};
use windlass_core::{Error, Result};
use windlass_wire::{self as wire, routes};

/// Time limit for the retries of one call.
struct Patience {
    /// The end of the waiting; `None` if it is never.
    until: Option<Instant>,
}

impl Patience {
    fn new(time: Duration) -> Self {
        Self { until: Instant::now().checked_add(time) }
    }

    /// Waits as long as the server specified plus up to 10 % jitter, so that clients do not retry
    /// at once together. Returns `false` without waiting if that would exceed the limit.
    async fn wait(&self, retry_after_ms: u64) -> bool {
        let spread_ms = SystemRandom.next_u64() % (retry_after_ms / 10 + 1);
        let wait = Duration::from_millis(retry_after_ms.saturating_add(spread_ms));
        if self.until.is_some_and(|until| Instant::now() + wait > until) {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }
}

/// The earliest retry time of these results.
fn retry_after_ms(answers: &[Item<Enqueued>]) -> Option<u64> {
    answers.iter().filter_map(|it| it.as_ref().err()?.retry_after_ms()).min()
}

fn may_retry(answer: &Item<Enqueued>) -> bool {
    answer.as_ref().is_err_and(|error| error.retry_after_ms().is_some())
}

impl RemoteEngine {
    /// Enqueues jobs, and retries those that are refused temporarily. Results keep the order of the
    /// request.
    pub(crate) async fn hand_over(&self, request: Enqueue) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        let whole = request.mode == Mode::AllOrNothing;
        let mut body = wire::Enqueue::from(request);
        let patience = Patience::new(self.patience());
        let mut places: Vec<usize> = (0..body.jobs.len()).collect();
        let mut reply = loop {
            match self.send(&body).await {
                Ok(reply) => break reply,
                Err(error) => match error.retry_after_ms() {
                    Some(ms) if patience.wait(ms).await => {}
                    _ => return Err(error),
                },
            }
        };
        while let Some(ms) = retry_after_ms(&reply.value) {
            if !patience.wait(ms).await {
                break;
            }
            if !whole {
                let again: Vec<bool> =
                    places.iter().map(|at| may_retry(&reply.value[*at])).collect();
                let mut kept = again.iter();
                body.jobs.retain(|_| kept.next() == Some(&true));
                let mut kept = again.iter();
                places.retain(|_| kept.next() == Some(&true));
            }
            match self.send(&body).await {
                Ok(Stamped { now, epoch, value }) => {
                    (reply.now, reply.epoch) = (now, epoch);
                    places.iter().zip(value).for_each(|(at, answer)| reply.value[*at] = answer);
                }
                // Refused again: keep the previous results.
                Err(error) if error.retry_after_ms().is_some() => {}
                // The outcome of these jobs is unknown; the others are stored.
                Err(error) if !whole => fill(&mut reply.value, &places, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(reply)
    }

    async fn send(&self, body: &wire::Enqueue) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        self.batch(routes::JOBS_BATCH, body.jobs.len(), body, wire::Enqueued::into_core).await
    }
}

fn fill(answers: &mut [Item<Enqueued>], places: &[usize], error: &Error) {
    for at in places {
        answers[*at] = Err(error.clone());
    }
}
