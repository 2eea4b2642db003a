//! The permission that each route requires, in one table. A route that is missing requires `admin`;
//! a test compares the table with the routes.

use http::Method;
use windlass_services::Grants;
use windlass_wire::routes as paths;

/// The permission that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No permission: for health probes and signing in.
    Nothing,
    /// Any valid key: for routes that clients call first.
    Key,
    /// `enqueue:…`; the route checks the kinds.
    Enqueue,
    /// `work:…`; the route checks the queues. Reports are restricted by their leases.
    Work,
    /// The `view` permission, or `enqueue:…`; the route shows producers the status of jobs of their kinds only.
    Status,
    /// The `view` permission.
    View,
    /// The `view` permission, checked with cached keys while the store does not answer: for
    /// monitoring.
    Watch,
    /// The `admin` permission.
    Admin,
}

impl Needs {
    pub(crate) fn met_by(self, may: &Grants) -> bool {
        match self {
            Self::Nothing | Self::Key => true,
            Self::Enqueue => may.is_producer(),
            Self::Work => may.is_worker(),
            Self::Status => may.may_view() || may.is_producer(),
            Self::View | Self::Watch => may.may_view(),
            Self::Admin => may.is_admin(),
        }
    }

    /// The permission in the syntax of keys.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Key => "any key",
            Self::Enqueue => "enqueue:KIND",
            Self::Work => "work:QUEUE",
            Self::Status | Self::View | Self::Watch => "view",
            Self::Admin => "admin",
        }
    }
}

use Needs::{Admin, Enqueue, Key, Nothing, Status, View, Watch, Work};

