-- The tables of a Windlass directory, format 1.
--
-- `job` is append-only and holds the jobs as enqueued; narrow tables hold what changes. `n` is the row key of a job,
-- computed from its id (src/rows/key.rs), so that ids need no index. Times are milliseconds since 1970. States are
-- numbered as in windlass_core::model::State.

-- Single values: the identity of the store (`store`), how often it was opened (`opens`), and the last version given to
-- a record (`record_version`).
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- A lane is a queue and a kind; jobs refer to it by number. A lane without jobs for a week is deleted, except for the
-- one with the highest number, so that numbers are never reused.
CREATE TABLE lane (
    id         INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    -- When maintenance first found no live job in the lane; null while it has live jobs.
    idle_since INTEGER,
    UNIQUE (queue, kind)
);
-- Number of ended jobs per lane and state. Live jobs are counted when the directory is opened; ended ones may be too
-- many for that.
CREATE TABLE ended_count (
    lane  INTEGER NOT NULL,
    state INTEGER NOT NULL,
    jobs  INTEGER NOT NULL,
    PRIMARY KEY (lane, state)
) WITHOUT ROWID;
-- Settings that differ from the defaults, as JSON.
CREATE TABLE queue (name TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE kind (name TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
-- Limits, as JSON.
CREATE TABLE limit_rule (name TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
-- What a limit remembers about the starts of a group ('' for all jobs), as JSON. Deleted once it equals a new one.
CREATE TABLE meter (
    name    TEXT NOT NULL,
    grp     TEXT NOT NULL,
    meter   TEXT NOT NULL,
    idle_at INTEGER NOT NULL,
    PRIMARY KEY (name, grp)
) WITHOUT ROWID;
-- Sessions of workers, as JSON.
CREATE TABLE session (id TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID;

-- The job as enqueued, never updated. A job without a row in `life` and without a lease is still in that state.
-- `body` packs its numbers (src/rows/body.rs); `spec` holds the fields that few jobs have, as JSON.
CREATE TABLE job (
    n        INTEGER PRIMARY KEY,
    id       BLOB NOT NULL,
    lane     INTEGER NOT NULL,
    body     BLOB NOT NULL,
    spec     TEXT,
    payload  BLOB,
    envelope TEXT
);

-- The current state of a job that has changed since it was enqueued. `body` packs its numbers and its latest attempt;
-- `tail` holds the fields that few jobs have, as JSON.
CREATE TABLE life (
    n     INTEGER PRIMARY KEY,
    lane  INTEGER NOT NULL,
    state INTEGER NOT NULL,
    body  BLOB NOT NULL,
    tail  TEXT
);

-- Parts other than the payload, and edited payloads.
CREATE TABLE part (
    n        INTEGER NOT NULL,
    name     INTEGER NOT NULL,
    bytes    BLOB NOT NULL,
    envelope TEXT,
    PRIMARY KEY (n, name)
) WITHOUT ROWID;

-- Places: a job that has not ended is in exactly one of the next four tables.
--
-- Ready jobs, in runs: `jobs` lists consecutive jobs of one lane and rank, and `seq` is the sequence number of the
-- first of them when the run was written (src/rows/ready.rs).
CREATE TABLE ready (
    lane INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    jobs BLOB NOT NULL,
    PRIMARY KEY (lane, rank, seq)
) WITHOUT ROWID;
-- Jobs that become ready at a time.
CREATE TABLE scheduled (
    run_at INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    id     BLOB NOT NULL,
    lane   INTEGER NOT NULL,
    PRIMARY KEY (run_at, seq)
) WITHOUT ROWID;
-- The scheduled jobs of a lane, for listings and for its next due time.
CREATE INDEX scheduled_lane ON scheduled (lane, run_at, id);
-- Blocked and paused jobs.
CREATE TABLE aside (
    n     INTEGER PRIMARY KEY,
    lane  INTEGER NOT NULL,
    state INTEGER NOT NULL
);
CREATE INDEX aside_lane ON aside (lane, state);
-- Running jobs: the leases of one transaction. A row is deleted when all of its leases have ended
-- (src/rows/leases.rs).
CREATE TABLE lease (
    number INTEGER PRIMARY KEY,
    jobs   BLOB NOT NULL,
    -- The highest sequence number among the jobs when the row was written.
    seq    INTEGER NOT NULL
);

-- Ended jobs, for retention and listings: jobs of one lane and state that ended within a second, by the time at which the
-- last of them ended (src/rows/ended.rs).
CREATE TABLE ended (
    lane   INTEGER NOT NULL,
    state  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    number INTEGER NOT NULL,
    jobs   BLOB NOT NULL,
    PRIMARY KEY (lane, state, at, number)
) WITHOUT ROWID;
-- Ended jobs with a retention of their own, which is in `deadline`.
CREATE TABLE ended_own (
    lane  INTEGER NOT NULL,
    state INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    id    BLOB NOT NULL,
    PRIMARY KEY (lane, state, at, id)
) WITHOUT ROWID;

-- Ordering keys: the holder of a key, and the jobs that wait in line for it.
CREATE TABLE key_holder (
    queue TEXT NOT NULL,
    key   TEXT NOT NULL,
    id    BLOB NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE TABLE key_line (
    queue TEXT NOT NULL,
    key   TEXT NOT NULL,
    seq   INTEGER NOT NULL,
    id    BLOB NOT NULL,
    PRIMARY KEY (queue, key, seq)
) WITHOUT ROWID;

-- Jobs of lanes with limits by group: those in the line of their group, and those that have left it, are ready and have
-- not started. `name` is the limit that a job waits for. Ready jobs are in the order of claims, and not of groups, so that
-- a claim deletes neighbours.
CREATE TABLE group_line (
    lane     INTEGER NOT NULL,
    grp      TEXT NOT NULL,
    priority INTEGER NOT NULL,
    run_at   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    id       BLOB NOT NULL,
    cost     INTEGER NOT NULL,
    name     TEXT NOT NULL,
    PRIMARY KEY (lane, grp, priority, run_at, seq)
) WITHOUT ROWID;
CREATE TABLE group_ready (
    lane     INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    run_at   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    id       BLOB NOT NULL,
    grp      TEXT NOT NULL,
    cost     INTEGER NOT NULL,
    PRIMARY KEY (lane, priority, run_at, seq)
) WITHOUT ROWID;

-- The dependencies of jobs, by their position: the job that each waits for, and the rest as JSON.
CREATE TABLE input (
    id       BLOB NOT NULL,
    position INTEGER NOT NULL,
    upstream BLOB NOT NULL,
    open     INTEGER NOT NULL,
    input    TEXT,
    PRIMARY KEY (id, position)
) WITHOUT ROWID;
CREATE INDEX input_open ON input (upstream, id, position) WHERE open;
-- Ended jobs whose dependents have not all learned how they ended.
CREATE TABLE unresolved (id BLOB PRIMARY KEY) WITHOUT ROWID;

-- Unique keys in use; `until` is null for keys that are held until the job ends.
CREATE TABLE unique_key (
    queue TEXT NOT NULL,
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    id    BLOB NOT NULL,
    until INTEGER,
    PRIMARY KEY (queue, kind, key)
) WITHOUT ROWID;
CREATE INDEX unique_window ON unique_key (until) WHERE until IS NOT NULL;

-- When jobs with a time limit of their own expire (work 0) or are removed (work 1).
CREATE TABLE deadline (
    work INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    id   BLOB NOT NULL,
    lane INTEGER NOT NULL,
    PRIMARY KEY (work, at, id)
) WITHOUT ROWID;
-- Finds lanes that still have ended jobs and must not be deleted.
CREATE INDEX deadline_lane ON deadline (lane) WHERE work = 1;
-- Waiting jobs by age, only for queues that limit the age.
CREATE TABLE aging (
    queue  TEXT NOT NULL,
    run_at INTEGER NOT NULL,
    id     BLOB NOT NULL,
    PRIMARY KEY (queue, run_at, id)
) WITHOUT ROWID;

-- Removed jobs per hour of removal, queue, kind, tenant ('' for none) and outcome.
CREATE TABLE removed (
    hour    INTEGER NOT NULL,
    queue   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    tenant  TEXT NOT NULL,
    outcome INTEGER NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (hour, queue, kind, tenant, outcome)
) WITHOUT ROWID;

-- Versioned documents with compare-and-set.
CREATE TABLE record (
    key        TEXT PRIMARY KEY,
    version    INTEGER NOT NULL,
    value      BLOB NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
-- Logs: the last number of each, and its entries.
CREATE TABLE log (name TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE log_entry (
    name   TEXT NOT NULL,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    value  BLOB NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;

-- Events: the transitions of the jobs of queues that record them (src/rows/events.rs).
--
-- A stream per queue: the number before its first event, of the last one that was dropped, of the last one, and of the
-- last one whose row was deleted.
CREATE TABLE event_stream (
    id      INTEGER PRIMARY KEY,
    queue   TEXT NOT NULL UNIQUE,
    start   INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    deleted INTEGER NOT NULL
);
-- `queue` is the queue of the job after the transition, `transition` its number in the life of the job. `state` is null for
-- removals, `reason` is JSON.
CREATE TABLE event (
    stream     INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    job        BLOB NOT NULL,
    queue      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    event      TEXT NOT NULL,
    state      INTEGER,
    attempt    INTEGER NOT NULL,
    transition INTEGER NOT NULL,
    reason     TEXT,
    error      TEXT,
    PRIMARY KEY (stream, number)
) WITHOUT ROWID;
