//! Judges what many concurrent clients saw, lost replies included.
//!
//! Clients write down each call before they make it and each answer after it came
//! ([`Event`]; [`Recorded`] does it for any engine). When all is over, somebody reads where the jobs
//! stand ([`Snapshot`]), and [`check`] says whether any promise was broken: a job lost, a stale lease
//! accepted, a job settled twice or stuck, a key out of order ([`Kind`] lists them all).
//!
//! The checker knows two things about time, and no more. A call takes effect at some instant between
//! its invocation and its answer. A call without an answer may take effect at any time after it was
//! invoked, or never. So two calls have an order only if one was answered before the other was
//! invoked, and a verdict is only given against what no order of the calls can explain.
//!
//! The price: a fault that only shows while calls overlap, or in a call nobody got an answer to, is
//! not seen. Runs are cheap; make many.
//!
//! [`drive()`] makes such a history: producers and workers that lose replies, stall and die.

mod checker;
mod drive;
mod facts;
mod keys;
mod life;
mod record;
mod recorder;
mod snapshot;
mod verdict;

pub use checker::{Options, check};
pub use drive::{Driven, Load, drive};
pub use record::{
    Admission, Call, Effect, Event, History, Hold, Note, Receipt, Reply, Report, Start, Wanted,
    Wish,
};
pub use recorder::{Diary, Journal, Recorded};
pub use snapshot::Snapshot;
pub use verdict::{Counts, Kind, VIOLATIONS_TOLD_MAX, Verdict, Violation};

/// Verbs that go through to the engine in `self.inner` as they are.
macro_rules! forward {
    ($($verb:ident($($arg:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(fn $verb(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            self.inner.$verb($($arg),*)
        })+
    };
}
use forward;
