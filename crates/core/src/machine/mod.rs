//! The state machine: `(state, event, facts) → (next, effects)`. It is the specification.
//!
//! The executor carries out [`step`] directly; SQL and Lua are checked against its full table ([`table`]) by the
//! conformance kit. The function is pure: it knows no clock, no store and no numbers; the caller turns those into
//! [`Facts`].

// tidy: long because the transitions are one table, and their tests stand beside it.

mod effects;
mod event;
pub mod table;

pub use effects::{Effect, Effects};
pub use event::EventKind;

use crate::model::State;

/// The facts about a job that decide a transition, besides its state and the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The time at which the job may run has passed (the new time, where the event sets one).
    pub due: bool,
    /// The job waits for a signal.
    pub waits: bool,
    /// The wait, or the one that the event begins, has a time limit. The job is due when it is over.
    pub timed: bool,
    /// The wait takes the signal that the event delivers; or the wait that the event begins takes one that arrived before.
    pub signalled: bool,
    /// The job depends on a job that has not ended.
    pub depends: bool,
    /// The ordering key is held by another job, or other jobs are ahead in line for it.
    pub key_taken: bool,
    /// A limit by group has no room for the job, or other jobs of its group are ahead in line. Of a job that waits for
    /// nothing else.
    pub limited: bool,
    /// This failure or crash uses up the job's budget.
    pub spent: bool,
    /// A cancellation was requested while the job ran.
    pub cancel_requested: bool,
    /// Other jobs depend on the job and have not learned how it ended.
    pub followed: bool,
    /// The event moves the job to another queue. `key_taken` and `limited` are then about that queue.
    pub moves: bool,
}

/// The outcome of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state afterwards; `None`: the job is removed.
    pub next: Option<State>,
    /// The writes that are committed with it, in the same atomic step.
    pub effects: Effects,
}

/// The event is not possible in this state; the text says what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

