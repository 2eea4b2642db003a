-- Jobs: an append-only table for what a producer enqueued, and narrow tables for what changes.
--
-- Every change of a job happens under the lock of its row in `job`, except the path of a plain job
-- (ready -> lease -> finished), where each step deletes the row of the one before. ADR 003 gives the reasons.

-- The job as enqueued. Only `lane` is ever updated, when the job is moved to another queue. A job without a row in `life`, `lease` and `finished` is still in that state.
-- `spec` holds the fields that few jobs have. Partitioned by the time in the ids, so that retention can remove many
-- old jobs at once; ids outside of all partitions are in the default partition.
CREATE TABLE {s}.job (
    id         uuid PRIMARY KEY,
    created_at bigint NOT NULL,
    run_at     bigint NOT NULL,
    rank       bigint NOT NULL,
    seq        bigint NOT NULL,
    lane       integer NOT NULL,
    priority   integer NOT NULL,
    state      smallint NOT NULL,
    spec       text,
    payload    bytea,
    envelope   text
) PARTITION BY RANGE (id);
CREATE TABLE {s}.job_default PARTITION OF {s}.job DEFAULT;

-- The current state of a job that has changed since it was enqueued. `tail` holds the fields that few jobs have.
CREATE TABLE {s}.life (
    id          uuid PRIMARY KEY,
    run_at      bigint NOT NULL,
    rank        bigint NOT NULL,
    seq         bigint NOT NULL,
    ready_at    bigint NOT NULL,
    started_at  bigint,
    finished_at bigint,
    changed_at  bigint NOT NULL,
    transitions bigint NOT NULL,
    priority    integer NOT NULL,
    attempt     bigint NOT NULL,
    failures    bigint NOT NULL,
    crashes     bigint NOT NULL,
    state       smallint NOT NULL,
    flags       smallint NOT NULL,
    tail        text
) WITH (fillfactor = 80);

-- Parts other than the payload, and edited payloads (`bytes` is null if the payload was removed).
CREATE TABLE {s}.part (
    id       uuid NOT NULL,
    name     smallint NOT NULL,
    bytes    bytea,
    envelope text,
    PRIMARY KEY (id, name)
);
ALTER TABLE {s}.part ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- A job has a row in exactly one of the next five tables. Those that change quickly are vacuumed early.
CREATE TABLE {s}.ready (
    lane  integer NOT NULL,
    flags smallint NOT NULL,
    rank  bigint NOT NULL,
    seq   bigint NOT NULL,
    id    uuid NOT NULL,
    PRIMARY KEY (lane, rank, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
CREATE TABLE {s}.lease (
    id         uuid PRIMARY KEY,
    token      uuid NOT NULL,
    claim_no   bigint NOT NULL,
    started_at bigint NOT NULL,
    seq        bigint NOT NULL,
    attempt    bigint NOT NULL,
    lane       integer NOT NULL,
    flags      smallint NOT NULL,
    session    text COLLATE "C" NOT NULL,
    -- The group of the job, if limits by group count it.
    grp        text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
CREATE INDEX lease_session ON {s}.lease (session, claim_no);
CREATE INDEX lease_group ON {s}.lease (grp, lane) WHERE grp IS NOT NULL;
CREATE TABLE {s}.scheduled (
    run_at bigint NOT NULL,
    seq    bigint NOT NULL,
    id     uuid NOT NULL,
    lane   integer NOT NULL,
    PRIMARY KEY (run_at, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
-- The scheduled jobs of a lane, for listings and for its next due time.
CREATE INDEX scheduled_lane ON {s}.scheduled (lane, run_at, id);
-- Blocked and paused jobs.
CREATE TABLE {s}.aside (
    id    uuid PRIMARY KEY,
    lane  integer NOT NULL,
    state smallint NOT NULL
);
CREATE INDEX aside_lane ON {s}.aside (lane, state);
-- Ended jobs. A job that was completed by the fast path has a token and its last attempt here instead of in `life`.
-- `own`: the job has its own retention, see `deadline`. Partitioned like `job`.
CREATE TABLE {s}.finished (
    id         uuid PRIMARY KEY,
    at         bigint NOT NULL,
    started_at bigint,
    attempt    bigint,
    lane       integer NOT NULL,
    state      smallint NOT NULL,
    own        boolean NOT NULL,
    token      uuid,
    worker     text,
    result     bytea
) PARTITION BY RANGE (id);
CREATE TABLE {s}.finished_default PARTITION OF {s}.finished DEFAULT;
CREATE INDEX finished_age ON {s}.finished (lane, state, at) WHERE NOT own;
CREATE INDEX finished_own ON {s}.finished (lane, at) WHERE own;
CREATE INDEX finished_dead ON {s}.finished (id) WHERE state = {dead};

-- Empty partitions (no id is below the lowest), so that the default partition is never the only one: with a single
-- partition, PostgreSQL 18 ignores disabled scan types and would read the whole default partition for each job.
CREATE TABLE {s}.job_none PARTITION OF {s}.job
    FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
CREATE TABLE {s}.finished_none PARTITION OF {s}.finished
    FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');

-- The partitions `job_<no>` and `finished_<no>`, each pair for a range of ids.
CREATE TABLE {s}.partition (
    no        integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    from_id   uuid NOT NULL,
    upto_id   uuid NOT NULL,
    -- Increases when a job with an old id is stored in the partition: a survey that began earlier is void.
    late_jobs bigint NOT NULL DEFAULT 0,
    emptied   boolean NOT NULL DEFAULT false
);
