//! Recurring jobs: schedules as records (`schedules`), and the service that fires them (`scheduler`).
//! When a schedule fires is core's arithmetic, not ours.

mod scheduler;
mod schedules;
mod stored;
mod template;

pub(crate) use scheduler::Scheduler;
pub use schedules::{SchedulePage, Schedules};
pub(crate) use stored::{CHANGES_KEY, PREFIX, shown};
pub use stored::{ScheduleError, ScheduleView};
