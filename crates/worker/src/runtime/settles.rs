//! Delivery of outcomes: batched while calls are in flight, repeated until the store answers, each with its
//! own result.

use super::calls::Reply;
use super::{Phase, Runtime};
use crate::options::CALLS_MAX;
use crate::outage::is_transient;
use crate::running::Running;
use crate::stats::End;
use crate::stop::code;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use windlass_core::engine::{Claimed, Item, Outcome, Settle, SettleItem, SettleReply, Settled};
use windlass_core::{Error, Result};

/// Minimum number of reports for a second concurrent call, unless they are the last ones: small batches soon
/// grow.
const SECOND_CALL_MIN: usize = 100;
/// Maximum number of reports per call; halved when the store refuses a call as too large.
const SETTLE_BATCH_MAX: usize = 1_000;

/// The outcome of a job on its way to the store.
pub(super) struct Report {
    pub(super) running: Arc<Running>,
    pub(super) item: SettleItem,
    /// Whether it replaces a report that the store refused.
    substitute: bool,
}

pub(super) struct Settles {
    waiting: VecDeque<Report>,
    under_way: usize,
    /// Number of reports under way that stop starts.
    holds_under_way: usize,
    calls: usize,
    batch_max: usize,
    /// Whether settle calls may include a claim; not while the store refuses whole calls.
    carry_claims: bool,
}

impl Default for Settles {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            under_way: 0,
            holds_under_way: 0,
            calls: 0,
            batch_max: SETTLE_BATCH_MAX,
            carry_claims: true,
        }
    }
}

impl Settles {
    /// Number of reports that the store has not acknowledged.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.under_way
    }

    /// Whether a report that stops starts has not been acknowledged: a claim could start jobs that it stops.
    pub(super) fn any_hold(&self) -> bool {
        self.holds_under_way > 0 || holds(&self.waiting) > 0
    }
}

impl Runtime {
    /// Queues an outcome, after its progress and log lines if there are any.
    pub(super) fn report(&mut self, running: Arc<Running>, outcome: Outcome) {
        let mut item = SettleItem::new(running.header.id, running.lease.clone(), outcome);
        let completed = matches!(item.outcome, Outcome::Complete { .. });
        let clean = running.drafted(|draft| {
            draft.complete_report(&mut item, completed);
            draft.is_clean()
        });
        let report = Report { running, item, substitute: false };
        if clean.unwrap_or(true) {
            self.settles.waiting.push_back(report);
        } else {
            self.news.defer(report);
        }
    }

    /// Queues a report whose progress and log lines have been stored.
    pub(super) fn report_at_last(&mut self, report: Report) {
        self.settles.waiting.push_back(report);
    }

    /// Sends waiting reports and claims more jobs, in one call if possible.
    pub(super) fn send_reports_and_claims(&mut self) {
        while self.settles.calls < CALLS_MAX {
            let count = self.settles.waiting.len().min(self.settles.batch_max);
            if self.settles.calls > 0 && count < SECOND_CALL_MIN && self.room.running() > 0 {
                return;
            }
            let reports: Vec<Report> = self.settles.waiting.drain(..count).collect();
            let carry = reports.is_empty() || self.settles.carry_claims;
            let claim = if carry { self.next_claim(reports.len()) } else { None };
            match (reports.is_empty(), claim) {
                (true, None) => return,
                (true, Some((no, claim))) => self.send_claim(no, claim),
                (false, claim) => {
                    let items = reports.iter().map(|report| report.item.clone());
                    let mut settle = Settle::new(items);
                    let claim_no = claim.as_ref().map(|(no, _)| *no);
                    settle.claim = claim.map(|(_, claim)| claim);
                    self.settles.calls += 1;
                    self.settles.under_way += reports.len();
                    self.settles.holds_under_way += holds(&reports);
                    let reply = move |answer| Reply::Settled { reports, claim_no, answer };
                    self.call("settle", move |engine| engine.settle(settle), reply);
                }
            }
        }
    }

