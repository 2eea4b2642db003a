-- Tables derived from jobs: keys, deadlines, turns and counts.

-- Ordering keys: the holder of a key, and the jobs that wait in line for it. The holder's row is the line's lock.
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

-- Unique keys in use. `until` is null for keys that are held until the job ends, and {while_stored} for keys that are
-- held until the job is removed. The primary key enforces uniqueness.
CREATE TABLE {s}.unique_key (
    queue text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    id    uuid NOT NULL,
    until bigint,
    PRIMARY KEY (queue, kind, key)
);
CREATE INDEX unique_window ON {s}.unique_key (until) WHERE until IS NOT NULL;
CREATE INDEX unique_stored ON {s}.unique_key (id) WHERE until = {while_stored};

-- Jobs to cancel, because a job that was enqueued in SQL replaces them (`by`). The services do it.
CREATE TABLE {s}.replaced (
    id uuid PRIMARY KEY,
    by uuid NOT NULL
);

-- When jobs with a time limit of their own expire (work {expires}) or are removed (work {removed}). A row for an
-- expiry may be out of date: the job itself is authoritative.
CREATE TABLE {s}.deadline (
    work smallint NOT NULL,
    at   bigint NOT NULL,
    id   uuid NOT NULL,
    PRIMARY KEY (work, at, id)
);
-- Waiting jobs by age, only for queues that limit the age. Rows may be out of date.
CREATE TABLE {s}.aging (
    queue  text COLLATE "C" NOT NULL,
    run_at bigint NOT NULL,
    id     uuid NOT NULL,
    PRIMARY KEY (queue, run_at, id)
);

-- The latest turn of each tenant of a fair queue; the tenant '' has the jobs without a tenant. Taking the next turn
-- locks the row. Compaction deletes tenants whose latest turn is behind the one being served.
CREATE TABLE {s}.turn (
    queue  text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    turn   bigint NOT NULL,
    PRIMARY KEY (queue, tenant)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
CREATE INDEX turn_behind ON {s}.turn (queue, turn);

-- The turn being served is the highest of a queue. Every claim inserts a row, so that claims do not wait for each
-- other; compaction keeps the highest.
CREATE TABLE {s}.served (
    queue text COLLATE "C" NOT NULL,
    turn  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);
CREATE INDEX served_last ON {s}.served (queue, turn);

-- Jobs per lane and state: the sum over all rows of the lane. Every transaction inserts its differences; compaction
-- folds them into one row.
CREATE TABLE {s}.tally (
    lane      integer NOT NULL,
    scheduled bigint NOT NULL DEFAULT 0,
    blocked   bigint NOT NULL DEFAULT 0,
    available bigint NOT NULL DEFAULT 0,
    running   bigint NOT NULL DEFAULT 0,
    paused    bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    dead      bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    expired   bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
