//! Queries for jobs, lanes and sessions.

use crate::bounded;
use crate::claim::{part_names, part_set};
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::session::WorkerInfo;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Cursor, Field, Filter, Gate, ListOrder, SessionId};
use windlass_core::limits::{BATCH_MAX, PAGE_DEFAULT};
use windlass_core::model::{Name, PartName, State};
use windlass_core::{Error, IdPrefix, JobId, Result, Timestamp};

/// Jobs by id.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = GetJobs))]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// Ids of the jobs.
    #[serde(deserialize_with = "bounded::vec::<BATCH_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::JobId>, max_items = 10000))]
    pub ids: Vec<JobId>,
    /// Parts to include; none by default.
    #[serde(
        default,
        deserialize_with = "bounded::distinct",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::PartName>))]
    pub parts: Vec<PartName>,
    /// Queue in which the jobs are expected. Jobs of other queues are found, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue_hint: Option<Name>,
}

impl From<Get> for engine::Get {
    fn from(get: Get) -> Self {
        let mut request = Self::new(get.ids).parts(part_set(&get.parts));
        request.queue_hint = get.queue_hint;
        request
    }
}

impl From<engine::Get> for Get {
    fn from(get: engine::Get) -> Self {
        Self { ids: get.ids, parts: part_names(get.parts), queue_hint: get.queue_hint }
    }
}

/// Query for one job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct GetOne {
    /// Parts to include, separated by commas; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = String, required = false))]
    pub parts: Option<String>,
    /// Queue in which the job is expected. A job of another queue is found, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name, required = false))]
    pub queue_hint: Option<Name>,
    /// Waits up to this long for the end of the job, then returns it in whatever state it is.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "openapi", param(required = false, minimum = 0, maximum = 60_000))]
    pub wait_ms: u64,
}

/// Whether a request does not wait.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

impl GetOne {
    /// The requested parts.
    pub fn parts(&self) -> Result<Vec<PartName>> {
        let Some(names) = &self.parts else { return Ok(PartName::ALL.to_vec()) };
        let named = |name: &str| {
            let found = PartName::ALL.into_iter().find(|part| part.as_str() == name);
            let expected = "use payload, checkpoint, blob, metadata, separated by commas";
            found.ok_or_else(|| Error::invalid("parts", name, expected))
        };
        names.split(',').filter(|name| !name.is_empty()).map(named).collect()
    }
}

/// Query for a page of jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Queue of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name, required = false))]
    pub queue: Option<Name>,
    /// Kind of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name, required = false))]
    pub kind: Option<Name>,
    /// State of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::State, required = false))]
    pub state: Option<State>,
    /// Tenant of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Label, required = false))]
    pub tenant: Option<String>,
    /// Ordering key of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Key, required = false))]
    pub key: Option<String>,
    /// A tag of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Tag, required = false))]
    pub tag: Option<String>,
    /// The job that created them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::JobId, required = false))]
    pub parent: Option<JobId>,
    /// The flow of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name, required = false))]
    pub flow: Option<Name>,
    /// Earliest time of the enqueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub created_from: Option<Timestamp>,
    /// Time of the enqueue, exclusive upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub created_until: Option<Timestamp>,
    /// Earliest time at which the jobs are due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub due_from: Option<Timestamp>,
    /// Time at which the jobs are due, exclusive upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub due_until: Option<Timestamp>,
    /// Earliest time of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub ended_from: Option<Timestamp>,
    /// Time of the end, exclusive upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub ended_until: Option<Timestamp>,
    /// The first hex digits of the ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::IdPrefix, required = false))]
    pub id: Option<IdPrefix>,
    /// A text in the payload or the last error of the jobs; upper and lower case of ASCII letters are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::SearchText, required = false))]
    pub text: Option<String>,
    /// Fields of payload and metadata with their values, each a parameter of its own: `payload.customer=42`. Read by
    /// [`read_list`](crate::read_list), written by [`write_list`](crate::write_list).
    #[serde(skip)]
    pub fields: Vec<(Field, String)>,
    /// Direction, by the time that the list is about: the due time of `scheduled` jobs, the start of `running` ones, the
    /// end of `completed`, `dead`, `cancelled` and `expired` ones, otherwise the enqueue. `oldest` first is the default
    /// for `scheduled` jobs, `newest` first for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Order, required = false, inline))]
    pub order: Option<Order>,
    /// The `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Cursor, required = false))]
    pub after: Option<Cursor>,
    /// Maximum number of rows; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::PageLimit, required = false))]
    pub limit: Option<u32>,
}

