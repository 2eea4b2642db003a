//! Why a job is not running.

use crate::is_default;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, CauseCode, CauseFields, ExplanationFields};
use windlass_core::model::{Finish, JobError, Name, State};
use windlass_core::{JobId, Timestamp};

/// Why a job is not running.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// Its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    /// Its kind.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: Name,
    /// Its state.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::State))]
    pub state: State,
    /// The causes of its state, in the order in which they must end before the job starts.
    pub causes: Vec<Cause>,
}

/// One cause of a job's state. Members that do not apply to its code are absent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cause {
    /// Its type.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::CauseCode))]
    pub code: String,
    /// Description for people, without times.
    #[serde(default)]
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub way_out: String,
    /// Since when it applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub since: Option<Timestamp>,
    /// When it ends by itself: the due time, the end of a hold or a lease, the time at which a limit has room again
    /// unless other jobs take it first, the next probe of a circuit breaker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub until: Option<Timestamp>,
    /// The ordering key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Key>))]
    pub key: Option<String>,
    /// The name of the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub limit: Option<Name>,
    /// The group in which the limit counts the job; absent for a limit over all jobs, empty for jobs without a group and a
    /// tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The signals of which the job waits for one; absent if it waits for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>))]
    pub signals: Vec<Name>,
    /// Dependencies on jobs that have not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<u32>,
    /// The job that holds the ordering key, that is first in line for the key or the limit, or that is the first dependency
    /// that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub holder: Option<JobId>,
    /// The state of that job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub holder_state: Option<State>,
    /// Running jobs that the limit counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// The maximum of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// Tokens that jobs could take from the limit now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tokens that the start of the job takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// Jobs of the kind that may still start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// Ready jobs of the same queue and kind that are claimed first; counted up to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Whether there may be more jobs ahead than `ahead`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at_least: bool,
    /// Workers with an open session: that serve the queue if no worker has the kind, otherwise that serve both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u64>,
    /// The worker that runs the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The host of that worker, if the worker sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether cancellation of the running job was requested.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cancel_requested: bool,
    /// Why the job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Finish>))]
    pub finish: Option<Finish>,
    /// The latest error of a job that waits for a retry or is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::Reason>))]
    pub error: Option<JobError>,
}

impl From<engine::Explanation> for Explanation {
    fn from(why: engine::Explanation) -> Self {
        let cause = |cause: &engine::Cause| {
            let (message, way_out) = (why.message(cause), why.way_out(cause));
            Cause::of(cause.clone().into(), message, way_out)
        };
        let causes = why.causes.iter().map(cause).collect();
        let ExplanationFields { id, queue, kind, state, causes: _ } = why.into();
        Self { id, queue, kind, state, causes }
    }
}

impl Explanation {
    /// Converts to the core reply. Causes with codes of a newer server are left out.
    pub fn into_core(self) -> engine::Explanation {
        let Self { id, queue, kind, state, causes } = self;
        let causes = causes.into_iter().filter_map(Cause::into_core).collect();
        ExplanationFields { id, queue, kind, state, causes }.into()
    }
}

impl Cause {
    fn of(cause: CauseFields, message: String, way_out: String) -> Self {
        let CauseFields {
            code,
            since,
            until,
            key,
            limit,
            group,
            signals,
            dependencies,
            holder,
            holder_state,
            running,
            max_running,
            tokens,
            cost,
            permits,
            ahead,
            at_least,
            workers,
            worker,
            host,
            cancel_requested,
            finish,
            error,
        } = cause;
        Self {
            code: code.as_str().to_owned(),
            message,
            way_out,
            since,
            until,
            key,
            limit,
            group,
            signals,
            dependencies,
            holder,
            holder_state,
            running,
            max_running,
            tokens,
            cost,
            permits,
            ahead,
            at_least,
            workers,
            worker,
            host,
            cancel_requested,
            finish,
            error,
        }
    }

    fn into_core(self) -> Option<engine::Cause> {
        let fields = CauseFields {
            code: CauseCode::named(&self.code)?,
            since: self.since,
            until: self.until,
            key: self.key,
            limit: self.limit,
            group: self.group,
            signals: self.signals,
            dependencies: self.dependencies,
            holder: self.holder,
            holder_state: self.holder_state,
            running: self.running,
            max_running: self.max_running,
            tokens: self.tokens,
            cost: self.cost,
            permits: self.permits,
            ahead: self.ahead,
            at_least: self.at_least,
            workers: self.workers,
            worker: self.worker,
            host: self.host,
            cancel_requested: self.cancel_requested,
            finish: self.finish,
            error: self.error,
        };
        Some(fields.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::random::Seeded;

    #[test]
    fn an_explanation_loses_nothing_and_skips_unknown_causes() {
        let id = JobId::new(Timestamp::EPOCH, &Seeded::new(1));
        let mut causes: Vec<engine::Cause> =
            CauseCode::ALL.into_iter().map(engine::Cause::new).collect();
        let full = &mut causes[0];
        (full.since, full.until) = (Some(Timestamp::EPOCH), Some(Timestamp::from_millis(9)));
        (full.key, full.limit) = (Some("k".into()), Some("l".into()));
        (full.group, full.holder) = (Some(String::new()), Some(id));
        (full.holder_state, full.running) = (Some(State::Dead), Some(1));
        (full.max_running, full.tokens, full.cost) = (Some(2), Some(3), Some(4));
        (full.permits, full.ahead, full.at_least) = (Some(5), Some(6), true);
        (full.workers, full.worker) = (Some(7), Some("w".into()));
        full.signals = vec!["approved".into()];
        (full.host, full.cancel_requested) = (Some("h".into()), true);
        (full.finish, full.error) = (Some(Finish::ReplacedBy(id)), Some(JobError::new("e", "m")));
        let why = engine::Explanation::new(id, "q".into(), "k".into(), State::Blocked, causes);
        let text = serde_json::to_string(&Explanation::from(why.clone())).unwrap();
        let mut read: Explanation = serde_json::from_str(&text).unwrap();
        assert_eq!(read.causes[0].message, "The job is paused.");
        assert_eq!(read.clone().into_core(), why, "{text}");
        read.causes[1].code = "weather".to_owned();
        assert_eq!(read.into_core().causes.len(), why.causes.len() - 1);
    }
}
