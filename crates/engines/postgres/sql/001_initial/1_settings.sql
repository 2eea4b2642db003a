-- Lanes, settings and sessions.
--
-- In all files of this step: times are milliseconds since 1970, and states are numbered as in
-- windlass_core::model::State (the view `jobs` names them).

-- A lane is a queue and a kind; jobs refer to it by number. A lane without jobs for a week is deleted, and its number
-- is never used again.
CREATE TABLE {s}.lane (
    id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue   text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    -- When the lane last received jobs, to about half a minute.
    used_at bigint NOT NULL DEFAULT 0,
    -- The lane has no live jobs and was not used for minutes: claims skip it most of the time. A hint: every writer
    -- that adds a job clears it, and maintenance clears it for lanes with ready jobs.
    idle    boolean NOT NULL DEFAULT false,
    UNIQUE (queue, kind)
);
CREATE INDEX lane_busy ON {s}.lane (queue, kind) WHERE NOT idle;

-- Settings that differ from the defaults. `settings` is authoritative; the other columns repeat the parts that
-- statements need.
CREATE TABLE {s}.queue (
    name     text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,
    -- No job of the queue may start (windlass_core::policy::allowance).
    closed   boolean NOT NULL,
    -- The queue limits its depth: enqueues lock this row.
    limited  boolean NOT NULL,
    -- Enqueues must read the settings: the queue limits depth or age, is not ordered by priority, lists a limit by
    -- group, or records events.
    special  boolean NOT NULL,
    -- The queue lists limits, or a report holds it: the executor decides which of its jobs may start.
    metered  boolean NOT NULL,
    -- It is metered only by limits over all jobs: the executor decides how many of its plain jobs may start.
    gated    boolean NOT NULL,
    -- Tenants take turns: enqueues read `turn`, claims write `served`.
    fair     boolean NOT NULL DEFAULT false,
    -- The queue records events: the executor decides every step of its jobs.
    recorded boolean NOT NULL DEFAULT false
);
CREATE INDEX queue_recorded ON {s}.queue (name) WHERE recorded;
CREATE TABLE {s}.kind (
    name     text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,
    -- No job of the kind may start, or only a limited number (windlass_core::policy::allowance).
    closed   boolean NOT NULL,
    limited  boolean NOT NULL,
    -- The kind lists a limit by group: enqueues must read the settings.
    special  boolean NOT NULL,
    -- The kind lists limits: the executor decides which of its jobs may start.
    metered  boolean NOT NULL
);
-- Named limits, as JSON.
CREATE TABLE {s}.limit_rule (
    name     text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,
    by_group boolean NOT NULL
);

-- Lanes from which jobs may start. The only place in SQL that reads gates; Rust computes them when it saves settings.
CREATE VIEW {s}.open_lane AS
SELECT l.id, l.queue, l.kind, l.idle,
    EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND (k.limited OR k.metered))
        OR EXISTS (SELECT FROM {s}.queue q WHERE q.name = l.queue AND (q.metered AND NOT q.gated OR q.recorded)) AS limited,
    EXISTS (SELECT FROM {s}.queue q WHERE q.name = l.queue AND q.gated) AS gated,
    EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND k.metered)
        OR EXISTS (SELECT FROM {s}.queue q WHERE q.name = l.queue AND q.metered) AS metered
FROM {s}.lane l
WHERE NOT EXISTS (SELECT FROM {s}.queue q WHERE q.name = l.queue AND q.closed)
    AND NOT EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND k.closed);

CREATE TABLE {s}.session (
    id         text COLLATE "C" PRIMARY KEY,
    worker     text NOT NULL,
    opened_at  bigint NOT NULL,
    ttl_ms     bigint NOT NULL,
    expires_at bigint NOT NULL,
    alone      boolean NOT NULL,
    remote     boolean NOT NULL,
    -- The worker's description of itself, as JSON.
    info       text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
