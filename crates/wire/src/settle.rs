//! Reports on the results of claimed jobs.

use crate::bounded;
use crate::claim::{Claim, Claimed};
use crate::enqueue::Enqueued;
use crate::fault::Problem;
use crate::item::Item;
use crate::job::Job;
use crate::new_job::NewJob;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::{PartEdits, absent, gather, spread};
use crate::{is_default, present};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use windlass_core::engine::{self, Lease};
use windlass_core::limits::{
    BATCH_MAX, FOLLOW_UPS_MAX, SETTLE_FOLLOW_UPS_MAX, STEPS_MAX, WAIT_SIGNALS_MAX,
};
use windlass_core::model::{AttemptEnd, JobError, Name, SignalWait, State, Step};
use windlass_core::random::Random;
use windlass_core::{Error, JobId, Result};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Completed; may have a `result`.
    Complete,
    /// Failed; to be retried. Needs an `error`, may have a `delay_ms`.
    Retry,
    /// Delayed without counting a failure. Needs a `delay_ms`.
    Snooze,
    /// Failed permanently. Needs an `error`.
    Fail,
    /// Returned unfinished.
    Release,
    /// Waits for one of `signals`, at most for `timeout_ms`.
    Wait,
    /// Waits until the follow-ups that join this job have ended.
    WaitForJobs,
    /// Cancelled.
    Cancel,
}

/// Why an attempt failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// A short code for grouping.
    pub code: String,
    /// Human-readable message.
    #[serde(default)]
    pub message: String,
}

/// A report on one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SettleItem {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// The lease from its claim.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Lease))]
    pub lease: Lease,
    /// How the attempt ended.
    pub outcome: Outcome,
    /// The result as JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub result: Option<Box<RawValue>>,
    /// The result in base64, if it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub result_base64: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Reason>,
    /// The signals that it waits for, of which one is enough; any if there are none.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<WAIT_SIGNALS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>, max_items = 16))]
    pub signals: Vec<Name>,
    /// How long it waits at most; then it runs without a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::BackoffMs>))]
    pub timeout_ms: Option<u64>,
    /// Delay until the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::BackoffMs>))]
    pub delay_ms: Option<u64>,
    /// Changes to its parts.
    #[serde(default, skip_serializing_if = "PartEdits::is_empty")]
    pub parts: PartEdits,
    /// New priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Priority>))]
    pub priority: Option<i32>,
    /// The queue in which the job runs again, for `retry`, `snooze`, `release` and `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Jobs to enqueue atomically with the report.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<FOLLOW_UPS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub follow_ups: Vec<NewJob>,
    /// Steps to record.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<STEPS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Step>, max_items = 1000))]
    pub steps: Vec<Step>,
    /// Stops starts for a time: of jobs under one or all of the job's limits, of its group, or of its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

/// Stops starts for a time, for example after "429, retry after". A later hold of the same replaces it; 0 ms ends it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"limit": "stripe", "ms": 30000}))))]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// A limit that the job runs under; of a limit by group, the job's group is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub limit: Option<Name>,
    /// All limits that the job runs under, as for `limit`; its queue if there are none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: bool,
    /// The job's group, in all its limits by group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: bool,
    /// The job's queue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue: bool,
    /// For how long.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::HoldMs))]
    pub ms: u64,
}

impl Hold {
    fn into_core(self) -> Result<engine::Hold> {
        let Self { limit, limits, group, queue, ms } = self;
        match (limit, limits, group, queue) {
            (Some(name), false, false, false) => Ok(engine::Hold::limit(name, ms)),
            (None, true, false, false) => Ok(engine::Hold::limits(ms)),
            (None, false, true, false) => Ok(engine::Hold::group(ms)),
            (None, false, false, true) => Ok(engine::Hold::queue(ms)),
            _ => {
                let expected = "give `limit`, `limits`, `group` or `queue`, and only one of them";
                Err(Error::invalid("hold", "ambiguous", expected))
            }
        }
    }
}

impl From<engine::Hold> for Hold {
    fn from(hold: engine::Hold) -> Self {
        let mut view = Self { limit: None, limits: false, group: false, queue: false, ms: hold.ms };
        match hold.on {
            engine::HoldOn::Limit(name) => view.limit = Some(name),
            engine::HoldOn::Limits => view.limits = true,
            engine::HoldOn::Group => view.group = true,
            engine::HoldOn::Queue => view.queue = true,
            // A variant of a newer core names nothing and is refused by the server.
            _ => {}
        }
        view
    }
}

