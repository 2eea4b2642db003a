//! A unique key allows at most one job at a time: a duplicate returns the existing job, replaces it, or is
//! refused.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::testing::TestQueue;
//! use windlass::{Job, OnConflict, Unique};
//!
//! /// One report per account and hour, for any number of requests.
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(unique(by(account), period = "1h"))]
//! struct Report {
//!     account: u32,
//!     requested_by: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let queue = TestQueue::new();
//! let client = queue.client();
//! let first = client.enqueue(Report { account: 7, requested_by: "ada".into() }).await?;
//! let again = client.enqueue(Report { account: 7, requested_by: "alan".into() }).await?;
//! assert_eq!((again.is_new(), again.id()), (false, first.id()));
//!
//! queue.advance(Duration::from_secs(3_600));
//! assert!(client.enqueue(Report { account: 7, requested_by: "alan".into() }).await?.is_new());
//!
//! // A key of your own instead, with any rule.
//! let job = Report { account: 8, requested_by: "ada".into() };
//! let rule = Unique::by("account:8").on_conflict(OnConflict::Replace);
//! client.enqueue(job).unique_with(rule).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - `unique` alone compares the whole payload; `by(…)` names the fields to compare. Without a `period`, the key is
//!   held until the job ends.
//! - The key is a hash of the fields' canonical JSON: the same in every process, on every machine, and for every
//!   order of fields. It uses the Rust names of the fields, whatever serde calls them. Fields without a defined
//!   order, such as a `HashSet`, are not equal to themselves: use a `BTreeSet`.
//! - `until = "removed"` holds the key as long as the job is stored, like an idempotency key.
//! - `scope` widens the key from the job's queue and kind to its queue, its kind or the whole store, and `on_conflict`
//!   decides what happens to a duplicate: see [`UniqueScope`](crate::UniqueScope) and
//!   [`OnConflict`](crate::OnConflict).
//! - A unique key limits how many jobs *exist*; an ordering key
//!   ([`JobBuilder::key`](crate::JobBuilder::key)) makes jobs *run* one at a time, in order.
