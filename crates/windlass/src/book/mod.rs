//! The concepts of Windlass, one page each, with an example that runs.
//!
//! 1. [`jobs`]: types, kinds, queues and options.
//! 2. [`enqueueing`]: one job or many, handles, results, queries.
//! 3. [`workers`]: which jobs a worker takes, how many, and how it stops.
//! 4. [`handlers`]: arguments, results, progress, checkpoints, follow-ups, batches.
//! 5. [`retries`]: failures, backoff, dead jobs and replays.
//! 6. [`schedules`]: recurring jobs.
//! 7. [`uniqueness`]: at most one job per key.
//! 8. [`transactions`]: jobs and your own rows in one transaction.
//! 9. [`flows`]: graphs of jobs that run after each other.
//! 10. [`engines`]: where jobs are stored.
//! 11. [`testing`]: tests without a server, with controlled time.
//!
//! This module contains documentation only.

pub mod engines;
pub mod enqueueing;
pub mod flows;
pub mod handlers;
pub mod jobs;
pub mod retries;
pub mod schedules;
pub mod testing;
pub mod transactions;
pub mod uniqueness;
pub mod workers;
