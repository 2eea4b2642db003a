//! Recurring schedules: stored as records (`schedules`) and fired by a service (`scheduler`). Fire times are
//! computed by core.

mod scheduler;
mod schedules;
mod stored;
mod template;

pub(crate) use scheduler::Scheduler;
pub use schedules::{SchedulePage, Schedules};
pub(crate) use stored::{CHANGES_KEY, PREFIX, shown};
pub use stored::{ScheduleError, ScheduleView};