/// Required permissions by method and path.
pub(crate) const TABLE: &[(&str, &str, Needs)] = &[
    ("POST", paths::JOBS, Enqueue),
    ("GET", paths::JOBS, View),
    ("POST", paths::JOBS_BATCH, Enqueue),
    ("POST", paths::JOBS_GET, View),
    ("POST", paths::JOBS_IMPORT, Admin),
    ("POST", paths::JOBS_CHANGE, Admin),
    ("GET", paths::JOB, Status),
    ("POST", paths::JOB_CANCEL, Admin),
    ("POST", paths::JOB_DISCARD, Admin),
    ("POST", paths::JOB_KILL, Admin),
    ("POST", paths::JOB_MOVE, Admin),
    ("POST", paths::JOB_PAUSE, Admin),
    ("POST", paths::JOB_PROMOTE, Admin),
    ("POST", paths::JOB_REPLAY, Admin),
    ("POST", paths::JOB_REPRIORITISE, Admin),
    ("POST", paths::JOB_RESCHEDULE, Admin),
    ("POST", paths::JOB_RESUME, Admin),
    ("POST", paths::JOB_SIGNAL, Admin),
    ("GET", paths::JOB_WHY, View),
    ("GET", paths::JOB_PART, View),
    ("PUT", paths::JOB_PART, Work),
    ("POST", paths::FLOWS, Enqueue),
    ("GET", paths::FLOW, View),
    ("POST", paths::FLOW_CANCEL, Admin),
    ("POST", paths::FLOW_REPLAY, Admin),
    ("GET", paths::DEAD, View),
    ("POST", paths::DEAD_REPLAY, Admin),
    ("POST", paths::DEAD_DISCARD, Admin),
    ("POST", paths::BULKS, Admin),
    ("GET", paths::BULKS, View),
    ("GET", paths::BULK, View),
    ("POST", paths::BULK_CANCEL, Admin),
    ("POST", paths::SESSIONS, Work),
    ("DELETE", paths::SESSION, Work),
    ("POST", paths::HEARTBEAT, Work),
    ("POST", paths::CLAIM, Work),
    ("POST", paths::WAIT, Work),
    ("POST", paths::SETTLE, Work),
    ("POST", paths::UPDATE, Work),
    ("GET", paths::STATS, View),
    ("GET", paths::SERIES, View),
    ("GET", paths::SCALE, View),
    ("GET", paths::HISTORY, View),
    ("GET", paths::EVENTS, View),
    ("GET", paths::EVENT_STREAM, View),
    ("GET", paths::WORKERS, View),
    ("GET", paths::SETTINGS, View),
    ("POST", paths::SETTINGS, Admin),
    ("GET", paths::QUEUES, View),
    ("GET", paths::QUEUE, View),
    ("PATCH", paths::QUEUE, Admin),
    ("GET", paths::KINDS, View),
    ("GET", paths::KIND, View),
    ("PATCH", paths::KIND, Admin),
    ("PUT", paths::KIND, Admin),
    ("DELETE", paths::KIND, Admin),
    ("GET", paths::LIMITS, View),
    ("GET", paths::LIMIT, View),
    ("PUT", paths::LIMIT, Admin),
    ("DELETE", paths::LIMIT, Admin),
    ("POST", paths::LIMIT_TAKE, Work),
    ("GET", paths::SCHEDULES, View),
    ("GET", paths::SCHEDULE, View),
    // A schedule outlives the key that created it, so producers may not create one.
    ("PUT", paths::SCHEDULE, Admin),
    ("PATCH", paths::SCHEDULE, Admin),
    ("DELETE", paths::SCHEDULE, Admin),
    ("POST", paths::SCHEDULE_TRIGGER, Admin),
    ("GET", paths::AUDIT, View),
    ("GET", paths::KEYS, Admin),
    ("POST", paths::KEYS, Admin),
    ("DELETE", paths::KEY, Admin),
    ("POST", paths::RECORDS, Admin),
    ("POST", paths::MAINTAIN, Admin),
    ("POST", paths::CHECK, Admin),
    ("GET", paths::CAPABILITIES, Key),
    ("GET", paths::HEALTH, Key),
    ("GET", paths::HEALTHZ, Nothing),
    ("GET", paths::READYZ, Nothing),
    ("GET", paths::OPENAPI, Nothing),
    ("GET", paths::METRICS, Watch),
    // The dashboard.
    ("GET", "/", View),
    ("GET", "/queues", View),
    ("GET", "/queues/{queue}", View),
    ("POST", "/queues/{queue}/{change}", Admin),
    ("POST", "/kinds/{kind}/{change}", Admin),
    ("GET", "/jobs", View),
    ("POST", "/jobs/change", Admin),
    ("GET", "/jobs/{id}", View),
    ("POST", "/jobs/{id}/{change}", Admin),
    ("GET", "/dead", View),
    ("GET", "/bulk", View),
    ("POST", "/bulk", Admin),
    ("GET", "/bulk/{id}", View),
    ("POST", "/bulk/{id}/{change}", Admin),
    ("GET", "/schedules", View),
    ("GET", "/workers", View),
    ("GET", "/audit", View),
    ("GET", "/login", Nothing),
    ("POST", "/login", Nothing),
    ("POST", "/logout", Nothing),
    ("GET", "/assets/{file}", Nothing),
];

/// The permission that a route requires.
pub(crate) fn needs(method: &Method, path: &str) -> Needs {
    // HEAD requires the same permission as GET.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let row = TABLE.iter().find(|(known, at, _)| *known == method.as_str() && *at == path);
    row.map_or(Admin, |(_, _, needs)| *needs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_lists_every_route_exactly_once() {
        let served: BTreeSet<_> = crate::routes::served().into_iter().collect();
        let reported: BTreeSet<_> = TABLE
            .iter()
            .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
            .collect();
        assert_eq!(reported, served);
        let rows: BTreeSet<_> = TABLE.iter().map(|(method, path, _)| (method, path)).collect();
        assert_eq!(rows.len(), TABLE.len(), "each once");
    }

    #[test]
    fn unlisted_routes_need_an_admin() {
        assert_eq!(needs(&Method::DELETE, paths::JOBS), Admin);
        assert_eq!(needs(&Method::GET, "/v1/new"), Admin);
        assert_eq!(needs(&Method::HEAD, paths::JOBS), View);
    }
}
