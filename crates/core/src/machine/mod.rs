//! The state machine: `(state, event, facts) → (next, effects)`. It is the specification.
//!
//! The memory engine executes [`step`] directly; SQL and Lua are checked against its full table
//! ([`table`]) by the conformance kit. The function is pure: it knows no clock, no store and no
//! numbers; whoever calls it has turned those into [`Facts`].

mod effects;
mod event;
pub mod table;

pub use effects::{Effect, Effects};
pub use event::EventKind;

use crate::model::State;

/// What the machine must know besides state and event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The time the job is to run has come (the new time, where the event sets one).
    pub due: bool,
    /// It still waits for a dependency or a signal.
    pub waits: bool,
    /// Its ordering key is held by another job, or others stand in line before it.
    pub key_taken: bool,
    /// This failure or crash uses up the job's budget.
    pub spent: bool,
    /// Somebody asked to cancel it while it ran.
    pub cancel_requested: bool,
}

/// What happens: the next state (`None`: the job is gone) and what else must happen with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where the job stands afterwards.
    pub next: Option<State>,
    /// What goes with it, in the same atomic step.
    pub effects: Effects,
}

/// The event is not possible in this state; the text says what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

/// The one transition function. `from` is `None` for a job that does not exist yet.
///
/// ```
/// use windlass_core::machine::{Effect, EventKind, Facts, step};
/// use windlass_core::model::State;
///
/// let facts = Facts { spent: true, ..Facts::default() };
/// let step = step(Some(State::Running), EventKind::Retry, facts).unwrap();
/// assert_eq!(step.next, Some(State::Dead));
/// assert!(step.effects.has(Effect::FreeUnique));
/// ```
pub fn step(from: Option<State>, event: EventKind, facts: Facts) -> Result<Step, Refusal> {
    use EventKind as E;
    use State as S;
    let Some(from) = from else {
        return match event {
            E::Enqueue => Ok(moved(entry(facts), Effects::of(&[Effect::TakeUnique]))),
            _ => Err(Refusal("enqueue it first")),
        };
    };
    match (from, event) {
        (_, E::Enqueue) => Err(Refusal("it exists already: the same id is the same job")),

        // Waiting for its turn.
        (S::Scheduled, E::Due) if facts.due => Ok(moved(entry(facts), Effects::NONE)),
        (S::Scheduled, E::Due) => Err(Refusal("its time has not come")),
        (S::Blocked, E::Free | E::Signal) if entry(been_due(facts)) != S::Blocked => {
            Ok(moved(entry(been_due(facts)), Effects::NONE))
        }
        (S::Blocked, E::Free) => Ok(stay(from)),
        (S::Available, E::Claim) => Ok(moved(S::Running, Effects::CLAIM)),

        // A worker reports.
        (S::Running, report) if report.is_report() => Ok(reported(report, facts)),

        // Operators and limits.
        (S::Running, E::Cancel) => {
            Ok(Step { next: Some(S::Running), effects: Effects::of(&[Effect::RequestCancel]) })
        }
        (from, E::Cancel) if from.is_waiting() => Ok(ended(S::Cancelled, Effects::NONE)),
        (S::Cancelled, E::Cancel) => Ok(stay(from)),
        (S::Blocked | S::Available | S::Paused, E::Expire) => Ok(ended(S::Expired, Effects::NONE)),
        (S::Scheduled | S::Blocked | S::Available, E::Pause) => Ok(moved(S::Paused, Effects::NONE)),
        (S::Paused, E::Pause) => Ok(stay(from)),
        (S::Paused, E::Resume) => Ok(moved(entry(facts), Effects::NONE)),
        (S::Scheduled | S::Blocked | S::Available, E::Resume) => Ok(stay(from)),
        (S::Scheduled, E::Promote) => Ok(moved(entry(facts), Effects::NONE)),
        (S::Available, E::Promote) => Ok(stay(from)),
        (S::Blocked, E::Promote) => {
            Err(Refusal("what it waits for is not time: signal it, or finish the job before it"))
        }
        (S::Paused, E::Promote) => Err(Refusal("resume it first")),
        (S::Scheduled | S::Blocked | S::Available, E::Reschedule) => {
            Ok(moved(entry(facts), Effects::NONE))
        }
        (S::Paused, E::Reschedule | E::Reprioritise) => Ok(stay(from)),
        (S::Scheduled | S::Blocked, E::Reprioritise) => Ok(stay(from)),
        // Its place in line depends on the priority: it enters again, at the tail of the new rank.
        (S::Available, E::Reprioritise) => Ok(moved(S::Available, Effects::NONE)),
        (from, E::Signal) if !from.is_terminal() => {
            Ok(Step { next: Some(from), effects: Effects::of(&[Effect::KeepSignal]) })
        }

        // After the end.
        (S::Dead | S::Cancelled | S::Expired, E::Replay) => {
            Ok(moved(entry(facts), Effects::of(&[Effect::TakeUnique, Effect::ClearBudgets])))
        }
        (S::Completed, E::Replay) => Err(Refusal("it is done; enqueue a new job instead")),
        (from, E::Discard | E::Retain) if from.is_terminal() => {
            Ok(Step { next: None, effects: Effects::of(&[Effect::Emit]) })
        }

        (from, _) => Err(Refusal(advice(from, event))),
    }
}

