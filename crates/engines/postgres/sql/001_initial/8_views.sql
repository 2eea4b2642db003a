-- Views for people.

-- Every job, with its state by name and its times as timestamps.
CREATE VIEW {s}.jobs AS
SELECT j.id, n.queue, n.kind,
    (ARRAY[{state_names}])[1 + coalesce(f.state, CASE WHEN e.id IS NOT NULL THEN {running} END, l.state, j.state)]
        AS state,
    coalesce(l.priority, j.priority) AS priority,
    to_timestamp(coalesce(l.run_at, j.run_at) / 1000.0) AS run_at,
    to_timestamp(j.created_at / 1000.0) AS created_at,
    to_timestamp(coalesce(e.started_at, f.started_at, l.started_at) / 1000.0) AS started_at,
    to_timestamp(coalesce(f.at, l.finished_at) / 1000.0) AS finished_at,
    coalesce(e.attempt, f.attempt, l.attempt, 0) AS attempt,
    coalesce(l.failures, 0) AS failures,
    CASE WHEN f.token IS NOT NULL THEN 0 ELSE coalesce(l.crashes, 0) END AS crashes,
    l.tail::json -> 'error' AS error,
    j.spec::json AS spec, j.payload
FROM {s}.job j JOIN {s}.lane n ON n.id = j.lane
LEFT JOIN {s}.life l ON l.id = j.id
LEFT JOIN {s}.lease e ON e.id = j.id
LEFT JOIN {s}.finished f ON f.id = j.id;

-- Dead jobs, found by an index of their own.
CREATE VIEW {s}.dead_jobs AS
SELECT j.* FROM {s}.finished d JOIN {s}.jobs j ON j.id = d.id WHERE d.state = {dead};

-- Jobs per lane and state.
CREATE VIEW {s}.queue_stats AS
SELECT n.queue, n.kind, sum(t.scheduled) AS scheduled, sum(t.blocked) AS blocked,
    sum(t.available) AS available, sum(t.running) AS running, sum(t.paused) AS paused,
    sum(t.completed) AS completed, sum(t.dead) AS dead, sum(t.cancelled) AS cancelled, sum(t.expired) AS expired
FROM {s}.tally t JOIN {s}.lane n ON n.id = t.lane GROUP BY n.queue, n.kind;

-- Removed jobs per hour of removal, queue, kind, tenant and outcome. The tenant is null for jobs without one, and `other`
-- for all beyond the first {removed_tenants_max} of an hour, queue and kind.
CREATE VIEW {s}.removed_hourly AS
SELECT to_timestamp(r.hour / 1000.0) AS hour, r.queue, r.kind, nullif(r.tenant, '') AS tenant,
    (ARRAY[{state_names}])[1 + r.outcome] AS outcome, r.jobs
FROM {s}.removed r;
