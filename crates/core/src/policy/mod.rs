//! Policies as pure functions of time, randomness and facts. They return numbers, so that every engine
//! decides in the same way.

mod breaker;
mod gates;
mod limiting;
mod pace;
mod rank;
mod retention;
mod retry;
mod schedule;
mod unique;

pub use breaker::*;
pub use gates::{Allowance, allowance, closed_gates};
pub use limiting::{Ahead, Meter, Room};
pub use pace::{Pace, Pacer};
pub use rank::{FairClock, Ready, rank};
pub use retention::{KeepMax, KeepMaxFields, Retention, RetentionFields, expires_at, keep_until};
pub use retry::{Backoff, crash_delay_ms};
pub use schedule::*;
pub use unique::{Holder, OnConflict, Unique, UniqueFields, UniqueScope, UniqueVerdict, Until};