/// Where a job goes that is to run: each stage is skipped when there is nothing to wait for.
const fn entry(facts: Facts) -> State {
    if !facts.due {
        State::Scheduled
    } else if facts.waits || facts.key_taken {
        State::Blocked
    } else {
        State::Available
    }
}

/// The facts of a job that waits for others: its time has come before. If the clock was set back since, it
/// must not go back to wait for its time, because others would overtake it in the line of its key.
const fn been_due(facts: Facts) -> Facts {
    Facts { due: true, ..facts }
}

/// How a running job ends its attempt, reported by its worker or by the loss of its lease.
fn reported(report: EventKind, facts: Facts) -> Step {
    use EventKind as E;
    let counted = match report {
        E::Complete | E::Wait => Effects::of(&[Effect::EndLease, Effect::ClearCrashes]),
        E::Retry | E::Fail => {
            Effects::of(&[Effect::EndLease, Effect::ClearCrashes, Effect::CountFailure])
        }
        E::Lose => Effects::of(&[Effect::EndLease, Effect::CountCrash]),
        _ => Effects::of(&[Effect::EndLease]),
    };
    match report {
        E::Complete => ended(State::Completed, counted),
        E::Fail => ended(State::Dead, counted),
        E::CancelSelf => ended(State::Cancelled, counted),
        // Whoever asked for the cancellation does not want it to come back.
        _ if facts.cancel_requested => ended(State::Cancelled, counted),
        E::Retry | E::Lose if facts.spent => ended(State::Dead, counted),
        _ => moved(entry(facts), counted),
    }
}

fn moved(next: State, also: Effects) -> Step {
    let effects = also.with(Effect::Emit);
    // The key is taken on entering ready and then held until the end, so taking it again is nothing.
    let takes_key = matches!(next, State::Available);
    Step {
        next: Some(next),
        effects: if takes_key { effects.with(Effect::TakeKey) } else { effects },
    }
}

fn ended(next: State, also: Effects) -> Step {
    Step { next: Some(next), effects: also.and(Effects::END) }
}

const fn stay(state: State) -> Step {
    Step { next: Some(state), effects: Effects::NONE }
}

