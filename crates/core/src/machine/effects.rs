//! Effects: the writes that belong to a transition and are committed with it in one atomic step.

use std::fmt;

/// One write that belongs to a transition.
///
/// The variants are in the order of execution. An executor matches them exhaustively, so an effect without a
/// consumer does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Effect {
    /// The current lease ends, the attempt is added to the history, and its slots are free.
    EndLease,
    /// A new lease is issued: `attempt + 1`, one permit of the kind is used, the slots and tokens of all its limits are
    /// taken, a fair queue advances its turn.
    IssueLease,
    /// `failures + 1`.
    CountFailure,
    /// `crashes + 1`.
    CountCrash,
    /// `crashes = 0`: a handler reported an outcome.
    ClearCrashes,
    /// `failures = crashes = 0`; outcome, cancellation request and signals are cleared.
    StartOver,
    /// The cancellation is requested from the worker.
    RequestCancel,
    /// The job waits for signals from now on.
    BeginWait,
    /// The job no longer waits: a signal arrived, or the time is over. It learns which when it runs.
    EndWait,
    /// The signal is kept in the inbox.
    KeepSignal,
    /// The wait takes its first signal from the inbox. The job learns which when it runs.
    UseSignal,
    /// The job belongs to another queue from now on. Its unique key moves with it; its ordering key in the old queue is
    /// released, and the first job in line for it is freed.
    ChangeQueue,
    /// The time and the reason of the end are recorded; the job no longer waits for a signal.
    Finish,
    /// The unique key is acquired, if the job has one; by an imported job, if the job still holds it in its new state.
    TakeUnique,
    /// The unique key is released, if the job holds it until it ends, or until it is removed and now is.
    FreeUnique,
    /// The ordering key is acquired, if the job has one and does not hold it yet.
    TakeKey,
    /// The ordering key is released, and the first job in line for it is freed.
    HandOverKey,
    /// The jobs that depend on the job learn how it ended: each receives the outcome and the result, and becomes ready or
    /// ends if it waits for nothing else.
    Resolve,
    /// The job is in the line of its group, and waits for the limit that has no room for it.
    JoinLine,
    /// The job enters its state anew, behind all jobs that are there already.
    Moved,
    /// An imported job enters its state, behind all jobs that are there already. It keeps the number and the time of its
    /// transitions.
    Arrive,
    /// Listeners are notified: a job has become ready.
    Emit,
}

impl Effect {
    /// All effects, each at the index of its discriminant.
    pub const ALL: [Self; 22] = [
        Self::EndLease,
        Self::IssueLease,
        Self::CountFailure,
        Self::CountCrash,
        Self::ClearCrashes,
        Self::StartOver,
        Self::RequestCancel,
        Self::BeginWait,
        Self::EndWait,
        Self::KeepSignal,
        Self::UseSignal,
        Self::ChangeQueue,
        Self::Finish,
        Self::TakeUnique,
        Self::FreeUnique,
        Self::TakeKey,
        Self::HandOverKey,
        Self::Resolve,
        Self::JoinLine,
        Self::Moved,
        Self::Arrive,
        Self::Emit,
    ];
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndLease => "end lease",
            Self::IssueLease => "issue lease",
            Self::CountFailure => "failures + 1",
            Self::CountCrash => "crashes + 1",
            Self::ClearCrashes => "crashes = 0",
            Self::StartOver => "start over",
            Self::RequestCancel => "request cancellation",
            Self::BeginWait => "begin wait",
            Self::EndWait => "end wait",
            Self::KeepSignal => "keep signal",
            Self::UseSignal => "take signal from inbox",
            Self::ChangeQueue => "change queue",
            Self::Finish => "record end",
            Self::TakeUnique => "take unique key",
            Self::FreeUnique => "free unique key",
            Self::TakeKey => "take ordering key",
            Self::HandOverKey => "hand over ordering key",
            Self::Resolve => "resolve dependents",
            Self::JoinLine => "join line",
            Self::Moved => "move",
            Self::Arrive => "arrive",
            Self::Emit => "emit",
        })
    }
}

/// A set of effects. A bit set, because a claim of 1,000 jobs computes 1,000 of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effects(u32);

impl Effects {
    /// No effects.
    pub const NONE: Self = Self(0);
    /// The effects of every transition to a terminal state.
    pub(super) const END: Self = Self::of(&[
        Effect::Finish,
        Effect::FreeUnique,
        Effect::HandOverKey,
        Effect::Resolve,
        Effect::Moved,
    ]);

    pub(super) const fn of(effects: &[Effect]) -> Self {
        let mut set = Self::NONE;
        let mut next = 0;
        while next < effects.len() {
            set = set.with(effects[next]);
            next += 1;
        }
        set
    }

    pub(super) const fn with(self, effect: Effect) -> Self {
        Self(self.0 | 1 << effect as u8)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `effect` is in the set.
    pub const fn has(self, effect: Effect) -> bool {
        self.0 & (1 << effect as u8) != 0
    }

    /// The effects in the order of execution.
    pub fn iter(self) -> impl Iterator<Item = Effect> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let effect = Effect::ALL.get(rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(*effect)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_yields_its_effects_in_the_order_of_execution() {
        let set = Effects::of(&[Effect::Emit, Effect::EndLease, Effect::Moved]);
        let listed: Vec<_> = set.iter().collect();
        assert_eq!(listed, [Effect::EndLease, Effect::Moved, Effect::Emit]);
        assert_eq!(Effects::of(&Effect::ALL).iter().collect::<Vec<_>>(), Effect::ALL);
        assert_eq!(Effects::NONE.iter().next(), None);
    }
}
