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

-- The starts that a limit remembers in a group ('' for a limit over all jobs), as JSON; null for none. The row with an
-- empty name is the lock of the group: of its meters, and of its rows in `group_lane` and `group_line`. The row of a limit
-- over all jobs is a lock itself. Compaction deletes rows without starts.
CREATE TABLE {s}.meter (
    grp     text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    meter   text,
    idle_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (grp, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- Groups of lanes with limits by group: the number of jobs in line, and number and total cost of the jobs that have left
-- the line, are ready and have not started. A line with jobs is examined at `opens_at` at the latest; `by_time`: its
-- limits have room then, if nothing starts before. Otherwise only the end of a job makes room, and the time is a
-- safety net.
CREATE TABLE {s}.group_lane (
    grp        text COLLATE "C" NOT NULL,
    lane       integer NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    waiting    bigint NOT NULL,
    ahead      bigint NOT NULL,
    ahead_cost bigint NOT NULL,
    opens_at   bigint,
    by_time    boolean NOT NULL,
    PRIMARY KEY (grp, lane)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX group_lane_opening ON {s}.group_lane (opens_at) WHERE opens_at IS NOT NULL;
CREATE INDEX group_lane_queue ON {s}.group_lane (queue, opens_at) WHERE opens_at IS NOT NULL;
-- The jobs in line, in their order. `name` is the limit that a job waits for.
CREATE TABLE {s}.group_line (
    grp      text COLLATE "C" NOT NULL,
    lane     integer NOT NULL,
    priority integer NOT NULL,
    run_at   bigint NOT NULL,
    seq      bigint NOT NULL,
    id       uuid NOT NULL,
    cost     bigint NOT NULL,
    name     text NOT NULL,
    PRIMARY KEY (grp, lane, priority, run_at, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);

-- The dependencies of jobs, by their position: the job that each waits for, and the rest as JSON. An edge is added and
-- resolved under the lock of the upstream job, and changed under that of the dependent, too.
CREATE TABLE {s}.edge (
    dependent uuid NOT NULL,
    position  integer NOT NULL,
    upstream  uuid NOT NULL,
    open      boolean NOT NULL,
    input     text,
    PRIMARY KEY (dependent, position)
);
CREATE INDEX edge_open ON {s}.edge (upstream, dependent, position) WHERE open;
-- Ended jobs whose dependents have not all learned how they ended. A table, because an index over `life` would prevent
-- updates in place.
CREATE TABLE {s}.unresolved (id uuid PRIMARY KEY);

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
