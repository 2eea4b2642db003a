//! Checks single jobs: all observations of a job must fit into one life.
//!
//! Only calls that do not overlap are ordered; overlapping ones may have taken effect in either order, and a
//! call without a reply at any time after its invocation, or not at all. So every rule asks: is there *no*
//! order of the calls in which this is correct?

use super::dependents::check_dependents;
use super::facts::{Action, Fact, Facts, Outcome, Span, gather};
use super::keys::{Turn, check_keys};
use super::life::{Life, Term};
use super::limits::{CheckedLimit, check_limit};
use super::record::History;
use super::snapshot::Snapshot;
use super::verdict::{Kind, Verdict};
use std::collections::HashMap;
use windlass_core::JobId;
use windlass_core::model::State;

/// Maximum number of calls in a report: the first and the last of them.
const STORY_LINES_MAX: usize = 60;

/// What was allowed to happen in the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Ended jobs may have been removed by their retention before the snapshot.
    pub retention: bool,
    /// Jobs may have expired: some had a `max_wait`.
    pub expiry: bool,
    /// The store itself crashed and may have lost its last claims: attempts can repeat.
    pub claims_forgotten: bool,
    /// The limits that jobs had to keep to.
    pub limits: Vec<CheckedLimit>,
}

impl Options {
    /// Nothing out of the ordinary.
    pub const fn new() -> Self {
        Self { retention: false, expiry: false, claims_forgotten: false, limits: Vec::new() }
    }

    /// Allows that retention removed ended jobs.
    #[must_use]
    pub const fn retention(mut self) -> Self {
        self.retention = true;
        self
    }

    /// Allows that jobs expired.
    #[must_use]
    pub const fn expiry(mut self) -> Self {
        self.expiry = true;
        self
    }

    /// Demands that jobs kept to this limit.
    #[must_use]
    pub fn limit(mut self, limit: CheckedLimit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Allows that the store lost claims.
    #[must_use]
    pub const fn claims_forgotten(mut self) -> Self {
        self.claims_forgotten = true;
        self
    }
}

/// Checks what the clients observed, given the final states of the jobs.
pub fn check(history: &History, end: &Snapshot, options: &Options) -> Verdict {
    let mut verdict = Verdict::default();
    let facts = gather(history, &mut verdict);
    let mut ids: Vec<JobId> = facts.jobs.keys().chain(end.jobs.keys()).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let mut turns: HashMap<&str, Vec<Turn>> = HashMap::new();
    for id in ids {
        let of_job = facts.jobs.get(&id).map(Vec::as_slice).unwrap_or_default();
        let last = end.jobs.get(&id).copied();
        let life = Life::read(id, of_job, last, options);
        let mut checker = JobChecker { life: &life, facts: &facts, options, verdict: &mut verdict };
        checker.count();
        if checker.exists_for_a_reason() {
            checker.is_there();
            checker.ended_once_and_rightly();
            checker.leases_were_exclusive();
            if let Some((key, turn)) = life.turn(&facts) {
                turns.entry(key).or_default().push(turn);
            }
        }
    }
    check_keys(turns, &facts, &mut verdict);
    check_dependents(&facts, options, &mut verdict);
    for limit in &options.limits {
        check_limit(limit, &facts, options, &mut verdict);
    }
    verdict.violations.sort_by_key(|violation| violation.kind);
    verdict
}

/// All observations of some jobs, for people.
pub(super) fn story(facts: &Facts<'_>, jobs: &[JobId]) -> Vec<String> {
    let mut all: Vec<&Fact<'_>> =
        jobs.iter().filter_map(|id| facts.jobs.get(id)).flatten().collect();
    all.sort_by_key(|fact| (fact.span.from, fact.span.to));
    let half = STORY_LINES_MAX / 2;
    let mut lines: Vec<String> = all.iter().take(half).map(ToString::to_string).collect();
    if all.len() > STORY_LINES_MAX {
        lines.push(format!("… {} more …", all.len() - STORY_LINES_MAX));
    }
    let tail = all.iter().skip(half).rev().take(half).rev();
    lines.extend(tail.map(ToString::to_string));
    lines
}

/// Checks one job.
struct JobChecker<'j, 'a> {
    life: &'j Life<'a>,
    facts: &'j Facts<'a>,
    options: &'j Options,
    verdict: &'j mut Verdict,
}

impl JobChecker<'_, '_> {
    fn blame(&mut self, kind: Kind, what: impl FnOnce() -> String) {
        let (id, facts) = (self.life.id, self.facts);
        self.verdict.blame(kind, &[id], what, || story(facts, &[id]));
    }

    fn count(&mut self) {
        let counts = &mut self.verdict.counts;
        counts.acknowledged += u64::from(self.life.acknowledged.is_some());
        match self.life.last {
            Some(State::Completed) => counts.completed += 1,
            Some(State::Dead) => counts.dead += 1,
            Some(State::Cancelled) => counts.cancelled += 1,
            Some(State::Expired) => counts.expired += 1,
            _ => {}
        }
        let starts = self.life.terms.iter().filter(|term| term.attempt.is_some()).count() as u64;
        counts.starts += starts;
        counts.duplicates += u64::from(starts > 1);
    }

    /// The job was enqueued, and before it was first claimed.
    fn exists_for_a_reason(&mut self) -> bool {
        let (id, wanted_from) = (self.life.id, self.life.wanted_from);
        let first = self.life.terms.iter().map(|term| term.first).min();
        let seen = self.life.last.is_some() || first.is_some() || self.life.acknowledged.is_some();
        let Some(wanted_from) = wanted_from else {
            if seen {
                self.blame(Kind::Phantom, || format!("job {id} exists, but was never enqueued"));
            }
            return false;
        };
        if first.is_some_and(|first| first < wanted_from) {
            self.blame(Kind::Phantom, || format!("job {id} was started before it was enqueued"));
            return false;
        }
        true
    }