impl SettleItem {
    /// Converts to the core report. Refuses fields that do not apply to the outcome.
    pub fn into_core(mut self) -> Result<engine::SettleItem> {
        let outcome = self.take_outcome()?;
        let mut item = engine::SettleItem::new(self.id, self.lease, outcome);
        item.parts = self.parts.into_core()?;
        item.priority = self.priority;
        item.queue = self.queue;
        item.steps = self.steps;
        item.hold = self.hold.map(Hold::into_core).transpose()?;
        for (index, job) in self.follow_ups.into_iter().enumerate() {
            let job = job.into_core();
            let job = job.map_err(|error| error.within(format_args!("follow_ups[{index}]")))?;
            item.follow_ups.push(job);
        }
        Ok(item)
    }

    fn take_outcome(&mut self) -> Result<engine::Outcome> {
        let result = (self.result.take(), self.result_base64.take(), self.parts.result.take());
        let result = gather(result, "result")?;
        let (error, delay_ms) = (self.error.take(), self.delay_ms.take());
        let why = |error: Option<Reason>| match error {
            Some(Reason { code, message }) => Ok(JobError { code, message }),
            None => {
                Err(Error::invalid("error", "missing", "give the error: {\"code\", \"message\"}"))
            }
        };
        if self.outcome != Outcome::Complete {
            absent(&result, "result", "only `complete` has a result")?;
        }
        if !matches!(self.outcome, Outcome::Retry | Outcome::Fail) {
            absent(&error, "error", "only `retry` and `fail` have an error")?;
        }
        if !matches!(self.outcome, Outcome::Retry | Outcome::Snooze) {
            absent(&delay_ms, "delay_ms", "only `retry` and `snooze` have a delay")?;
        }
        let signals = std::mem::take(&mut self.signals);
        let timeout_ms = self.timeout_ms.take();
        if self.outcome != Outcome::Wait {
            let why = "only `wait` waits for signals";
            absent(&signals.first(), "signals", why)?;
            absent(&timeout_ms, "timeout_ms", why)?;
        }
        Ok(match self.outcome {
            Outcome::Complete => engine::Outcome::Complete { result },
            Outcome::Retry => engine::Outcome::Retry { error: why(error)?, delay_ms },
            Outcome::Snooze => {
                let needed = || Error::invalid("delay_ms", "missing", "give the delay");
                engine::Outcome::Snooze { delay_ms: delay_ms.ok_or_else(needed)? }
            }
            Outcome::Fail => engine::Outcome::Fail { error: why(error)? },
            Outcome::Release => engine::Outcome::Release,
            Outcome::Wait => {
                let mut wait = SignalWait::for_signals(signals);
                wait.timeout_ms = timeout_ms;
                engine::Outcome::Wait(wait)
            }
            Outcome::WaitForJobs => engine::Outcome::WaitForJobs,
            Outcome::Cancel => engine::Outcome::Cancel,
        })
    }
}

impl From<engine::SettleItem> for SettleItem {
    fn from(item: engine::SettleItem) -> Self {
        let mut report = Self {
            id: item.id,
            lease: item.lease,
            outcome: Outcome::Release,
            result: None,
            result_base64: None,
            error: None,
            signals: Vec::new(),
            timeout_ms: None,
            delay_ms: None,
            parts: item.parts.into(),
            priority: item.priority,
            queue: item.queue,
            follow_ups: item.follow_ups.into_iter().map(Into::into).collect(),
            hold: item.hold.map(Into::into),
            steps: item.steps,
        };
        let why = |JobError { code, message }| Some(Reason { code, message });
        match item.outcome {
            engine::Outcome::Complete { result } => {
                report.outcome = Outcome::Complete;
                (report.result, report.result_base64, report.parts.result) = spread(result);
            }
            engine::Outcome::Retry { error, delay_ms } => {
                report.outcome = Outcome::Retry;
                (report.error, report.delay_ms) = (why(error), delay_ms);
            }
            engine::Outcome::Snooze { delay_ms } => {
                report.outcome = Outcome::Snooze;
                report.delay_ms = Some(delay_ms);
            }
            engine::Outcome::Fail { error } => {
                report.outcome = Outcome::Fail;
                report.error = why(error);
            }
            engine::Outcome::Release => report.outcome = Outcome::Release,
            engine::Outcome::Wait(wait) => {
                report.outcome = Outcome::Wait;
                (report.signals, report.timeout_ms) = (wait.signals, wait.timeout_ms);
            }
            engine::Outcome::WaitForJobs => report.outcome = Outcome::WaitForJobs,
            engine::Outcome::Cancel => report.outcome = Outcome::Cancel,
            // An outcome of a newer core is sent as a release, so that the job runs again.
            _ => report.outcome = Outcome::Release,
        }
        report
    }
}

