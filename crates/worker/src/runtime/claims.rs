//! Asking for work: what to claim, when, and waiting for the store to have something.

use super::calls::{Reply, ask};
use super::{Phase, Runtime};
use crate::options::{BUFFERED_PER_SLOT, CLAIMS_MAX, VAIN_CLAIM_PAUSE, VAIN_CLAIMS_MAX, WAIT};
use crate::room::{Open, Room};
use std::pin::Pin;
use tokio::time::Instant;
use windlass_core::engine::{Claim, Claimant, Claimed, Wait};
use windlass_core::{Error, Result};

#[derive(Default)]
pub(super) struct Claims {
    /// The number of the last claim that was made.
    last_no: u64,
    /// Claims that have no answer yet, [`CLAIMS_MAX`] at most.
    open: Vec<OpenClaim>,
    /// Whether the store may have something for us: then we claim, else we wait.
    likely: bool,
    /// Whether the claim answered last got all it asked for: then two are made at a time.
    plenty: bool,
    /// Claims in a row that got nothing although something was said to be there.
    vain: u32,
    put_off: Option<Instant>,
    /// Whether a claim that came after every result of ours, and so saw what they left, found nothing.
    found_nothing: bool,
    wait: Option<Waiting>,
}

/// A claim without an answer: under way, or to be repeated as it is.
struct OpenClaim {
    no: u64,
    claim: Claim,
    under_way: bool,
    /// Not to be repeated: the worker drains, or its session is gone.
    given_up: bool,
    /// Whether it was sent when nothing else of ours was.
    is_last_word: bool,
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

    pub(super) fn unanswered(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|open| open.no)
    }

    /// Whether a claim may still bring jobs.
    pub(super) const fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) const fn found_nothing(&self) -> bool {
        self.found_nothing
    }

    /// Has the next claim made without waiting.
    pub(super) const fn look(&mut self) {
        self.likely = true;
    }

    /// Claims nothing more, because the worker drains or its session is gone. A claim under way is
    /// still answered; one that would have to be repeated is left to the end of the session, which gives
    /// back what it may have leased.
    pub(super) fn give_up(&mut self, room: &mut Room) {
        self.wait = None;
        self.open.retain_mut(|open| {
            open.given_up = true;
            if !open.under_way {
                room.take_back(&open.claim);
            }
            open.under_way
        });
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
    /// The claim to send now, if any, and its number. With `results` to ride with it costs no call of its
    /// own, so that it is made even if the last one came back short.
    pub(super) fn next_claim(&mut self, results: usize) -> Option<(u64, Claim)> {
        if !matches!(self.phase, Phase::Working) {
            return None;
        }
        let no_other = !self.claims.any_open();
        let again = self.claims.open.iter().position(|open| !open.under_way);
        let at = match again {
            Some(at) => at,
            None => self.make_claim(results)?,
        };
        let open = &mut self.claims.open[at];
        open.under_way = true;
        open.is_last_word = no_other && self.held.len() == results;
        Some((open.no, open.claim.clone()))
    }

    /// Makes a claim, if one is wanted and there is room, and says where it is.
    fn make_claim(&mut self, results: usize) -> Option<usize> {
        let claims_max = if self.claims.plenty { CLAIMS_MAX } else { 1 };
        let wanted = (self.claims.likely || results > 0) && !self.claims.is_put_off();
        if self.claims.open.len() >= claims_max || !wanted || self.is_occupied() {
            return None;
        }
        let session = self.session.id()?;
        // Running jobs and results that wait for the store together: the bound of the buffer.
        let held_max = self.shared.options.concurrency * (1 + BUFFERED_PER_SLOT);
        let most = held_max.saturating_sub(self.held.len() as u32);
        let leaked = self.shared.pool.leaked();
        let wants = self.room.wants(self.turns.order(), leaked, most)?;
        self.claims.last_no += 1;
        let no = self.claims.last_no;
        let by = Claimant::Session { session, claim_no: no };
        let mut claim = Claim::new(by, "", wants.limit).parts(self.shared.options.parts);
        claim.queues = wants.queues;
        claim.kinds = Some(wants.kinds);
        self.room.promise(&claim);
        let open = OpenClaim { no, claim, under_way: false, given_up: false, is_last_word: false };
        self.claims.open.push(open);
        Some(self.claims.open.len() - 1)
    }

    /// Sends a claim that has no results to ride with.
    pub(super) fn send_claim(&mut self, no: u64, claim: Claim) {
        let reply = move |answer| Reply::Claimed { no, answer };
        self.call("claim", move |engine| engine.claim(claim), reply);
    }

    pub(super) fn claim_answered(&mut self, no: u64, answer: Result<Claimed>) {
        let Some(at) = self.claims.open.iter().position(|open| open.no == no) else { return };
        let open = &mut self.claims.open[at];
        open.under_way = false;
        if let Err(error) = &answer
            && !open.given_up
            && !matches!(error, Error::SessionLost { .. })
        {
            // The claim stays open: repeated under its number, it returns what it may have leased.
            return self.unanswered(error);
        }
        let open = self.claims.open.swap_remove(at);
        self.room.take_back(&open.claim);
        match answer {
            Ok(claimed) => {
                self.answered();
                self.judge_claim(claimed.jobs.len(), open.claim.limit as usize);
                self.claims.found_nothing = claimed.jobs.is_empty() && open.is_last_word;
                self.start(claimed.jobs);
            }
            Err(Error::SessionLost { .. }) => {
                self.answered();
                self.lose_session();
            }
            Err(error) => self.unanswered(&error),
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
        claims.plenty = got > 0 && got >= asked;
        claims.likely = claims.plenty;
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