    /// The job exists if it was acknowledged, and has ended.
    fn is_there(&mut self) {
        let life = self.life;
        let id = life.id;
        match life.last {
            Some(state) if !state.is_terminal() => {
                self.blame(Kind::Stuck, || format!("job {id} is {state} at the end"));
            }
            Some(_) => {}
            None if life.acknowledged.is_none() && life.ends.is_empty() => {}
            None => {
                let may_have_ended = self.options.expiry || life.may_have_ended(self.facts);
                if may_have_ended && (self.options.retention || life.may_be_discarded()) {
                    self.verdict.counts.removed += 1;
                } else {
                    self.blame(Kind::Lost, || format!("job {id} was acknowledged and is gone"));
                }
            }
        }
    }

    /// The job ended at most once per life, in a state that a call asked for, and permanently.
    fn ended_once_and_rightly(&mut self) {
        let life = self.life;
        let id = life.id;
        let unearned = match life.last {
            Some(State::Completed) => life.asked_for(State::Completed).is_none(),
            Some(State::Cancelled) => {
                life.asked_for(State::Cancelled).is_none()
                    && !self.facts.unclear_replacement
                    && !self.facts.is_dependent(id)
            }
            Some(State::Expired) => !self.options.expiry,
            _ => false,
        };
        if let Some(state) = life.last.filter(|_| unearned) {
            self.blame(Kind::Unearned, || {
                format!("job {id} is {state}, but no call asked for that")
            });
        }
        let undone = life.ends.iter().find(|(reported, state)| {
            life.last.is_some_and(|last| last != *state)
                && !life.replayed_between(*reported, Span::END)
        });
        if let (Some((_, state)), Some(last)) = (undone, life.last) {
            self.blame(Kind::Undone, || {
                format!("job {id} was said to be {state} and is {last} at the end")
            });
        }
        if let Some((wanted, state)) = life.wrongly_discarded() {
            self.blame(Kind::Undone, || {
                format!("job {id} was said to be {state} and was discarded as {wanted}")
            });
        }
        let mut applied = life.facts.iter().filter(|fact| {
            matches!(fact.action, Action::Report(_, Outcome::Applied(state)) if state.is_terminal())
        });
        if let Some(mut earlier) = applied.next() {
            for later in applied {
                // If they overlap, the one invoked later may have taken effect first.
                let (one, two) = (earlier.span, later.span);
                if !life.replayed_between(one, two) && !life.replayed_between(two, one) {
                    self.blame(Kind::SettledTwice, || format!("job {id} was ended twice"));
                    break;
                }
                earlier = later;
            }
        }
        let revived = life.facts.iter().any(|fact| {
            matches!(fact.action, Action::Start(..))
                && life.ends.iter().any(|(reported, _)| {
                    reported.before(fact.span) && !life.replayed_between(*reported, fact.span)
                })
        });
        if revived {
            self.blame(Kind::Revived, || format!("job {id} was started after it had ended"));
        }
    }

    /// Each lease has one contiguous period, was given to one claim, and ends with its report; and the
    /// periods of two leases do not overlap.
    fn leases_were_exclusive(&mut self) {
        let life = self.life;
        let id = life.id;
        for term in &life.terms {
            let lease = term.lease;
            if term.attempt.is_none() {
                self.blame(Kind::StaleLease, || {
                    format!("job {id}: {lease:?} was accepted, but no claim ever returned it")
                });
            }
            if term.claims.len() > 1 {
                self.blame(Kind::DoubleStart, || {
                    format!("job {id}: {lease:?} was given to two claims")
                });
            }
            if term.applied.len() > 1 {
                self.blame(Kind::SettledTwice, || {
                    format!("job {id}: two reports under {lease:?} were applied")
                });
            } else if term.applied.iter().any(|applied| applied.to < term.last) {
                self.blame(Kind::StaleLease, || {
                    format!("job {id}: {lease:?} was accepted after it had been settled")
                });
            }
        }
        let mut order: Vec<&Term<'_>> =
            life.terms.iter().filter(|term| term.attempt.is_some()).collect();
        // If one of two leases must have been first, its sum is smaller: it was first seen and last seen
        // before the other could be. Attempt numbers are more precise if none was lost and the job was
        // created once.
        let place = |term: &Term<'_>| u128::from(term.first) + u128::from(term.last);
        let counted = !self.options.claims_forgotten && !life.reborn;
        order.sort_by_key(|term| (term.attempt.filter(|_| counted), place(term)));
        if let Some(pair) =
            order.windows(2).find(|pair| counted && pair[0].attempt == pair[1].attempt)
        {
            let (attempt, one, two) = (pair[0].attempt, pair[0].lease, pair[1].lease);
            self.blame(Kind::DoubleStart, || {
                let attempt = attempt.unwrap_or_default();
                format!("job {id}: attempt {attempt} was given away as {one:?} and as {two:?}")
            });
        }
        let mut latest: Option<&Term<'_>> = None;
        for term in order {
            if let Some(stale) = latest.filter(|latest| latest.last > term.first) {
                let (old, new) = (stale.lease, term.lease);
                self.blame(Kind::StaleLease, || {
                    format!("job {id}: {old:?} was accepted after a claim had returned {new:?}")
                });
                break;
            }
            if latest.is_none_or(|latest| latest.last < term.last) {
                latest = Some(term);
            }
        }
    }
}
