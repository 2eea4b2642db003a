//! The paths of the API, as the server serves them and clients call them.

/// Paths with nothing to fill in.
macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident = $path:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = $path;)+
    };
}

paths! {
    /// `POST` one job, `GET` a page of jobs.
    JOBS = "/v1/jobs";
    /// `POST` many jobs.
    JOBS_BATCH = "/v1/jobs/batch";
    /// `POST` ids, get jobs.
    JOBS_GET = "/v1/jobs/get";
    /// `POST` changes of jobs.
    JOBS_CHANGE = "/v1/jobs/change";
    /// `GET` one job.
    JOB = "/v1/jobs/{id}";
    /// `POST` a change of one job.
    JOB_CHANGE = "/v1/jobs/{id}/change";
    /// `GET` the raw bytes of a part or the result, `PUT` those of a part of a running job.
    JOB_PART = "/v1/jobs/{id}/{part}";
    /// `GET` a page of dead letters.
    DEAD = "/v1/dead";
    /// `POST` gives dead letters another life.
    DEAD_REPLAY = "/v1/dead/replay";
    /// `POST` throws dead letters away.
    DEAD_DISCARD = "/v1/dead/discard";
    /// `POST` opens a session.
    SESSIONS = "/v1/sessions";
    /// `DELETE` closes a session.
    SESSION = "/v1/sessions/{session}";
    /// `POST` a sign of life.
    HEARTBEAT = "/v1/heartbeat";
    /// `POST` a claim.
    CLAIM = "/v1/claim";
    /// `POST` a wait for something to claim.
    WAIT = "/v1/wait";
    /// `POST` reports, perhaps with the next claim.
    SETTLE = "/v1/settle";
    /// `POST` updates of running jobs.
    UPDATE = "/v1/update";
    /// `GET` lanes in numbers.
    STATS = "/v1/stats";
    /// `GET` queues over time.
    SERIES = "/v1/series";
    /// `GET` how many workers a queue needs.
    SCALE = "/v1/scale";
    /// `GET` the open sessions.
    WORKERS = "/v1/workers";
    /// `GET` all settings, `POST` changes of them.
    SETTINGS = "/v1/settings";
    /// `GET` all queues.
    QUEUES = "/v1/queues";
    /// `GET` one queue, `PATCH` its settings.
    QUEUE = "/v1/queues/{queue}";
    /// `GET` what was removed or expired, and when.
    HISTORY = "/v1/history";
    /// `GET` all kinds.
    KINDS = "/v1/kinds";
    /// `GET` one kind, `PATCH` its settings, `PUT` its rules or `DELETE` them.
    KIND = "/v1/kinds/{kind}";
    /// `GET` a page of schedules.
    SCHEDULES = "/v1/schedules";
    /// `GET`, `PUT`, `PATCH` or `DELETE` one schedule.
    SCHEDULE = "/v1/schedules/{name}";
    /// `POST` enqueues the job of a schedule now.
    SCHEDULE_TRIGGER = "/v1/schedules/{name}/trigger";
    /// `GET` a page of what was done, and by whom.
    AUDIT = "/v1/audit";
    /// `POST` operations on records and logs.
    RECORDS = "/v1/records";
    /// `POST` one step of maintenance.
    MAINTAIN = "/v1/maintain";
    /// `POST` a check of the whole store.
    CHECK = "/v1/check";
    /// `GET` what the engine behind the server can do.
    CAPABILITIES = "/v1/capabilities";
    /// `GET` whether the store answers, stamped.
    HEALTH = "/v1/health";
    /// `GET` whether the process lives.
    HEALTHZ = "/healthz";
    /// `GET` whether the server can serve.
    READYZ = "/readyz";
    /// `GET` metrics in Prometheus' text format.
    METRICS = "/metrics";
    /// `GET` the description of all this for programs.
    OPENAPI = "/openapi.json";
}

/// The path of one session.
pub fn session(session: &str) -> String {
    let mut path = format!("{SESSIONS}/");
    for byte in session.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => path.push(byte as char),
            // A dot too: `.` and `..` are steps in a path.
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
