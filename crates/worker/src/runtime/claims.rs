//! Asking for work: what to claim, when, and waiting for the store to have something.

use super::calls::{Reply, ask};
use super::{Phase, Runtime};
use crate::options::{BUFFERED_PER_SLOT, VAIN_CLAIM_PAUSE, VAIN_CLAIMS_MAX, WAIT};
use crate::room::Open;
use std::pin::Pin;
use tokio::time::Instant;
use windlass_core::engine::{Claim, Claimant, Claimed, Wait};
use windlass_core::{Error, Result};

#[derive(Default)]
pub(super) struct Claims {
    /// The number of the last claim that was made.
    last_no: u64,
    /// The claim that has no answer yet: under way, or to be repeated as it is. Never more than one.
    open: Option<Claim>,
    under_way: bool,
    /// Whether the store may have something for us: then we claim, else we wait.
    likely: bool,
    /// Claims in a row that got nothing although something was said to be there.
    vain: u32,
    put_off: Option<Instant>,
    /// Whether the claim sent last came after every result of ours, so that it sees what they left.
    is_last_word: bool,
    /// Whether such a claim found nothing.
    found_nothing: bool,
    wait: Option<Waiting>,
}

/// A wait for work under way, and what it waits for.
struct Waiting {
    open: Open,
    answer: Pin<Box<dyn Future<Output = Result<bool>> + Send>>,
}

impl Claims {
    pub(super) const fn last_no(&self) -> u64 {
        self.last_no
    }

    pub(super) fn unanswered_no(&self) -> Option<u64> {
        self.open.as_ref().and_then(|claim| match claim.by {
            Claimant::Session { claim_no, .. } => Some(claim_no),
            Claimant::Alone { .. } => None,
        })
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.under_way
    }

    pub(super) const fn found_nothing(&self) -> bool {
        self.found_nothing
    }

    /// Has the next claim made without waiting.
    pub(super) const fn look(&mut self) {
        self.likely = true;
    }

    /// Forgets the open claim: its session is gone, or about to be closed.
    pub(super) fn forget(&mut self) {
        self.open = None;
        self.wait = None;
    }

    /// Claims nothing more. A claim under way is still answered; one that would have to be repeated
    /// is left to the end of the session, which gives back what it may have leased.
    pub(super) fn drain(&mut self) {
        self.wait = None;
        if !self.under_way {
            self.open = None;
        }
    }

    pub(super) fn alarm_at(&self) -> Option<Instant> {
        self.put_off.filter(|until| *until > Instant::now())
    }

    /// Whether claims are put off for a moment.
    fn is_put_off(&self) -> bool {
        self.alarm_at().is_some()
    }

    /// The answer of the wait under way; never, if there is none.
    pub(super) async fn waiting(&mut self) -> Result<bool> {
        match &mut self.wait {
            Some(waiting) => waiting.answer.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

impl Runtime {
    /// The claim to send now, if any. With `results` to ride with it costs no call of its own, so that
    /// it is made even if the last one came back short.
    pub(super) fn next_claim(&mut self, results: usize) -> Option<Claim> {
        if self.claims.under_way || !matches!(self.phase, Phase::Working) {
            return None;
        }
        if self.claims.open.is_none() {
            let wanted = (self.claims.likely || results > 0) && !self.claims.is_put_off();
            if !wanted || self.is_occupied() {
                return None;
            }
            self.claims.open = Some(self.make_claim()?);
        }
        self.claims.under_way = true;
        self.claims.is_last_word = self.held.len() == results;
        self.claims.open.clone()
    }

    fn make_claim(&mut self) -> Option<Claim> {
        let session = self.session.id()?;
        // Running jobs and results that wait for the store together: the bound of the buffer.
        let held_max = self.shared.options.concurrency * (1 + BUFFERED_PER_SLOT);
        let most = held_max.saturating_sub(self.held.len() as u32);
        let leaked = self.shared.pool.leaked();
        let wants = self.room.wants(self.turns.order(), leaked, most)?;
        self.claims.last_no += 1;
        let by = Claimant::Session { session, claim_no: self.claims.last_no };
        let mut claim = Claim::new(by, "", wants.limit).parts(self.shared.options.parts);
        claim.queues = wants.queues;
        claim.kinds = Some(wants.kinds);
        Some(claim)
    }

    /// Sends a claim that has no results to ride with.
    pub(super) fn send_claim(&mut self, claim: Claim) {
        self.call("claim", move |engine| engine.claim(claim), Reply::Claimed);
    }

    pub(super) fn claim_answered(&mut self, answer: Result<Claimed>) {
        self.claims.under_way = false;
        match answer {
            Ok(claimed) => {
                self.answered();
                let asked = self.claims.open.take().map_or(0, |claim| claim.limit as usize);
                self.judge_claim(claimed.jobs.len(), asked);
                self.claims.found_nothing = claimed.jobs.is_empty() && self.claims.is_last_word;
                self.start(claimed.jobs);
            }
            Err(Error::SessionLost { .. }) => {
                self.answered();
                self.claims.open = None;
                self.lose_session();
            }
            // The claim stays open: repeated under its number, it returns what it may have leased.
            Err(error) => {
                self.unanswered(&error);
                if !matches!(self.phase, Phase::Working) {
                    self.claims.drain();
                }
            }
        }
    }

    /// A full claim makes another likely; a short one is a hint that there is no more.
    fn judge_claim(&mut self, got: usize, asked: usize) {
        let claims = &mut self.claims;
        if got == 0 && claims.likely {
            claims.vain += 1;
        } else if got > 0 {
            claims.vain = 0;
        }
        if claims.vain > VAIN_CLAIMS_MAX {
            claims.put_off = Some(Instant::now() + VAIN_CLAIM_PAUSE);
        }
        claims.likely = got > 0 && got >= asked;
    }

    /// Waits for work where there is room, if there is nothing better to do.
    pub(super) fn wait_for_work(&mut self) {
        let idle = matches!(self.phase, Phase::Working)
            && self.session.is_open()
            && !self.claims.likely
            && !self.claims.is_put_off()
            && !self.is_occupied();
        let open = if idle { self.room.open(self.shared.pool.leaked()) } else { None };
        let Some(open) = open else {
            self.claims.wait = None;
            return;
        };
        // One that waits for the same goes on: for a remote store it is a request of its own.
        if self.claims.wait.as_ref().is_some_and(|wait| wait.open == open) {
            return;
        }
        let (queues, kinds) = self.room.names(open);
        let mut wait = Wait::new(queues, WAIT.as_millis() as u64);
        wait.kinds = Some(kinds);
        let engine = self.shared.engine.clone();
        let time = WAIT + self.shared.options.call_timeout;
        let answer = ask(engine, time, "wait", move |engine| engine.wait(wait));
        self.claims.wait = Some(Waiting { open, answer: Box::pin(answer) });
    }

    /// Something may be claimable, or the wait is over: look either way.
    pub(super) fn waited(&mut self, answer: Result<bool>) {
        self.claims.wait = None;
        match answer {
            Ok(found) => {
                self.answered();
                self.claims.likely = true;
                if !found {
                    self.claims.vain = 0;
                }
            }
            Err(error) => self.unanswered(&error),
        }
    }
}