/// The one transition function. `from` is `None` for a job that does not exist yet; for [`EventKind::Import`], it is the
/// state in the store that the job comes from.
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
            E::Enqueue => Ok(enter(None, facts, Effects::of(&[Effect::TakeUnique]))),
            _ => Err(Refusal("enqueue it first")),
        };
    };
    match (from, event) {
        (from, E::Import) => Ok(imported(from, facts)),
        (_, E::Enqueue) => Err(Refusal("it exists already: the same id is the same job")),

        // Waiting.
        (S::Scheduled, E::Due) if facts.due => Ok(enter(Some(from), facts, Effects::NONE)),
        (S::Scheduled, E::Due) => Err(Refusal("its time has not come")),
        (S::Blocked, E::Free) => Ok(unblocked(facts, Effects::NONE)),
        (S::Available, E::Defer) => {
            Ok(moved(Some(from), S::Blocked, Effects::of(&[Effect::JoinLine])))
        }
        (S::Available, E::Claim) => {
            Ok(moved(Some(from), S::Running, Effects::of(&[Effect::IssueLease])))
        }

        // A worker reports.
        (S::Running, report) if report.is_report() => Ok(reported(report, facts)),

        // Operators and limits.
        (S::Running, E::Cancel) => {
            Ok(Step { effects: Effects::of(&[Effect::RequestCancel]), ..stay(from) })
        }
        (from, E::Cancel) if from.is_waiting() => Ok(ended(S::Cancelled, Effects::NONE)),
        (S::Cancelled, E::Cancel) => Ok(stay(from)),
        (S::Blocked | S::Available | S::Paused, E::Expire) => Ok(ended(S::Expired, Effects::NONE)),
        (S::Scheduled | S::Blocked | S::Available, E::Pause) => {
            Ok(moved(Some(from), S::Paused, Effects::NONE))
        }
        (S::Paused, E::Pause) => Ok(stay(from)),
        (S::Paused, E::Resume) => Ok(enter(Some(from), facts, Effects::NONE)),
        (S::Scheduled | S::Blocked | S::Available, E::Resume) => Ok(stay(from)),
        (S::Scheduled, E::Promote) => Ok(enter(Some(from), facts, Effects::NONE)),
        (S::Available, E::Promote) => Ok(stay(from)),
        (S::Blocked, E::Promote) => Err(Refusal(
            "what it waits for is not time: signal it, finish the jobs before it, or raise its limit",
        )),
        (S::Paused, E::Promote) => Err(Refusal("resume it first")),
        (S::Scheduled | S::Blocked | S::Available, E::Reschedule) => {
            Ok(enter(Some(from), facts, Effects::NONE))
        }
        (S::Paused, E::Reschedule | E::Reprioritise) => Ok(stay(from)),
        (S::Scheduled | S::Blocked, E::Reprioritise) => Ok(stay(from)),
        // The order of ready jobs depends on the priority: the job enters again, behind its equals.
        (S::Available, E::Reprioritise) => Ok(moved(Some(from), S::Available, Effects::NONE)),
        (from, E::Move) if from.is_waiting() => Ok(relocated(from, facts)),
        (from, E::Kill) if from.is_waiting() => Ok(ended(S::Dead, Effects::NONE)),
        (S::Dead, E::Kill) => Ok(stay(from)),
        (from, E::Signal) if !from.is_terminal() => Ok(signalled(from, facts)),
        (from, E::Join) if from.is_waiting() && facts.depends => Ok(stay(from)),
        (_, E::Join) => Err(Refusal(
            "it does not wait for other jobs any more: let a job that it still waits for add them",
        )),

        // After the end.
        (S::Dead | S::Cancelled | S::Expired, E::Replay) => {
            let effects = Effects::of(&[Effect::StartOver, Effect::TakeUnique]);
            Ok(enter(Some(from), facts, effects.and(change_of_queue(facts))))
        }
        (S::Completed, E::Replay) => Err(Refusal("it is done; enqueue a new job instead")),
        (from, E::Discard | E::Retain) if from.is_terminal() && facts.followed => Err(Refusal(
            "jobs that depend on it are still learning how it ended: try again in a moment",
        )),
        (from, E::Discard | E::Retain) if from.is_terminal() => {
            Ok(Step { next: None, effects: Effects::of(&[Effect::FreeUnique]) })
        }

        (from, _) => Err(Refusal(advice(from, event))),
    }
}

/// The first state in which a job that is to run must wait; each is skipped if there is nothing to wait for.
const fn entry(facts: Facts) -> State {
    if !facts.due {
        State::Scheduled
    } else if facts.waits || facts.depends || facts.key_taken || facts.limited {
        State::Blocked
    } else {
        State::Available
    }
}

/// The effects of waiting for a limit only: the job holds its ordering key and is in the line of its group.
const fn line(facts: Facts) -> Effects {
    if facts.due && !facts.waits && !facts.depends && !facts.key_taken && facts.limited {
        Effects::of(&[Effect::TakeKey, Effect::JoinLine])
    } else {
        Effects::NONE
    }
}

/// A blocked job becomes ready if nothing blocks it any more.
///
/// Its time has passed before. If the clock was set back since, the job must not return to scheduled, because
/// other jobs would overtake it in the line of its key.
fn unblocked(facts: Facts, also: Effects) -> Step {
    let facts = Facts { due: true, ..facts };
    match entry(facts) {
        State::Blocked => Step { effects: also.and(line(facts)), ..stay(State::Blocked) },
        next => moved(Some(State::Blocked), next, also),
    }
}

/// A job of another store arrives in its state. A running job lost its worker with its store: it can run again at once,
/// unless its cancellation was requested.
fn imported(from: State, facts: Facts) -> Step {
    let timed_out = facts.waits && facts.timed && facts.due && from == State::Scheduled;
    let facts = Facts { waits: facts.waits && !timed_out, ..facts };
    let ended_wait = if timed_out { Effects::of(&[Effect::EndWait]) } else { Effects::NONE };
    let due = Facts { due: true, ..facts };
    let (next, line) = match from {
        State::Running if facts.cancel_requested => {
            return ended(State::Cancelled, Effects::of(&[Effect::TakeUnique]));
        }
        State::Scheduled => (entry(facts), line(facts)),
        State::Blocked | State::Available | State::Running => (entry(due), line(due)),
        State::Paused | State::Completed | State::Dead | State::Cancelled | State::Expired => {
            (from, Effects::NONE)
        }
    };
    let arrives = Effects::of(&[Effect::TakeUnique, Effect::Arrive]).and(ended_wait);
    Step { next: Some(next), effects: arrives.and(line).and(ready(next == State::Available)) }
}

