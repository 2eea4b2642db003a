//! Measurements of queues over time: taken each second by the service (`sampler`), summed up per
//! minute and hour (`aggregate`), kept in logs, and read back as series (`series`).
//!
//! Kept are the minutes of a week and the hours of 90 days: 10,080 and 2,160 log entries. (All minutes
//! of 90 days would be 129,600, more than a log holds, and some 15 MB per queue.) An entry has every
//! queue in about 200 bytes each, so that ten queues cost a store 24 MB at most.
//!
//! What went in and out is counted by the servers it passed through (`flow`), each for itself, and added when
//! it is read.
//!
//! What is kept is sums and maxima, so that rows of the same time add up: the halves of a minute that
//! two leaders measured, and, averages and maxima being what they are, the same row written twice.

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