    pub(super) fn settle_answered(
        &mut self,
        reports: Vec<Report>,
        claim_no: Option<u64>,
        answer: Result<SettleReply>,
    ) {
        self.settles.calls -= 1;
        self.settles.under_way -= reports.len();
        self.settles.holds_under_way -= holds(&reports);
        match answer {
            Ok(reply) => {
                self.answered();
                self.settles.carry_claims = true;
                self.settles.batch_max = (self.settles.batch_max * 2).min(SETTLE_BATCH_MAX);
                let mut items = reply.items.into_iter();
                for report in reports {
                    let item = items.next().unwrap_or_else(|| Err(no_answer()));
                    self.judge_item(report, item);
                }
                if let Some(no) = claim_no {
                    let none = || Ok(Claimed::default());
                    self.claim_answered(no, reply.claimed.unwrap_or_else(none));
                }
            }
            Err(error) => self.settle_failed(reports, claim_no, &error),
        }
    }

    /// Handles the failure of a whole call. Usually the store is down and the call is repeated unchanged. If
    /// the store refuses the call, the batch is halved, down to the one report that causes the refusal.
    fn settle_failed(&mut self, mut reports: Vec<Report>, claim_no: Option<u64>, error: &Error) {
        let refused = matches!(
            error,
            Error::Invalid { .. } | Error::TooLarge { .. } | Error::Unsupported { .. }
        );
        match claim_no {
            Some(no) => self.claim_answered(no, Err(error.clone())),
            None => self.unanswered(error),
        }
        if refused && reports.len() == 1 && claim_no.is_none() {
            return reports.drain(..).for_each(|report| self.refused(report, error));
        }
        if refused {
            self.settles.carry_claims = false;
            self.settles.batch_max = (reports.len() / 2).max(1);
        }
        for report in reports.into_iter().rev() {
            self.settles.waiting.push_front(report);
        }
    }

    fn judge_item(&mut self, report: Report, item: Item<Settled>) {
        match item {
            Ok(_) => {
                let running = &report.running;
                let end = End::of(Some(&report.item.outcome));
                self.shared.counts.end(end);
                self.meters.settled(running.queue, running.kind, end);
                self.let_go(&report.running);
            }
            Err(Error::LeaseLost { .. } | Error::NotFound { .. }) => self.lose(&report.running),
            Err(error) if is_transient(&error) => {
                self.settles.waiting.push_back(report);
                self.unanswered(&error);
            }
            Err(error) => self.refused(report, &error),
        }
    }

    /// Replaces a report that the store permanently refuses by a failure that says so, once.
    fn refused(&mut self, report: Report, error: &Error) {
        let Report { running, item, substitute } = report;
        self.shared.counts.refused.fetch_add(1, Ordering::Relaxed);
        tracing::error!(parent: &running.span, %error, "the store refused the outcome of a job");
        if substitute {
            // Nothing can be reported for this job. Without a heartbeat for its lease, the job is reclaimed.
            return self.let_go(&running);
        }
        let end = End::of(Some(&item.outcome)).as_str();
        let message = format!("the attempt {end}, but the store refused to record that: {error}");
        let outcome = Outcome::fail(code::OUTCOME_REFUSED, message);
        let item = SettleItem::new(running.header.id, running.lease.clone(), outcome);
        self.settles.waiting.push_back(Report { running, item, substitute: true });
    }

    /// Whether the store has all outcomes.
    pub(super) fn is_flushed(&self) -> bool {
        debug_assert!(!matches!(self.phase, Phase::Working), "a working worker is never done");
        self.settles.waiting() == 0 && self.news.deferred() == 0 && !self.claims.any_open()
    }
}

/// Number of reports that stop starts.
pub(super) fn holds<'a>(reports: impl IntoIterator<Item = &'a Report>) -> usize {
    reports.into_iter().filter(|report| report.item.hold.is_some()).count()
}

fn no_answer() -> Error {
    crate::outage::unanswered("a settle reply has fewer results than jobs")
}