/// Order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ListOrder))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The latest time first.
    Newest,
    /// The earliest time first.
    Oldest,
}

impl From<List> for engine::List {
    fn from(list: List) -> Self {
        let mut filter = Filter::default();
        (filter.queue, filter.kind, filter.state) = (list.queue, list.kind, list.state);
        (filter.tenant, filter.key, filter.tag) = (list.tenant, list.key, list.tag);
        (filter.parent, filter.flow) = (list.parent, list.flow);
        (filter.created_from, filter.created_until) = (list.created_from, list.created_until);
        (filter.due_from, filter.due_until) = (list.due_from, list.due_until);
        (filter.ended_from, filter.ended_until) = (list.ended_from, list.ended_until);
        (filter.id, filter.text, filter.fields) = (list.id, list.text, list.fields);
        let limit = list.limit.unwrap_or(PAGE_DEFAULT);
        let page = Self::new(filter).after(list.after).limit(limit);
        match list.order {
            Some(Order::Oldest) => page.order(ListOrder::Oldest),
            Some(Order::Newest) => page.order(ListOrder::Newest),
            None => page,
        }
    }
}

impl From<engine::List> for List {
    fn from(list: engine::List) -> Self {
        let order = match list.order {
            order if order == list.sorted_by().usual_order() => None,
            ListOrder::Newest => Some(Order::Newest),
            ListOrder::Oldest => Some(Order::Oldest),
        };
        let filter = list.filter;
        Self {
            queue: filter.queue,
            kind: filter.kind,
            state: filter.state,
            tenant: filter.tenant,
            key: filter.key,
            tag: filter.tag,
            parent: filter.parent,
            flow: filter.flow,
            created_from: filter.created_from,
            created_until: filter.created_until,
            due_from: filter.due_from,
            due_until: filter.due_until,
            ended_from: filter.ended_from,
            ended_until: filter.ended_until,
            id: filter.id,
            text: filter.text,
            fields: filter.fields,
            order,
            after: list.after,
            limit: Some(list.limit),
        }
    }
}

/// Query for statistics of lanes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct StatsQuery {
    /// Only lanes of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name, required = false))]
    pub queue: Option<Name>,
    /// Whether to include ready jobs by priority.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    #[cfg_attr(feature = "openapi", param(required = false))]
    pub by_priority: bool,
}

impl From<StatsQuery> for engine::StatsRequest {
    fn from(query: StatsQuery) -> Self {
        let mut request = Self::default();
        request.queue = query.queue;
        request.by_priority = query.by_priority;
        request
    }
}

impl From<engine::StatsRequest> for StatsQuery {
    fn from(request: engine::StatsRequest) -> Self {
        Self { queue: request.queue, by_priority: request.by_priority }
    }
}

/// Statistics of lanes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stats {
    /// The lanes.
    pub lanes: Vec<Lane>,
}

/// Statistics of a lane.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "documented at core's `LaneStats`")]
pub struct Lane {
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: Name,
    pub scheduled: u64,
    pub blocked: u64,
    pub available: u64,
    pub running: u64,
    pub paused: u64,
    pub completed: u64,
    pub dead: u64,
    pub cancelled: u64,
    pub expired: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub head_ready_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub next_due_at: Option<Timestamp>,
    /// Why claims skip it: `queue_paused`, `kind_paused` or `no_permits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Gate>))]
    pub gate: Option<String>,
    /// Its ready jobs by priority, most urgent first, if requested. Their sum may be less than
    /// `available`, because the numbers of priorities and of counted jobs are limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub priorities: Vec<LanePriority>,
}

/// The ready jobs of one priority in a lane.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LanePriority {
    /// The priority.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Priority))]
    pub priority: i32,
    /// Minimum number of ready jobs; there may be more.
    pub available: u64,
    /// Since when the first of them is ready.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub head_ready_at: Timestamp,
}