/// What to do instead, where no closer answer was given.
const fn advice(from: State, event: EventKind) -> &'static str {
    use EventKind as E;
    match (from, event) {
        (State::Running, E::Discard) => "cancel it first",
        (State::Running, _) => "wait for its worker, or cancel it",
        (from, E::Cancel | E::Pause | E::Resume | E::Signal) if from.is_terminal() => {
            "it has ended already"
        }
        (from, E::Promote | E::Reschedule | E::Reprioritise) if from.is_terminal() => {
            "it has ended; replay it"
        }
        (_, E::Discard | E::Retain) => "cancel it first",
        (_, E::Replay) => "it has not ended; promote or reschedule it",
        _ => "it is not running under this lease",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: Facts =
        Facts { due: true, waits: false, key_taken: false, spent: false, cancel_requested: false };

    #[test]
    fn a_job_enters_at_the_first_stage_it_must_wait_in() {
        let enter = |facts| step(None, EventKind::Enqueue, facts).unwrap().next.unwrap();
        assert_eq!(enter(Facts { due: false, waits: true, ..DUE }), State::Scheduled);
        assert_eq!(enter(Facts { waits: true, ..DUE }), State::Blocked);
        assert_eq!(enter(Facts { key_taken: true, ..DUE }), State::Blocked);
        assert_eq!(enter(DUE), State::Available);
    }

    #[test]
    fn every_end_frees_the_unique_key_and_hands_over_the_ordering_key() {
        for row in table::rows() {
            let Ok(taken) = row.outcome else { continue };
            let ends = taken.next.is_some_and(State::is_terminal)
                && !row.from.is_some_and(State::is_terminal);
            for effect in [Effect::FreeUnique, Effect::HandOverKey, Effect::WakeParent] {
                assert_eq!(taken.effects.has(effect), ends, "{row:?}");
            }
        }
    }

    #[test]
    fn a_lease_is_issued_on_entering_running_and_ended_on_leaving_it() {
        for row in table::rows() {
            let Ok(taken) = row.outcome else { continue };
            let was = row.from == Some(State::Running);
            let is = taken.next == Some(State::Running);
            assert_eq!(taken.effects.has(Effect::IssueLease), is && !was, "{row:?}");
            assert_eq!(taken.effects.has(Effect::EndLease), was && !is, "{row:?}");
        }
    }

    #[test]
    fn a_job_that_waited_for_others_does_not_wait_for_its_time_again() {
        for due in [false, true] {
            let facts = Facts { due, ..Facts::default() };
            for event in [EventKind::Free, EventKind::Signal] {
                let taken = step(Some(State::Blocked), event, facts).unwrap();
                assert_eq!(taken.next, Some(State::Available), "{event:?}, due: {due}");
            }
        }
    }

    #[test]
    fn snooze_and_release_count_and_clear_nothing() {
        for event in [EventKind::Snooze, EventKind::Release] {
            let taken = step(Some(State::Running), event, DUE).unwrap();
            let counts = [Effect::CountFailure, Effect::CountCrash, Effect::ClearCrashes];
            assert!(counts.iter().all(|count| !taken.effects.has(*count)));
            assert_eq!(taken.next, Some(State::Available));
        }
    }

    #[test]
    fn a_requested_cancellation_ends_whatever_would_come_back() {
        let facts = Facts { cancel_requested: true, ..DUE };
        for event in [
            EventKind::Retry,
            EventKind::Snooze,
            EventKind::Release,
            EventKind::Wait,
            EventKind::Lose,
        ] {
            let taken = step(Some(State::Running), event, facts).unwrap();
            assert_eq!(taken.next, Some(State::Cancelled), "{event}");
        }
        let done = step(Some(State::Running), EventKind::Complete, facts).unwrap();
        assert_eq!(done.next, Some(State::Completed), "work that was done is done");
    }

    #[test]
    fn only_the_ended_can_be_replayed_or_discarded() {
        for state in State::ALL {
            let replay = step(Some(state), EventKind::Replay, DUE).is_ok();
            assert_eq!(replay, state.is_terminal() && state != State::Completed);
            assert_eq!(step(Some(state), EventKind::Discard, DUE).is_ok(), state.is_terminal());
        }
    }
}
