//! Checks jobs that run after others, or wait for their children: none is started before each of these could have ended.
//! A dependent that is never released is stuck at the end, which the rules for single jobs find.

use super::checker::{Options, story};
use super::facts::{Action, Fact, Facts, Joined, Outcome};
use super::record::{Effect, Wish};
use super::verdict::{Kind, Verdict};
use windlass_core::JobId;

/// Levels of dependencies that are examined for an end that led to others.
const DEPTH_MAX: u32 = 64;

/// Finds dependents that were started early.
pub(super) fn check_dependents(facts: &Facts<'_>, options: &Options, verdict: &mut Verdict) {
    for (id, of_job) in &facts.jobs {
        let after = facts.after(*id);
        if after.is_empty() {
            continue;
        }
        let first = of_job.iter().filter(|fact| matches!(fact.action, Action::Start(..)));
        let Some(first) = first.map(|fact| fact.span.to).min() else { continue };
        let early = after
            .iter()
            .find(|upstream| !may_have_ended(**upstream, first, DEPTH_MAX, facts, options));
        if let Some(upstream) = early {
            let what =
                || format!("job {id} was started before job {upstream}, which it runs after");
            verdict.blame(Kind::EarlyStart, &[*id, *upstream], what, || {
                story(facts, &[*id, *upstream])
            });
        }
    }
    for joined in &facts.joined {
        let Joined { child, waiting, .. } = *joined;
        let Some(next) = next_start(joined, facts) else { continue };
        if !may_have_ended(child, next, DEPTH_MAX, facts, options) {
            let what = || format!("job {waiting} was started before job {child}, which joined it");
            verdict.blame(Kind::EarlyStart, &[waiting, child], what, || {
                story(facts, &[waiting, child])
            });
        }
    }
}

/// When a job that others joined was certainly started again: for one that waits for its own children, the first start
/// after the attempt that created them; for another job, its first start. `None` if it may have been replayed, because
/// a replay waits for fewer jobs.
fn next_start(joined: &Joined<'_>, facts: &Facts<'_>) -> Option<u64> {
    let of_job = facts.jobs.get(&joined.waiting)?;
    let replayed = |fact: &Fact<'_>| match fact.action {
        Action::Change(Wish::Replay, effect) => effect != Effect::Refused,
        _ => false,
    };
    if of_job.iter().any(replayed) {
        return None;
    }
    let starts = || {
        of_job.iter().filter_map(|fact| match fact.action {
            Action::Start(start, _) => Some((start, fact.span.to)),
            _ => None,
        })
    };
    let attempt = match joined.waiting == joined.report.id {
        true => starts().find(|(start, _)| start.lease == joined.report.lease)?.0.attempt,
        false => 0,
    };
    starts().filter(|(start, _)| start.attempt > attempt).map(|(_, at)| at).min()
}

/// Whether a job may have ended at this time: a call that may have ended it was made before, or it may have lost its
/// leases, expired, or ended because of a job that it runs after.
fn may_have_ended(id: JobId, at: u64, depth: u32, facts: &Facts<'_>, options: &Options) -> bool {
    let of_job = facts.jobs.get(&id).map(Vec::as_slice).unwrap_or_default();
    let made = || of_job.iter().filter(|fact| fact.span.from <= at);
    // A claim without a reply may have started it, too.
    let starts = made().filter(|fact| matches!(fact.action, Action::Start(..))).count();
    let starts = starts + facts.unclear_claims.len();
    let crashes_max = of_job.iter().find_map(|fact| match fact.action {
        Action::Enqueue(wanted, _) => Some(wanted.crashes_max as usize),
        _ => None,
    });
    options.expiry
        || depth == 0
        || facts.unclear_replacement
        || made().any(may_end)
        || crashes_max.is_none_or(|most| starts > most)
        || facts
            .after(id)
            .iter()
            .any(|upstream| may_have_ended(*upstream, at, depth - 1, facts, options))
}

/// Whether the call may have ended the job.
fn may_end(fact: &Fact<'_>) -> bool {
    match fact.action {
        Action::Report(_, Outcome::Applied(state) | Outcome::Already(_, state)) => {
            state.is_terminal()
        }
        Action::Report(_, Outcome::Unclear) | Action::Change(..) | Action::Replaced(_) => true,
        Action::StandIn(state) => state.is_none_or(windlass_core::model::State::is_terminal),
        Action::Report(_, Outcome::Refused)
        | Action::Enqueue(..)
        | Action::Start(..)
        | Action::Update(..) => false,
    }
}
