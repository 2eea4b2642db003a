//! Changes of all jobs that match a filter: counted first, then applied in bounded steps.
//!
//! A bulk operation is a record, so that any process can continue it after a crash (`task`). The process that runs it
//! holds it for a time by compare-and-set (`hold`); a process that lost it cannot save progress any more. Every step lists
//! one page and changes its jobs (`step`), and may be repeated: a job that the operation has changed is not selected
//! again. The service continues operations that no process runs (`service`).

mod change;
mod service;
mod step;
mod store;
mod task;

pub use change::BulkChange;
pub(crate) use service::BulkService;
pub use store::{Bulks, NewBulk};
pub(crate) use store::{CHANGES_KEY, PREFIX, shown};
pub use task::{Bulk, BulkState};
