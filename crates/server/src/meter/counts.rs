//! Counts jobs through this server: metrics per lane, and flows per queue for the stored history.
//! It must not know how metrics are exported or flows are stored.

use super::leases::{Leases, Started};
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use windlass_core::engine::{Claimed, ClaimedJob, Item, Lease, Settle, Settled};
use windlass_core::model::{AttemptEnd, Name};
use windlass_core::sync::lock;
use windlass_core::time::SECOND_MS;
use windlass_core::{Error, Timestamp};
use windlass_services::{Flows, LabelledLanes, LaneLabels};

/// Placeholder queue for reports on jobs claimed through another server. Not a valid queue name.
const UNKNOWN_QUEUE: &str = "*";

/// The counters of one server.
pub(crate) struct Counts {
    lanes: LabelledLanes,
    leases: Mutex<Leases>,
    flows: Flows,
}

/// The leases of a settle's items before it is sent; `None` for jobs claimed through another
/// server.
pub(super) type Reported = Vec<Option<(Lease, Started)>>;

impl Counts {
    /// Counters labelled by queue and, if `by_kind`, by kind.
    pub(crate) fn new(by_kind: bool, flows: Flows) -> Self {
        describe();
        Self { lanes: LabelledLanes::new(by_kind), leases: Mutex::default(), flows }
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        lock(&self.leases)
    }

    /// Counts stored jobs.
    pub(super) fn enqueued<'a>(&self, now: Timestamp, lanes: impl Iterator<Item = Lane<'a>>) {
        for ((queue, kind), count) in summed(lanes) {
            let labels = self.lanes.of(queue, kind).labels();
            counter!("windlass_jobs_enqueued_total", labels).increment(count);
            self.flows.count(now, queue, |flow| flow.enqueued += count);
        }
    }

    /// Counts jobs that were not stored.
    pub(super) fn refused(&self, error: &Error, count: u64) {
        counter!("windlass_enqueue_errors_total", "code" => error.code()).increment(count);
    }

    /// Counts claimed jobs.
    pub(super) fn started(&self, now: Timestamp, claimed: &Claimed) {
        let jobs = || claimed.jobs.iter();
        for ((queue, _), count) in summed(jobs().map(lane)) {
            self.flows.count(now, queue, |flow| flow.started += count);
        }
        for ((queue, kind), count) in summed(jobs().filter(|it| is_again(it)).map(lane)) {
            let labels = self.lanes.of(queue, kind).labels();
            counter!("windlass_duplicate_deliveries_total", labels).increment(count);
        }
        let mut leases = self.leases();
        jobs().for_each(|job| leases.begun(job));
    }

    /// Looks up the leases of a settle before it is sent.
    pub(super) fn reporting(&self, settle: &Settle) -> Reported {
        let mut leases = self.leases();
        settle.items.iter().map(|item| leases.take(&item.lease)).collect()
    }

    /// Restores the leases of a settle without a reply: the worker will repeat it.
    pub(super) fn unanswered(&self, reported: Reported) {
        let mut leases = self.leases();
        reported.into_iter().flatten().for_each(|(lease, begun)| leases.put(lease, begun));
    }

    /// Counts the results of a settle.
    pub(super) fn reported(&self, now: Timestamp, answers: &[Item<Settled>], reported: &Reported) {
        let mut lanes: BTreeMap<Option<Lane<'_>>, Ends> = BTreeMap::new();
        for (answer, begun) in answers.iter().zip(reported) {
            let begun = begun.as_ref().map(|(_, begun)| begun);
            let lane = begun.map(|begun| (&begun.queue, &begun.kind));
            let took_ms = begun.map(|begun| now.since(begun.at));
            lanes.entry(lane).or_default().add(answer, took_ms);
        }
        for (lane, ends) in lanes {
            let labels = lane.map(|(queue, kind)| self.lanes.of(queue, kind));
            ends.show(&labels.unwrap_or_else(|| self.lanes.other()));
            if ends.completed + ends.failed > 0 {
                let queue = lane.map_or(UNKNOWN_QUEUE, |(queue, _)| queue);
                self.flows.count(now, queue, |flow| {
                    flow.completed += ends.completed;
                    flow.failed += ends.failed;
                    flow.run_ms += ends.run_ms;
                });
            }
        }
    }
}

/// Results of attempts in one lane.
#[derive(Default)]
struct Ends {
    completed: u64,
    failed: u64,
    lost: u64,
    /// Total run time of completed and failed attempts.
    run_ms: u64,
    /// Run time of each attempt.
    took_ms: Vec<u64>,
}

impl Ends {
    fn add(&mut self, answer: &Item<Settled>, took_ms: Option<u64>) {
        match answer {
            Ok(settled) if settled.already => return,
            Ok(settled) => match settled.end {
                AttemptEnd::Complete => self.completed += 1,
                AttemptEnd::Retry | AttemptEnd::Fail => self.failed += 1,
                AttemptEnd::Snooze
                | AttemptEnd::Release
                | AttemptEnd::Wait
                | AttemptEnd::Cancel
                | AttemptEnd::Lost
                | _ => return self.took_ms.extend(took_ms),
            },
            Err(error) => {
                self.lost += u64::from(matches!(error, Error::LeaseLost { .. }));
                return;
            }
        }
        self.run_ms += took_ms.unwrap_or_default();
        self.took_ms.extend(took_ms);
    }

    fn show(&self, lane: &LaneLabels) {
        let counts = [
            ("windlass_jobs_completed_total", self.completed),
            ("windlass_jobs_failed_total", self.failed),
            ("windlass_lease_losses_total", self.lost),
        ];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            counter!(name, lane.labels()).increment(count);
        }
        if !self.took_ms.is_empty() {
            let seconds = histogram!("windlass_job_processing_seconds", lane.labels());
            let each = self.took_ms.iter().map(|ms| *ms as f64 / SECOND_MS as f64);
            each.for_each(|took| seconds.record(took));
        }
    }
}

/// A queue and a kind.
pub(super) type Lane<'a> = (&'a Name, &'a Name);

fn lane(job: &ClaimedJob) -> Lane<'_> {
    (&job.header.queue, &job.header.kind)
}

/// Whether an earlier attempt of the job lost its worker.
const fn is_again(job: &ClaimedJob) -> bool {
    job.header.counters.crashes > 0
}

/// Counts jobs per lane. A batch has few lanes, and looking up a counter per job would cost more
/// than counting.
fn summed<'a>(lanes: impl Iterator<Item = Lane<'a>>) -> BTreeMap<Lane<'a>, u64> {
    let mut sums = BTreeMap::new();
    lanes.for_each(|lane| *sums.entry(lane).or_default() += 1);
    sums
}

fn describe() {
    describe_counter!("windlass_jobs_enqueued_total", "jobs stored through this server");
    describe_counter!("windlass_enqueue_errors_total", "jobs that were not stored, by error code");
    describe_counter!("windlass_jobs_completed_total", "jobs reported complete to this server");
    describe_counter!("windlass_jobs_failed_total", "attempts reported as failed to this server");
    describe_counter!(
        "windlass_duplicate_deliveries_total",
        "jobs handed out again after an attempt that lost its lease"
    );
    describe_counter!("windlass_lease_losses_total", "reports refused because the lease was lost");
    describe_histogram!(
        "windlass_job_processing_seconds",
        Unit::Seconds,
        "from the start of an attempt to its report"
    );
}