impl From<engine::PriorityStats> for LanePriority {
    fn from(stats: engine::PriorityStats) -> Self {
        let engine::PriorityStatsFields { priority, available, head_ready_at } = stats.into();
        Self { priority, available, head_ready_at }
    }
}

impl From<LanePriority> for engine::PriorityStats {
    fn from(priority: LanePriority) -> Self {
        let LanePriority { priority, available, head_ready_at } = priority;
        engine::PriorityStatsFields { priority, available, head_ready_at }.into()
    }
}

impl From<Vec<engine::LaneStats>> for Stats {
    fn from(lanes: Vec<engine::LaneStats>) -> Self {
        let lane = |lane: engine::LaneStatsFields| Lane {
            queue: lane.queue,
            kind: lane.kind,
            scheduled: lane.scheduled,
            blocked: lane.blocked,
            available: lane.available,
            running: lane.running,
            paused: lane.paused,
            completed: lane.completed,
            dead: lane.dead,
            cancelled: lane.cancelled,
            expired: lane.expired,
            head_ready_at: lane.head_ready_at,
            next_due_at: lane.next_due_at,
            gate: lane.gate.map(|gate| gate_name(gate).to_owned()),
            priorities: lane.priorities.into_iter().map(Into::into).collect(),
        };
        Self { lanes: lanes.into_iter().map(Into::into).map(lane).collect() }
    }
}

impl Stats {
    /// Converts to the core reply.
    pub fn into_core(self) -> Vec<engine::LaneStats> {
        let lane = |lane: Lane| engine::LaneStatsFields {
            queue: lane.queue,
            kind: lane.kind,
            scheduled: lane.scheduled,
            blocked: lane.blocked,
            available: lane.available,
            running: lane.running,
            paused: lane.paused,
            completed: lane.completed,
            dead: lane.dead,
            cancelled: lane.cancelled,
            expired: lane.expired,
            head_ready_at: lane.head_ready_at,
            next_due_at: lane.next_due_at,
            gate: lane.gate.as_deref().and_then(gate_named),
            priorities: lane.priorities.into_iter().map(Into::into).collect(),
        };
        self.lanes.into_iter().map(lane).map(Into::into).collect()
    }
}

const GATES: [Gate; 5] =
    [Gate::QueuePaused, Gate::QueueHeld, Gate::KindPaused, Gate::NoPermits, Gate::Limited];

const fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::QueuePaused => "queue_paused",
        Gate::QueueHeld => "queue_held",
        Gate::KindPaused => "kind_paused",
        Gate::NoPermits => "no_permits",
        Gate::Limited => "limited",
        _ => "other",
    }
}

fn gate_named(name: &str) -> Option<Gate> {
    GATES.into_iter().find(|gate| gate_name(*gate) == name)
}

/// A page of the open sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Workers {
    /// One entry for each session, by id.
    pub workers: Vec<Worker>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// An open session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    /// Id of the session.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::SessionId))]
    pub session: SessionId,
    /// Display name of the worker.
    pub worker: String,
    /// When it was opened.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub opened_at: Timestamp,
    /// When it expires without a heartbeat.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub expires_at: Timestamp,
    /// Number of jobs it holds.
    pub running: u64,
    /// The description that the worker sent.
    #[serde(default, skip_serializing_if = "WorkerInfo::is_empty")]
    pub info: WorkerInfo,
}

impl From<Vec<engine::SessionInfo>> for Workers {
    fn from(sessions: Vec<engine::SessionInfo>) -> Self {
        let worker = |info: engine::SessionInfoFields| Worker {
            session: info.id,
            worker: info.worker,
            opened_at: info.opened_at,
            expires_at: info.expires_at,
            running: info.running,
            info: info.info.into(),
        };
        Self { workers: sessions.into_iter().map(Into::into).map(worker).collect(), next: None }
    }
}

impl Workers {
    /// Converts to the core reply.
    pub fn into_core(self) -> Vec<engine::SessionInfo> {
        let info = |worker: Worker| engine::SessionInfoFields {
            id: worker.session,
            worker: worker.worker,
            opened_at: worker.opened_at,
            expires_at: worker.expires_at,
            running: worker.running,
            info: worker.info.into(),
        };
        self.workers.into_iter().map(info).map(Into::into).collect()
    }
}