/// The effects of becoming ready. The ordering key is acquired then and held until the end.
const fn ready(becomes_ready: bool) -> Effects {
    if becomes_ready { Effects::of(&[Effect::TakeKey, Effect::Emit]) } else { Effects::NONE }
}

/// The effect of a move to another queue, if the event is one.
const fn change_of_queue(facts: Facts) -> Effects {
    if facts.moves { Effects::of(&[Effect::ChangeQueue]) } else { Effects::NONE }
}

/// A waiting job enters another queue at its tail. A paused one stays paused; one that was due does not wait for its
/// time again (see [`unblocked`]).
fn relocated(from: State, facts: Facts) -> Step {
    let effects = change_of_queue(facts);
    match from {
        _ if !facts.moves => stay(from),
        State::Paused => moved(Some(from), State::Paused, effects),
        State::Scheduled => enter(Some(from), facts, effects),
        _ => enter(Some(from), Facts { due: true, ..facts }, effects),
    }
}

/// A signal ends the wait of a job that waits for it, whichever state the job is in, or is kept for a later wait.
fn signalled(from: State, facts: Facts) -> Step {
    if !(facts.waits && facts.signalled) {
        return Step { effects: Effects::of(&[Effect::KeepSignal]), ..stay(from) };
    }
    let effects = Effects::of(&[Effect::EndWait]);
    let woken = Facts { waits: false, ..facts };
    match from {
        State::Blocked => unblocked(woken, effects),
        // It was scheduled for the end of the wait only.
        State::Scheduled if facts.timed => enter(Some(from), Facts { due: true, ..woken }, effects),
        _ => Step { effects, ..stay(from) },
    }
}

/// The end of an attempt, reported by the worker or by the loss of the lease.
fn reported(report: EventKind, facts: Facts) -> Step {
    use EventKind as E;
    let counted = match report {
        E::Complete | E::Wait | E::WaitForJobs => {
            Effects::of(&[Effect::EndLease, Effect::ClearCrashes])
        }
        E::Retry | E::Fail => {
            Effects::of(&[Effect::EndLease, Effect::ClearCrashes, Effect::CountFailure])
        }
        E::Lose => Effects::of(&[Effect::EndLease, Effect::CountCrash]),
        _ => Effects::of(&[Effect::EndLease]),
    };
    let running = Some(State::Running);
    let again = counted.and(change_of_queue(facts));
    match report {
        E::Complete => ended(State::Completed, counted),
        E::Fail => ended(State::Dead, counted),
        E::CancelSelf => ended(State::Cancelled, counted),
        // A job whose cancellation was requested must not run again.
        _ if facts.cancel_requested => ended(State::Cancelled, counted),
        E::Retry | E::Lose if facts.spent => ended(State::Dead, counted),
        E::Wait if facts.signalled => {
            // It goes on at once: the time limit is not needed.
            let facts = Facts { due: true, ..facts };
            enter(running, Facts { waits: false, ..facts }, again.with(Effect::UseSignal))
        }
        E::Wait => enter(running, Facts { waits: true, ..facts }, again.with(Effect::BeginWait)),
        // A lost lease reports nothing.
        E::Lose => enter(running, facts, counted),
        _ => enter(running, facts, again),
    }
}

/// Moves a job that is to run to its [`entry`]. If it waits for a limited time, that is over when it is due.
fn enter(from: Option<State>, facts: Facts, also: Effects) -> Step {
    if facts.waits && facts.timed && facts.due {
        let woken = Facts { waits: false, ..facts };
        return enter(from, woken, also.with(Effect::EndWait));
    }
    moved(from, entry(facts), also.and(line(facts)))
}

