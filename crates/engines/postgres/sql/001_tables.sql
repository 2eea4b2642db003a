-- Version 1 of a Windlass schema. `{s}` is the schema's name.
--
-- Narrow tables for what moves, an append-only one for what does not. Times are milliseconds since
-- 1970; states are numbered as in windlass_core::model::State (views will name them). Everything but
-- the forward path of a job (ready -> lease -> finished) happens under the lock of its row in `job`;
-- docs/adr/003 says why that is enough.

-- A queue and a kind; jobs name the lane by number. Rows are never changed or removed.
CREATE TABLE {s}.lane (
    id    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    UNIQUE (queue, kind)
);

-- Settings that differ from the defaults. `settings` is the whole truth; the other columns repeat what
-- statements must see.
CREATE TABLE {s}.queue (
    name     text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,
    paused   boolean NOT NULL,
    -- Depth is limited: whoever enqueues takes this row's lock.
    limited  boolean NOT NULL,
    -- Enqueues must look at the settings: depth, age or another order than by priority.
    special  boolean NOT NULL
);
CREATE TABLE {s}.kind (
    name     text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,
    paused   boolean NOT NULL,
    permits  bigint
);

CREATE TABLE {s}.session (
    id         text COLLATE "C" PRIMARY KEY,
    worker     text NOT NULL,
    opened_at  bigint NOT NULL,
    ttl_ms     bigint NOT NULL,
    expires_at bigint NOT NULL,
    alone      boolean NOT NULL,
    remote     boolean NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What a producer handed over, written once. A job with neither a row in `life` nor a lease nor an end is
-- as it was enqueued. `spec` holds what few jobs have. Cut into leaves by the time in the ids (003_leaves.sql),
-- so that many old jobs go at once.
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
CREATE TABLE {s}.job_rest PARTITION OF {s}.job DEFAULT;

-- What became of a job since. `tail` holds what few jobs have.
CREATE TABLE {s}.life (
    id          uuid PRIMARY KEY,
    run_at      bigint NOT NULL,
    rank        bigint NOT NULL,
    seq         bigint NOT NULL,
    ready_at    bigint NOT NULL,
    started_at  bigint,
    finished_at bigint,
    priority    integer NOT NULL,
    attempt     bigint NOT NULL,
    failures    bigint NOT NULL,
    crashes     bigint NOT NULL,
    state       smallint NOT NULL,
    flags       smallint NOT NULL,
    tail        text
) WITH (fillfactor = 80);

-- Parts other than the payload, and a payload that was edited (without bytes: removed).
CREATE TABLE {s}.part (
    id       uuid NOT NULL,
    name     smallint NOT NULL,
    bytes    bytea,
    envelope text,
    PRIMARY KEY (id, name)
);
ALTER TABLE {s}.part ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Places. A job is in exactly one of these five. The hot ones are vacuumed early.
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
    session    text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
CREATE INDEX lease_session ON {s}.lease (session, claim_no);
CREATE TABLE {s}.scheduled (
    run_at bigint NOT NULL,
    seq    bigint NOT NULL,
    id     uuid NOT NULL,
    PRIMARY KEY (run_at, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
-- Blocked and paused jobs.
CREATE TABLE {s}.aside (
    id    uuid PRIMARY KEY,
    lane  integer NOT NULL,
    state smallint NOT NULL
);
-- Ended jobs. Those that were completed straight from their lease have a token, and their last attempt
-- here instead of in `life`. `own`: removed by a retention of its own, see `deadline`. Cut like `job`.
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
CREATE TABLE {s}.finished_rest PARTITION OF {s}.finished DEFAULT;
CREATE INDEX finished_age ON {s}.finished (lane, state, at) WHERE NOT own;
CREATE INDEX finished_dead ON {s}.finished (id) WHERE state = 6;

-- Ordering keys: who holds one, and who stands in line for it. The holder's row is the line's lock.
CREATE TABLE {s}.key_holder (
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    id    uuid NOT NULL,
    PRIMARY KEY (queue, key)
);
CREATE TABLE {s}.key_line (
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    seq   bigint NOT NULL,
    id    uuid NOT NULL,
    PRIMARY KEY (queue, key, seq)
);

-- Unique keys that are held; `until` is null for those held until the job ends. Its primary key is what
-- makes them unique.
CREATE TABLE {s}.unique_key (
    queue text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    id    uuid NOT NULL,
    until bigint,
    PRIMARY KEY (queue, kind, key)
);
CREATE INDEX unique_window ON {s}.unique_key (until) WHERE until IS NOT NULL;

-- When jobs with a limit of their own expire (work 0) or are removed (work 1). A row of work 0 may be
-- out of date: the job itself tells.
CREATE TABLE {s}.deadline (
    work smallint NOT NULL,
    at   bigint NOT NULL,
    id   uuid NOT NULL,
    PRIMARY KEY (work, at, id)
);
-- Waiting jobs by age, kept only for queues that limit it. Rows may be out of date, too.
CREATE TABLE {s}.aging (
    queue  text COLLATE "C" NOT NULL,
    run_at bigint NOT NULL,
    id     uuid NOT NULL,
    PRIMARY KEY (queue, run_at, id)
);

-- How many jobs are where: the sum over all rows of a lane. Every transaction adds what it changed;
-- compaction folds rows into one.
CREATE TABLE {s}.tally (
    lane      integer NOT NULL,
    scheduled bigint NOT NULL,
    blocked   bigint NOT NULL,
    available bigint NOT NULL,
    running   bigint NOT NULL,
    paused    bigint NOT NULL,
    dead      bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

CREATE TABLE {s}.record (
    key        text COLLATE "C" PRIMARY KEY,
    version    bigint NOT NULL,
    value      bytea NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE {s}.log (name text COLLATE "C" PRIMARY KEY, last bigint NOT NULL);
CREATE TABLE {s}.log_entry (
    name   text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at     bigint NOT NULL,
    value  bytea NOT NULL,
    PRIMARY KEY (name, number)
);

-- Orders entries: a transaction takes one number, and numbers its entries from it * 2^20 on.
CREATE SEQUENCE {s}.entry;
-- Versions of records, never given twice.
CREATE SEQUENCE {s}.version;

-- Lost when the server crashes, and with it perhaps the last asynchronous commits: part of the epoch.
CREATE UNLOGGED TABLE {s}.marker (one boolean PRIMARY KEY CHECK (one), id uuid NOT NULL);