/// Reports, optionally with the next claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The reports.
    #[serde(deserialize_with = "reports")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10000))]
    pub items: Vec<SettleItem>,
    /// A claim to execute in the same round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
}

/// Deserializes reports, with a limit for the total number of follow-ups.
fn reports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SettleItem>, D::Error> {
    let follow_ups = |item: &SettleItem| item.follow_ups.len();
    bounded::nested(deserializer, BATCH_MAX, follow_ups, SETTLE_FOLLOW_UPS_MAX)
}

impl Settle {
    /// Converts to the core request, and returns errors of invalid reports with their index: each
    /// fails alone.
    pub fn into_core(self, random: &dyn Random) -> Result<(engine::Settle, Vec<(usize, Error)>)> {
        let (mut items, mut bad) = (Vec::with_capacity(self.items.len()), Vec::new());
        for (index, item) in self.items.into_iter().enumerate() {
            match item.into_core() {
                Ok(item) => items.push(item),
                Err(error) => bad.push((index, error)),
            }
        }
        let mut request = engine::Settle::new(items);
        if let Some(claim) = self.claim {
            let why = "a settle does not wait; send a separate claim";
            let claim =
                absent(&claim.wait_ms, "wait_ms", why).and_then(|()| claim.into_core(random));
            request.claim = Some(claim.map_err(|error| error.within("claim"))?);
        }
        Ok((request, bad))
    }
}

impl From<engine::Settle> for Settle {
    fn from(request: engine::Settle) -> Self {
        let items = request.items.into_iter().map(Into::into).collect();
        Self { items, claim: request.claim.map(Into::into) }
    }
}

/// The result of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settled {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// Whether this lease was settled before.
    pub already: bool,
    /// The recorded end of the attempt.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::AttemptEnd))]
    pub end: AttemptEnd,
    /// The job's new state.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::State))]
    pub state: State,
    /// The follow-up jobs, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<Enqueued>,
}

impl From<engine::Settled> for Settled {
    fn from(settled: engine::Settled) -> Self {
        let engine::SettledFields { id, already, end, state, follow_ups } = settled.into();
        let follow_ups = follow_ups.into_iter().map(Into::into).collect();
        Self { id, already, end, state, follow_ups }
    }
}

impl Settled {
    fn into_core(self) -> Result<engine::Settled> {
        let Self { id, already, end, state, follow_ups } = self;
        let follow_ups = follow_ups.into_iter().map(Enqueued::into_core).collect::<Result<_>>()?;
        Ok(engine::SettledFields { id, already, end, state, follow_ups }.into())
    }
}

/// The reply to a settle.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettleReply {
    /// The result of each report, in order.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::SettledItem>))]
    pub items: Vec<Item<Settled>>,
    /// The claimed jobs, if there was a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<Job>>,
    /// The error of the claim. It can fail alone; the reports are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_error: Option<Problem>,
}

impl From<engine::SettleReply> for SettleReply {
    fn from(reply: engine::SettleReply) -> Self {
        let items = reply.items.into_iter().map(|item| Item(item.map(Into::into))).collect();
        let (jobs, claim_error) = match reply.claimed {
            Some(Ok(claimed)) => (Some(Claimed::from(claimed).jobs), None),
            Some(Err(error)) => (None, Some(Problem::new(error))),
            None => (None, None),
        };
        Self { items, jobs, claim_error }
    }
}

impl SettleReply {
    /// Converts to the core reply.
    pub fn into_core(self) -> engine::SettleReply {
        let items = self.items.into_iter().map(|item| item.0.and_then(Settled::into_core));
        let claimed = match (self.jobs, self.claim_error) {
            (_, Some(problem)) => Some(Err(problem.fault.into_core())),
            (Some(jobs), None) => Some(Claimed { jobs }.into_core()),
            (None, None) => None,
        };
        engine::SettleReply::new(items.collect(), claimed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_fails_alone_says_so_beside_the_reports() {
        let error = Error::SessionLost { session: "s".to_owned() };
        let claims = [None, Some(Ok(engine::Claimed::new(Vec::new()))), Some(Err(error))];
        for claimed in claims {
            let reply = engine::SettleReply::new(Vec::new(), claimed);
            let text = crate::write(&SettleReply::from(reply.clone()));
            let back: SettleReply = crate::read_reply(&text).unwrap();
            assert_eq!(back.into_core(), reply);
        }
    }
}
