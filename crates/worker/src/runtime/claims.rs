//! Claims: when to claim, what to claim, and waiting for the store to have work.

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
    /// The number of the latest claim.
    last_no: u64,
    /// Claims without a reply, at most [`CLAIMS_MAX`].
    open: Vec<OpenClaim>,
    /// Whether the store probably has jobs for this worker: if so it claims, otherwise it waits.
    likely: bool,
    /// Whether the latest claim was filled completely; if so, two claims are made at a time.
    plenty: bool,
    /// Number of consecutive empty claims although the store reported work.
    vain: u32,
    put_off: Option<Instant>,
    /// Whether a claim that was sent after all results, and so saw their effects, returned nothing.
    found_nothing: bool,
    wait: Option<Waiting>,
}

/// A claim without a reply: in flight, or to be repeated with the same number.
struct OpenClaim {
    no: u64,
    claim: Claim,
    under_way: bool,
    /// Not to be repeated, because the worker drains or its session is gone.
    given_up: bool,
    /// Whether it was sent when the worker held no other job and had no other claim.
    is_last_word: bool,
}

/// A wait for work in flight, and the queues and kinds it waits for.
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

    /// Whether a claim in flight may still return jobs.
    pub(super) const fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) const fn found_nothing(&self) -> bool {
        self.found_nothing
    }

    /// Makes the next claim happen without a wait before it.
    pub(super) const fn try_now(&mut self) {
        self.likely = true;
    }

    /// Stops claiming, because the worker drains or its session is gone. Claims in flight are still answered;
    /// one that would have to be repeated is dropped: jobs it may have leased are released when the session
    /// ends.
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

    /// Whether claims are delayed at present.
    fn is_put_off(&self) -> bool {
        self.alarm_at().is_some()
    }

    /// The reply of the wait in flight; pending forever if there is none.
    pub(super) async fn waiting(&mut self) -> Result<bool> {
        match &mut self.wait {
            Some(waiting) => waiting.answer.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

impl Runtime {
    /// The claim to send now, if any, and its number. Together with `results` it costs no separate call, so
    /// it is then made even if the previous claim was not filled.
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

    /// Creates a claim if one is wanted and there is capacity, and returns its index.
    fn make_claim(&mut self, results: usize) -> Option<usize> {
        let claims_max = if self.claims.plenty { CLAIMS_MAX } else { 1 };
        let wanted = (self.claims.likely || results > 0) && !self.claims.is_put_off();
        if self.claims.open.len() >= claims_max || !wanted || self.is_occupied() {
            return None;
        }
        if self.settles.any_hold() || self.news.any_hold() {
            return None;
        }
        let session = self.session.id()?;
        // The buffer limit: running jobs and results that wait for the store, together.
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
        if let Some((from_priority, jobs)) = self.floors.next(wants.limit) {
            claim = from_floor(claim, from_priority, jobs);
        }
        self.room.promise(&claim);
        let open = OpenClaim { no, claim, under_way: false, given_up: false, is_last_word: false };
        self.claims.open.push(open);
        Some(self.claims.open.len() - 1)
    }

    /// Sends a claim in its own call, without results.
    pub(super) fn send_claim(&mut self, no: u64, claim: Claim) {
        let reply = move |answer| Reply::Claimed { no, answer };
        self.call("claim", move |engine| engine.claim(claim), reply);
    }

    pub(super) fn claim_answered(&mut self, no: u64, answer: Result<Claimed>) {
        let Some(at) = self.claims.open.iter().position(|open| open.no == no) else { return };
        let open = &mut self.claims.open[at];
        open.under_way = false;
        if let Err(error) = &answer
            && error.field() == Some("from_priority")
        {
            return self.floor_refused(at, error);
        }
        if let Err(error) = &answer
            && !open.given_up
            && !matches!(error, Error::SessionLost { .. })
        {
            // The claim stays open: repeating it under its number returns the jobs that it may have leased.
            return self.unanswered(error);
        }
        let open = self.claims.open.swap_remove(at);
        self.room.take_back(&open.claim);
        match answer {
            Ok(claimed) => {
                self.answered();
                let (got, requested) = (claimed.jobs.len(), open.claim.limit as usize);
                match open.claim.from_priority {
                    Some(from_priority) => self.judge_floor(from_priority, got, requested),
                    None => {
                        self.judge_claim(got, requested);
                        self.claims.found_nothing = got == 0 && open.is_last_word;
                    }
                }
                self.start(claimed.jobs, open.claim.from_priority);
            }
            Err(Error::SessionLost { .. }) => {
                self.answered();
                self.lose_session();
            }
            Err(error) => self.unanswered(&error),
        }
    }

    /// Drops a claim from a priority on that the store refuses, and all floors: such claims would be refused again.
    fn floor_refused(&mut self, at: usize, error: &Error) {
        let open = self.claims.open.swap_remove(at);
        self.room.take_back(&open.claim);
        self.answered();
        tracing::error!(%error, "the worker goes on without floors");
        self.floors.clear();
        self.claims.try_now();
    }

    /// Goes on with jobs of all priorities, whether the claim found any or not.
    fn judge_floor(&mut self, from_priority: i32, got: usize, requested: usize) {
        if got < requested {
            self.floors.fell_short(from_priority, Instant::now());
        }
        self.claims.try_now();
    }

    /// Decides whether to claim again: a full claim makes more jobs likely, a short one suggests that there
    /// are none.
    fn judge_claim(&mut self, got: usize, requested: usize) {
        let claims = &mut self.claims;
        if got == 0 && claims.likely {
            claims.vain += 1;
        } else if got > 0 {
            claims.vain = 0;
        }
        if claims.vain > VAIN_CLAIMS_MAX {
            claims.put_off = Some(Instant::now() + VAIN_CLAIM_PAUSE);
        }
        claims.plenty = got > 0 && got >= requested;
        claims.likely = claims.plenty;
    }

    /// Waits for work on queues and kinds with free capacity, unless a claim is due.
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
        // A wait for the same queues and kinds continues: on a remote store, each wait is a request.
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

    /// Handles the reply of a wait. Claims next in either case, whether work was reported or the wait timed
    /// out.
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

/// A claim of fewer jobs, from a priority on.
fn from_floor(mut claim: Claim, from_priority: i32, jobs: u32) -> Claim {
    claim.limit = jobs;
    claim.queues.iter_mut().for_each(|want| want.limit = want.limit.min(jobs));
    claim.kinds.iter_mut().flatten().for_each(|want| want.limit = want.limit.min(jobs));
    claim.from_priority(from_priority)
}
