//! Queue metrics over time: sampled every second by the service (`sampler`), aggregated per minute and hour
//! (`aggregate`), stored in logs, and read as series (`series`).
//!
//! Minutes are kept for a week and hours for 90 days: 10,080 and 2,160 log entries. (The minutes of 90 days
//! would be 129,600 entries, more than a log holds, and about 15 MB per queue.) An entry takes about 200
//! bytes per queue, so ten queues cost a store at most 24 MB.
//!
//! Enqueued, started and finished jobs are counted by each server separately (`flow`) and added up when read.
//!
//! Stored values are sums and maxima, so that rows of the same period can be merged: the parts of a minute
//! sampled by two leaders, and also the same row written twice, which changes neither average nor maximum.

mod aggregate;
mod flow;
mod gauges;
mod lanes;
mod priorities;
mod sampler;
mod series;

pub use aggregate::{Gauge, QueueSample};
pub use flow::{Flow, Flows};
pub use gauges::LaneGauges;
pub use lanes::{LANES_LABELLED_MAX, LabelledLanes, LaneLabels};
pub(crate) use sampler::Sampler;
pub use series::{Resolution, Sample, SampleQuery, Samples};
