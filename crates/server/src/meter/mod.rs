//! An engine around an engine that counts what goes in and out, for the rates people look at. It counts
//! what passes through this server and nothing else; it must not change a request or an answer.

mod rates;

pub(crate) use rates::{Rates, Trend};

use std::sync::Arc;
use windlass_core::Result;
use windlass_core::engine::*;
use windlass_core::model::{AttemptEnd, Name};

/// Counts beneath the layer that gathers single calls, so that a batch is counted at once.
pub(crate) struct Meter {
    engine: Arc<dyn Engine>,
    rates: Rates,
}

impl Meter {
    pub(crate) fn new(engine: Arc<dyn Engine>, rates: Rates) -> Self {
        Self { engine, rates }
    }

    /// Jobs handed to workers. A claim that is repeated because its reply was lost counts again.
    fn count_started(&self, now: windlass_core::Timestamp, claimed: &Claimed) {
        self.rates.started(now, claimed.jobs.iter().map(|job| &job.header.queue));
    }
}

fn is_new(answer: &Result<Enqueued>) -> bool {
    let stored =
        |it: &Enqueued| matches!(it.disposition, Disposition::Created | Disposition::Replaced(_));
    answer.as_ref().is_ok_and(stored)
}

impl Hot for Meter {
    windlass_core::pass_on!(engine: capabilities, open_session, heartbeat, close_session, wait, update);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        let queues: Vec<Name> = request.jobs.iter().map(|job| job.queue.clone()).collect();
        Box::pin(async move {
            let reply = self.engine.enqueue(request).await?;
            let stored = queues.iter().zip(&reply.value).filter(|(_, answer)| is_new(answer));
            self.rates.enqueued(reply.now, stored.map(|(queue, _)| queue));
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
        let followed: Vec<Vec<Name>> = request
            .items
            .iter()
            .map(|item| item.follow_ups.iter().map(|job| job.queue.clone()).collect())
            .collect();
        Box::pin(async move {
            let reply = self.engine.settle(request).await?;
            let (mut completed, mut failed, mut stored) = (0, 0, Vec::new());
            for (item, queues) in reply.value.items.iter().zip(&followed) {
                let Ok(item) = item else { continue };
                match item.end {
                    _ if item.already => {}
                    AttemptEnd::Complete => completed += 1,
                    AttemptEnd::Retry | AttemptEnd::Fail => failed += 1,
                    _ => {}
                }
                let new = |it: &Enqueued| is_new(&Ok(*it));
                let follow_ups = queues.iter().zip(&item.follow_ups);
                stored.extend(follow_ups.filter(|(_, it)| new(it)).map(|(queue, _)| queue));
            }
            self.rates.ended(reply.now, completed, failed);
            self.rates.enqueued(reply.now, stored.into_iter());
            if let Some(Ok(claimed)) = &reply.value.claimed {
                self.count_started(reply.now, claimed);
            }
            Ok(reply)
        })
    }
}

impl Admin for Meter {
    windlass_core::pass_on!(engine: get, list, stats, sessions, change, configure, settings, records, health);
}

impl Maintain for Meter {
    windlass_core::pass_on!(engine: maintain, check);
}
