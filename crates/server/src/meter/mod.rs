//! A layer that counts jobs for metrics and the dashboard's rates. It counts only calls through
//! this server; it must not change a request or an answer.

// A match that lists the known variants shows the next one where it must be decided.
#![deny(clippy::wildcard_enum_match_arm)]

mod counts;
mod leases;
mod rates;

pub(crate) use counts::Counts;
pub(crate) use rates::{QueueRates, Rates, RatesNow};

use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::engine::*;
use windlass_core::model::{AttemptEnd, Name, NewJob};

/// The queue and the kind of a job.
type Lane = (Name, Name);

fn lane(job: &NewJob) -> Lane {
    (job.queue.clone(), job.kind.clone())
}

/// The counting layer. It is below the layer that merges calls, so that a merged batch is counted
/// at once.
pub(crate) struct Meter {
    engine: Arc<dyn Engine>,
    rates: Rates,
    counts: Counts,
}

impl Meter {
    pub(crate) fn new(engine: Arc<dyn Engine>, rates: Rates, counts: Counts) -> Self {
        Self { engine, rates, counts }
    }

    /// Counts stored jobs.
    fn count_stored<'a>(&self, now: Timestamp, lanes: impl Iterator<Item = &'a Lane> + Clone) {
        self.rates.enqueued(now, lanes.clone().map(|(queue, _)| queue));
        self.counts.enqueued(now, lanes.map(|(queue, kind)| (queue, kind)));
    }

    /// Counts claimed jobs. A claim repeated after a lost reply counts again.
    fn count_started(&self, now: Timestamp, claimed: &Claimed) {
        self.rates.started(now, claimed.jobs.iter().map(|job| &job.header.queue));
        self.counts.started(now, claimed);
    }
}

/// The lanes of the jobs that an enqueue stored: that of the job, or those of its copies if its queue is a topic.
fn lanes_of<'a>(job: &'a Lane, stored: &'a Enqueued) -> impl Iterator<Item = Lane> + 'a {
    let own = stored.disposition.is_new().then(|| job.clone());
    let copies = stored.copies.iter().filter(|copy| copy.disposition.is_new());
    own.into_iter().chain(copies.map(|copy| (copy.queue.clone(), job.1.clone())))
}

impl Jobs for Meter {
    windlass_core::pass_on!(engine: capabilities, open_session, heartbeat, close_session, take, wait, update);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        let lanes: Vec<Lane> = request.jobs.iter().map(lane).collect();
        Box::pin(async move {
            let answer = self.engine.enqueue(request).await;
            let reply =
                answer.inspect_err(|error| self.counts.refused(error, lanes.len() as u64))?;
            let answered = lanes.iter().zip(&reply.value);
            let stored = answered.filter_map(|(lane, item)| Some((lane, item.as_ref().ok()?)));
            let stored: Vec<Lane> = stored.flat_map(|(lane, item)| lanes_of(lane, item)).collect();
            self.count_stored(reply.now, stored.iter());
            let refused = reply.value.iter().filter_map(|answer| answer.as_ref().err());
            refused.for_each(|error| self.counts.refused(error, 1));
            Ok(reply)
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let reply = self.engine.claim(request).await?;
            self.count_started(reply.now, &reply.value);
            Ok(reply)
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        let follow_ups = |item: &SettleItem| item.follow_ups.iter().map(lane).collect();
        let followed: Vec<Vec<Lane>> = request.items.iter().map(follow_ups).collect();
        let reported = self.counts.reporting(&request);
        Box::pin(async move {
            let reply = match self.engine.settle(request).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.counts.unanswered(reported);
                    return Err(error);
                }
            };
            let (mut completed, mut failed, mut stored) = (0, 0, Vec::<Lane>::new());
            self.counts.reported(reply.now, &reply.value.items, &reported);
            for (item, lanes) in reply.value.items.iter().zip(&followed) {
                let Ok(item) = item else { continue };
                match item.end {
                    _ if item.already => {}
                    AttemptEnd::Complete => completed += 1,
                    AttemptEnd::Retry | AttemptEnd::Fail => failed += 1,
                    AttemptEnd::Snooze
                    | AttemptEnd::Release
                    | AttemptEnd::Wait
                    | AttemptEnd::Cancel
                    | AttemptEnd::Lost
                    | _ => {}
                }
                let follow_ups = lanes.iter().zip(&item.follow_ups);
                stored.extend(follow_ups.flat_map(|(lane, it)| lanes_of(lane, it)));
            }
            self.rates.ended(reply.now, completed, failed);
            self.count_stored(reply.now, stored.iter());
            if let Some(Ok(claimed)) = &reply.value.claimed {
                self.count_started(reply.now, claimed);
            }
            Ok(reply)
        })
    }
}

impl Admin for Meter {
    windlass_core::pass_on!(engine: get, list, stats, limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for Meter {
    windlass_core::pass_on!(engine: maintain, check);
}
