//! The paths of the API, shared by the server and clients.

use windlass_core::JobId;

/// Declares path constants.
macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident = $path:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = $path;)+
    };
}

paths! {
    /// `POST` enqueues one job, `GET` lists jobs.
    JOBS = "/v1/jobs";
    /// `POST` enqueues many jobs.
    JOBS_BATCH = "/v1/jobs/batch";
    /// `POST` returns jobs by id.
    JOBS_GET = "/v1/jobs/get";
    /// `POST` imports jobs of another store.
    JOBS_IMPORT = "/v1/jobs/import";
    /// `POST` changes jobs.
    JOBS_CHANGE = "/v1/jobs/change";
    /// `GET` returns one job.
    JOB = "/v1/jobs/{id}";
    /// `POST` cancels one job.
    JOB_CANCEL = "/v1/jobs/{id}/cancel";
    /// `POST` removes one ended job.
    JOB_DISCARD = "/v1/jobs/{id}/discard";
    /// `POST` ends one waiting job as dead.
    JOB_KILL = "/v1/jobs/{id}/kill";
    /// `POST` moves one job to another queue.
    JOB_MOVE = "/v1/jobs/{id}/move";
    /// `POST` pauses one job.
    JOB_PAUSE = "/v1/jobs/{id}/pause";
    /// `POST` makes one job due now.
    JOB_PROMOTE = "/v1/jobs/{id}/promote";
    /// `POST` replays one job.
    JOB_REPLAY = "/v1/jobs/{id}/replay";
    /// `POST` changes the priority of one job.
    JOB_REPRIORITISE = "/v1/jobs/{id}/reprioritise";
    /// `POST` changes the due time of one job.
    JOB_RESCHEDULE = "/v1/jobs/{id}/reschedule";
    /// `POST` resumes one paused job.
    JOB_RESUME = "/v1/jobs/{id}/resume";
    /// `POST` sends a signal to one job.
    JOB_SIGNAL = "/v1/jobs/{id}/signal";
    /// `GET` explains why one job is not running.
    JOB_WHY = "/v1/jobs/{id}/why";
    /// `GET` returns the raw bytes of a part or the result, `PUT` writes a part of a running job.
    JOB_PART = "/v1/jobs/{id}/{part}";
    /// `POST` stores a graph of jobs.
    FLOWS = "/v1/flows";
    /// `GET` returns the jobs of a flow.
    FLOW = "/v1/flows/{flow}";
    /// `POST` cancels a flow.
    FLOW_CANCEL = "/v1/flows/{flow}/cancel";
    /// `POST` replays a flow.
    FLOW_REPLAY = "/v1/flows/{flow}/replay";
    /// `GET` lists dead letters.
    DEAD = "/v1/dead";
    /// `POST` replays dead letters.
    DEAD_REPLAY = "/v1/dead/replay";
    /// `POST` discards dead letters.
    DEAD_DISCARD = "/v1/dead/discard";
    /// `POST` changes all jobs that match a filter, `GET` lists such operations.
    BULKS = "/v1/bulk";
    /// `GET` returns a bulk operation with its progress.
    BULK = "/v1/bulk/{id}";
    /// `POST` cancels a bulk operation.
    BULK_CANCEL = "/v1/bulk/{id}/cancel";
    /// `POST` opens a session.
    SESSIONS = "/v1/sessions";
    /// `DELETE` closes a session.
    SESSION = "/v1/sessions/{session}";
    /// `POST` keeps a session alive.
    HEARTBEAT = "/v1/heartbeat";
    /// `POST` claims jobs.
    CLAIM = "/v1/claim";
    /// `POST` waits for claimable jobs.
    WAIT = "/v1/wait";
    /// `POST` settles jobs, optionally with the next claim.
    SETTLE = "/v1/settle";
    /// `POST` updates running jobs.
    UPDATE = "/v1/update";
    /// `GET` returns statistics of lanes.
    STATS = "/v1/stats";
    /// `GET` returns time series of queues.
    SERIES = "/v1/series";
    /// `GET` returns the number of workers that a queue needs.
    SCALE = "/v1/scale";
    /// `GET` lists open sessions.
    WORKERS = "/v1/workers";
    /// `GET` returns all settings, `POST` changes them.
    SETTINGS = "/v1/settings";
    /// `GET` lists queues.
    QUEUES = "/v1/queues";
    /// `GET` returns one queue, `PATCH` changes its settings.
    QUEUE = "/v1/queues/{queue}";
    /// `GET` lists events of one queue.
    EVENTS = "/v1/queues/{queue}/events";
    /// `GET` streams events of one queue.
    EVENT_STREAM = "/v1/queues/{queue}/events/stream";
    /// `GET` lists removed and expired jobs.
    HISTORY = "/v1/history";
    /// `GET` lists kinds.
    KINDS = "/v1/kinds";
    /// `GET` returns one kind, `PATCH` changes its settings, `PUT` sets its rules, `DELETE` removes
    /// them.
    KIND = "/v1/kinds/{kind}";
    /// `GET` lists limits.
    LIMITS = "/v1/limits";
    /// `GET` returns one limit, `PUT` creates or replaces it, `DELETE` removes it.
    LIMIT = "/v1/limits/{limit}";
    /// `POST` takes tokens of a limit.
    LIMIT_TAKE = "/v1/limits/{limit}/take";
    /// `GET` lists schedules.
    SCHEDULES = "/v1/schedules";
    /// `GET`, `PUT`, `PATCH` or `DELETE` one schedule.
    SCHEDULE = "/v1/schedules/{name}";
    /// `POST` enqueues the job of a schedule now.
    SCHEDULE_TRIGGER = "/v1/schedules/{name}/trigger";
    /// `GET` lists audit entries.
    AUDIT = "/v1/audit";
    /// `GET` lists access keys, `POST` creates one.
    KEYS = "/v1/keys";
    /// `DELETE` revokes an access key.
    KEY = "/v1/keys/{key}";
    /// `POST` reads and writes records and logs. Between parts of Windlass, like all routes under `/internal`.
    RECORDS = "/internal/records";
    /// `POST` runs one step of maintenance.
    MAINTAIN = "/internal/maintain";
    /// `POST` checks the whole store.
    CHECK = "/internal/check";
    /// `GET` returns the capabilities of the server and its engine.
    CAPABILITIES = "/v1/capabilities";
    /// `GET` checks that the store answers.
    HEALTH = "/v1/health";
    /// `GET` is the liveness probe.
    HEALTHZ = "/healthz";
    /// `GET` is the readiness probe.
    READYZ = "/readyz";
    /// `GET` returns metrics in the Prometheus text format.
    METRICS = "/metrics";
    /// `GET` returns the OpenAPI document.
    OPENAPI = "/openapi.json";
}

/// The path of one session.
pub fn session(session: &str) -> String {
    format!("{SESSIONS}/{}", step(session))
}

/// The path that explains why a job is not running.
pub fn why(id: JobId) -> String {
    format!("{JOBS}/{id}/why")
}

/// The path of the events of a queue.
pub fn events(queue: &str) -> String {
    format!("{QUEUES}/{}/events", step(queue))
}

/// The path that takes tokens of a limit.
pub fn take(limit: &str) -> String {
    format!("{LIMITS}/{}/take", step(limit))
}

/// A text as one step of a path.
fn step(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => path.push(byte as char),
            // Dots are encoded too: `.` and `..` have a meaning in paths.
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_session_of_any_text_is_one_step_of_a_path() {
        assert_eq!(super::session("0a-b_c"), "/v1/sessions/0a-b_c");
        assert_eq!(super::session("../ü?"), "/v1/sessions/%2E%2E%2F%C3%BC%3F");
    }
}