fn moved(from: Option<State>, next: State, also: Effects) -> Step {
    let is_new_there = from != Some(State::Available) || also.has(Effect::ChangeQueue);
    let becomes_ready = next == State::Available && is_new_there;
    Step { next: Some(next), effects: also.and(ready(becomes_ready)).with(Effect::Moved) }
}

fn ended(next: State, also: Effects) -> Step {
    Step { next: Some(next), effects: also.and(Effects::END) }
}

const fn stay(state: State) -> Step {
    Step { next: Some(state), effects: Effects::NONE }
}

/// What to do instead, where `step` gives no more specific advice.
const fn advice(from: State, event: EventKind) -> &'static str {
    use EventKind as E;
    match (from, event) {
        (State::Running, E::Discard) => "cancel it first",
        (State::Running, E::Kill) => "cancel it",
        (State::Running, E::Move) => "let its worker report with a `queue`, or cancel it",
        (State::Running, _) => "wait for its worker, or cancel it",
        (from, E::Cancel | E::Kill | E::Pause | E::Resume | E::Signal) if from.is_terminal() => {
            "it has ended already"
        }
        (from, E::Move) if from.is_terminal() => "it has ended; replay it with another `queue`",
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

    const DUE: Facts = Facts {
        due: true,
        waits: false,
        timed: false,
        signalled: false,
        depends: false,
        key_taken: false,
        limited: false,
        spent: false,
        cancel_requested: false,
        followed: false,
        moves: false,
    };

    #[test]
    fn a_job_enters_at_the_first_stage_it_must_wait_in() {
        let enter = |facts| step(None, EventKind::Enqueue, facts).unwrap().next.unwrap();
        assert_eq!(enter(Facts { due: false, waits: true, ..DUE }), State::Scheduled);
        assert_eq!(enter(Facts { due: false, depends: true, ..DUE }), State::Scheduled);
        assert_eq!(enter(Facts { waits: true, ..DUE }), State::Blocked);
        assert_eq!(enter(Facts { depends: true, ..DUE }), State::Blocked);
        assert_eq!(enter(Facts { key_taken: true, ..DUE }), State::Blocked);
        assert_eq!(enter(Facts { limited: true, ..DUE }), State::Blocked);
        assert_eq!(enter(DUE), State::Available);
    }

    #[test]
    fn every_end_is_recorded_releases_both_keys_and_resolves_dependents() {
        for row in table::rows() {
            let Ok(done) = row.outcome else { continue };
            let ends = done.next.is_some_and(State::is_terminal)
                && !row.from.is_some_and(State::is_terminal);
            for effect in [Effect::Finish, Effect::HandOverKey, Effect::Resolve] {
                assert_eq!(done.effects.has(effect), ends, "{row:?}");
            }
            // A unique key that is held until the job is removed is freed then.
            let frees = ends || done.next.is_none();
            assert_eq!(done.effects.has(Effect::FreeUnique), frees, "{row:?}");
        }
    }

    #[test]
    fn a_lease_is_issued_on_entering_running_and_ended_on_leaving_it() {
        for row in table::rows() {
            let Ok(done) = row.outcome else { continue };
            // An imported job runs in another store.
            let was = row.from == Some(State::Running) && row.event != EventKind::Import;
            let is = done.next == Some(State::Running);
            assert_eq!(done.effects.has(Effect::IssueLease), is && !was, "{row:?}");
            assert_eq!(done.effects.has(Effect::EndLease), was && !is, "{row:?}");
        }
    }

    #[test]
    fn every_effect_is_in_the_table() {
        for effect in Effect::ALL {
            let has = |row: table::Row| row.outcome.is_ok_and(|done| done.effects.has(effect));
            assert!(table::rows().any(has), "{effect:?}");
        }
    }

    #[test]
    fn a_job_that_changes_its_state_moves() {
        for row in table::rows() {
            let Ok(done) = row.outcome else { continue };
            let changes = done.next.is_some() && done.next != row.from;
            let enters = done.effects.has(Effect::Moved) || done.effects.has(Effect::Arrive);
            assert!(!changes || enters, "{row:?}");
            assert!(!(done.effects.has(Effect::Moved) && done.effects.has(Effect::Arrive)));
            if done.next.is_none() {
                let frees = Effects::of(&[Effect::FreeUnique]);
                assert_eq!(done.effects, frees, "a removed job is nowhere: {row:?}");
            }
        }
    }

    #[test]
    fn listeners_are_notified_of_jobs_that_become_ready_only() {
        for row in table::rows() {
            let Ok(done) = row.outcome else { continue };
            let ready = Some(State::Available);
            let is_new_there = row.from != ready
                || done.effects.has(Effect::ChangeQueue)
                || row.event == EventKind::Import;
            let becomes_ready = done.next == ready && is_new_there;
            assert_eq!(done.effects.has(Effect::Emit), becomes_ready, "{row:?}");
            let joins = done.effects.has(Effect::JoinLine) && row.event != EventKind::Defer;
            assert_eq!(done.effects.has(Effect::TakeKey), becomes_ready || joins, "{row:?}");
        }
        let moved = step(Some(State::Available), EventKind::Reprioritise, DUE).unwrap();
        assert_eq!(moved.effects, Effects::of(&[Effect::Moved]), "it was ready before");
    }

    #[test]
    fn only_jobs_that_run_again_change_their_queue() {
        for row in table::rows() {
            let Ok(done) = row.outcome else { continue };
            let changes = done.effects.has(Effect::ChangeQueue);
            let runs_again = done.next.is_some_and(|next| !next.is_terminal());
            assert!(!changes || (row.facts.moves && runs_again), "{row:?}");
            if row.event == EventKind::Move {
                assert_eq!(changes, row.facts.moves, "{row:?}");
                let effects = if changes { done.effects } else { Effects::of(&[Effect::Moved]) };
                assert!(effects.has(Effect::Moved), "it enters at the tail: {row:?}");
            }
        }
        let held = Facts { moves: true, key_taken: true, ..DUE };
        let done = step(Some(State::Available), EventKind::Move, held).unwrap();
        assert_eq!(done.next, Some(State::Blocked), "the key is taken in the other queue");
        let done = step(Some(State::Paused), EventKind::Move, held).unwrap();
        assert_eq!(done.next, Some(State::Paused));
        let later = Facts { moves: true, due: false, ..DUE };
        for from in [State::Available, State::Blocked] {
            let done = step(Some(from), EventKind::Move, later).unwrap();
            assert_eq!(done.next, Some(State::Available), "it was due before");
        }
    }

    #[test]
    fn a_waiting_job_can_be_killed_and_a_running_one_cannot() {
        for state in State::ALL {
            let done = step(Some(state), EventKind::Kill, DUE);
            let dies = state.is_waiting() || state == State::Dead;
            assert_eq!(done.is_ok_and(|done| done.next == Some(State::Dead)), dies, "{state}");
        }
        let refused = step(Some(State::Running), EventKind::Kill, DUE).unwrap_err();
        assert_eq!(refused, Refusal("cancel it"));
    }

    #[test]
    fn a_signal_ends_the_wait_that_takes_it_or_is_kept_for_a_later_one() {
        for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
            for (waits, signalled) in [(false, false), (false, true), (true, false), (true, true)] {
                let facts = Facts { waits, signalled, ..DUE };
                let done = step(Some(state), EventKind::Signal, facts).unwrap();
                let ends = waits && signalled;
                assert_eq!(done.effects.has(Effect::EndWait), ends, "{state}");
                assert_eq!(done.effects.has(Effect::KeepSignal), !ends, "{state}");
            }
        }
        let wait = |signalled| {
            step(Some(State::Running), EventKind::Wait, Facts { signalled, ..DUE }).unwrap()
        };
        assert_eq!(wait(false).next, Some(State::Blocked));
        assert!(wait(false).effects.has(Effect::BeginWait));
        assert_eq!(wait(true).next, Some(State::Available));
        assert!(wait(true).effects.has(Effect::UseSignal));
    }

    #[test]
    fn a_wait_with_a_time_limit_ends_by_its_signal_or_when_the_job_is_due() {
        let timed = Facts { timed: true, ..Facts::default() };
        let done = step(Some(State::Running), EventKind::Wait, timed).unwrap();
        assert_eq!(done.next, Some(State::Scheduled));
        assert!(done.effects.has(Effect::BeginWait) && !done.effects.has(Effect::EndWait));
        let waits = Facts { waits: true, ..timed };
        let done =
            step(Some(State::Scheduled), EventKind::Signal, Facts { signalled: true, ..waits });
        let done = done.unwrap();
        assert_eq!(done.next, Some(State::Available));
        assert!(done.effects.has(Effect::EndWait));
        for (from, event) in [
            (State::Scheduled, EventKind::Due),
            (State::Scheduled, EventKind::Promote),
            (State::Scheduled, EventKind::Import),
            (State::Paused, EventKind::Resume),
        ] {
            let done = step(Some(from), event, Facts { due: true, ..waits }).unwrap();
            assert_eq!(done.next, Some(State::Available), "{event:?}");
            assert!(done.effects.has(Effect::EndWait), "{event:?}");
        }
        let over = Facts { due: true, ..timed };
        let done = step(Some(State::Running), EventKind::Wait, over).unwrap();
        assert_eq!(done.next, Some(State::Available), "no time at all");
        assert!(done.effects.has(Effect::BeginWait) && done.effects.has(Effect::EndWait));
    }

    #[test]
    fn a_job_that_waited_for_others_does_not_wait_for_its_time_again() {
        for due in [false, true] {
            let facts = Facts { due, waits: false, signalled: true, ..Facts::default() };
            for (event, waits) in [(EventKind::Free, false), (EventKind::Signal, true)] {
                let facts = Facts { waits, ..facts };
                let done = step(Some(State::Blocked), event, facts).unwrap();
                assert_eq!(done.next, Some(State::Available), "{event:?}, due: {due}");
            }
        }
    }

    #[test]
    fn only_a_job_that_waits_for_others_can_wait_for_more() {
        for state in State::ALL {
            for depends in [false, true] {
                let done = step(Some(state), EventKind::Join, Facts { depends, ..DUE });
                assert_eq!(done.is_ok(), state.is_waiting() && depends, "{state}, {depends}");
                assert!(
                    done.is_ok_and(|done| done.next == Some(state))
                        || !depends
                        || !state.is_waiting()
                );
            }
        }
        let wait = |depends| {
            let facts = Facts { depends, ..DUE };
            step(Some(State::Running), EventKind::WaitForJobs, facts).unwrap().next
        };
        assert_eq!((wait(true), wait(false)), (Some(State::Blocked), Some(State::Available)));
    }

    #[test]
    fn snooze_and_release_count_and_clear_nothing() {
        for event in [EventKind::Snooze, EventKind::Release] {
            let done = step(Some(State::Running), event, DUE).unwrap();
            let counts = [Effect::CountFailure, Effect::CountCrash, Effect::ClearCrashes];
            assert!(counts.iter().all(|count| !done.effects.has(*count)));
            assert_eq!(done.next, Some(State::Available));
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
            EventKind::WaitForJobs,
            EventKind::Lose,
        ] {
            let done = step(Some(State::Running), event, facts).unwrap();
            assert_eq!(done.next, Some(State::Cancelled), "{event}");
        }
        let done = step(Some(State::Running), EventKind::Complete, facts).unwrap();
        assert_eq!(done.next, Some(State::Completed), "the work was done");
    }

    #[test]
    fn only_the_ended_can_be_replayed_or_discarded() {
        for state in State::ALL {
            let replay = step(Some(state), EventKind::Replay, DUE).is_ok();
            assert_eq!(replay, state.is_terminal() && state != State::Completed);
            assert_eq!(step(Some(state), EventKind::Discard, DUE).is_ok(), state.is_terminal());
            for event in [EventKind::Discard, EventKind::Retain] {
                let followed = Facts { followed: true, ..DUE };
                assert!(step(Some(state), event, followed).is_err(), "its dependents wait");
            }
        }
    }
}
