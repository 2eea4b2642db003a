//! Store calls in flight, each with a timeout, and the dispatch of their replies.

use super::Runtime;
use super::news::Sent;
use super::settles::Report;
use crate::outage::{is_transient, unanswered};
use futures_util::stream::FuturesUnordered;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use windlass_core::engine::{
    Answer, Claimed, Engine, HeartbeatReply, Held, Item, Session, SettleReply, Updated,
};
use windlass_core::{Error, Result};

/// The calls in flight.
pub(super) type Calls = FuturesUnordered<Pin<Box<dyn Future<Output = Reply> + Send>>>;

/// A reply, with the context needed to process it.
pub(super) enum Reply {
    Opened(Result<Session>),
    Beat { sent: Instant, held: Vec<Held>, answer: Result<HeartbeatReply> },
    Claimed { no: u64, answer: Result<Claimed> },
    Settled { reports: Vec<Report>, claim_no: Option<u64>, answer: Result<SettleReply> },
    Updated { sent: Vec<Sent>, answer: Result<Vec<Item<Updated>>> },
    Closed,
}

/// Makes a call; a call that exceeds its timeout counts as unanswered.
pub(super) async fn ask<T>(
    engine: Arc<dyn Engine>,
    time: Duration,
    verb: &'static str,
    call: impl FnOnce(&dyn Engine) -> Answer<'_, T>,
) -> Result<T> {
    match timeout(time, call(&*engine)).await {
        Ok(answer) => answer.map(|stamped| stamped.value),
        Err(_) => Err(unanswered(&format!("{verb} took longer than {time:?}"))),
    }
}

impl Runtime {
    /// Starts a call.
    pub(super) fn call<T: Send + 'static>(
        &self,
        verb: &'static str,
        call: impl FnOnce(&dyn Engine) -> Answer<'_, T> + Send + 'static,
        reply: impl FnOnce(Result<T>) -> Reply + Send + 'static,
    ) {
        let engine = self.shared.engine.clone();
        let time = self.shared.options.call_timeout;
        self.calls.push(Box::pin(async move { reply(ask(engine, time, verb, call).await) }));
    }

    pub(super) fn take_reply(&mut self, reply: Reply) {
        match reply {
            Reply::Opened(answer) => self.opened(answer),
            Reply::Beat { sent, held, answer } => self.beaten(sent, &held, answer),
            Reply::Claimed { no, answer } => self.claim_answered(no, answer),
            Reply::Settled { reports, claim_no, answer } => {
                self.settle_answered(reports, claim_no, answer);
            }
            Reply::Updated { sent, answer } => self.update_answered(sent, answer),
            Reply::Closed => self.closed(),
        }
    }

    /// Records that the store answered, even if with a refusal.
    pub(super) fn answered(&mut self) {
        self.outage.answered(&self.shared);
        self.shared.counts.answered();
    }

    /// Records that the store could not serve a call as a whole; it is repeated later.
    pub(super) fn unanswered(&mut self, error: &Error) {
        if !is_transient(error) {
            // The store does respond, although with an error that cannot be used.
            self.shared.counts.answered();
        }
        self.shared.counts.store_errors.fetch_add(1, Ordering::Relaxed);
        self.meters.store_errors.increment(1);
        self.outage.failed(&self.shared, error);
    }
}
