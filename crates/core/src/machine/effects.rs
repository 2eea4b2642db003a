//! What must happen together with a transition, in the same atomic step.

use std::fmt;

/// Something that goes with a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Effect {
    /// Hold the unique key, if it has one.
    TakeUnique,
    /// Free the unique key, if it is held until the job finishes.
    FreeUnique,
    /// Hold the ordering key, if it has one.
    TakeKey,
    /// Pass the ordering key to the next in line.
    HandOverKey,
    /// Tell the job that waits for this one.
    WakeParent,
    /// Hand out a fresh lease and count the start.
    IssueLease,
    /// The lease is over; its token is worth nothing any more.
    EndLease,
    /// `failures + 1`.
    CountFailure,
    /// `crashes + 1`.
    CountCrash,
    /// `crashes = 0`: a handler reported an outcome.
    ClearCrashes,
    /// `failures = crashes = 0`: another life.
    ClearBudgets,
    /// Deliver a cancellation to the worker.
    RequestCancel,
    /// Remember the signal: it ends the wait of a job set aside, or else the next wait.
    KeepSignal,
    /// Tell whoever listens.
    Emit,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::TakeUnique,
        Self::FreeUnique,
        Self::TakeKey,
        Self::HandOverKey,
        Self::WakeParent,
        Self::IssueLease,
        Self::EndLease,
        Self::CountFailure,
        Self::CountCrash,
        Self::ClearCrashes,
        Self::ClearBudgets,
        Self::RequestCancel,
        Self::KeepSignal,
        Self::Emit,
    ];
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TakeUnique => "take unique key",
            Self::FreeUnique => "free unique key",
            Self::TakeKey => "take ordering key",
            Self::HandOverKey => "hand over ordering key",
            Self::WakeParent => "wake parent",
            Self::IssueLease => "issue lease",
            Self::EndLease => "end lease",
            Self::CountFailure => "failures + 1",
            Self::CountCrash => "crashes + 1",
            Self::ClearCrashes => "crashes = 0",
            Self::ClearBudgets => "failures = crashes = 0",
            Self::RequestCancel => "request cancellation",
            Self::KeepSignal => "keep signal",
            Self::Emit => "emit",
        })
    }
}

/// A set of effects. A number, because a claim of a thousand jobs computes a thousand of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effects(u16);

impl Effects {
    /// Nothing else happens.
    pub const NONE: Self = Self(0);
    /// What every claim does.
    pub(super) const CLAIM: Self = Self::of(&[Effect::IssueLease]);
    /// What every end of a job does.
    pub(super) const END: Self =
        Self::of(&[Effect::FreeUnique, Effect::HandOverKey, Effect::WakeParent, Effect::Emit]);

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

    /// Whether `effect` is among them.
    pub const fn has(self, effect: Effect) -> bool {
        self.0 & (1 << effect as u8) != 0
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Effect> {
        Effect::ALL.into_iter().filter(move |effect| self.has(*effect))
    }
}
