//! A schedule enqueues a job like its template each time it fires, once, however many processes run.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::policy::Schedule;
//! use windlass::testing::TestQueue;
//! use windlass::{Job, job};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! struct Report {
//!     title: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let queue = TestQueue::new();
//! let client = queue.client();
//! let hourly = Schedule::cron("0 * * * *", "Europe/Berlin");
//! let report = job(Report { title: "hourly".into() }).priority(5);
//! client.schedule("hourly-report", hourly, report).await?;
//!
//! queue.advance(Duration::from_secs(2 * 3_600));
//! queue.assert_count::<Report>(2);
//! client.schedules().remove("hourly-report").await?;
//! # Ok(())
//! # }
//! ```
//!
//! Schedules are records of the store: every process sees them, and a change takes effect everywhere. The
//! [services](crate::services) fire them, which every worker hosts. [`Schedule`](crate::policy::Schedule) has
//! cron lines with time zones, intervals, pauses after the end of the previous job, limits, and rules for missed
//! fires.
