-- Format 1 of a Windlass directory.
--
-- Narrow tables for what moves, an append-only one for what does not. `n` is the row key of a job,
-- computed from its id (src/rows/key.rs), so that no index on ids is needed. Times are milliseconds
-- since 1970.

CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- A queue and a kind; jobs name the lane by number.
CREATE TABLE lane (
    id    INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind  TEXT NOT NULL,
    UNIQUE (queue, kind)
);
CREATE TABLE queue (name TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE kind (name TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE session (id TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID;

-- What a producer handed over, written once. A job with no row in `life` and no lease is as it was
-- enqueued. `body` packs its numbers (src/rows/body.rs); `spec` holds what few jobs have.
CREATE TABLE job (
    n        INTEGER PRIMARY KEY,
    id       BLOB NOT NULL,
    lane     INTEGER NOT NULL,
    body     BLOB NOT NULL,
    spec     TEXT,
    payload  BLOB,
    envelope TEXT
);

-- What became of a job since. `body` packs its numbers and its latest attempt; `tail` holds what few
-- jobs have.
CREATE TABLE life (
    n     INTEGER PRIMARY KEY,
    lane  INTEGER NOT NULL,
    state INTEGER NOT NULL,
    body  BLOB NOT NULL,
    tail  TEXT
);
-- Dead jobs, for those who look after them.
CREATE INDEX life_dead ON life (n, lane) WHERE state = 6;

-- Parts other than the payload, and a payload that was edited.
CREATE TABLE part (
    n        INTEGER NOT NULL,
    name     INTEGER NOT NULL,
    bytes    BLOB NOT NULL,
    envelope TEXT,
    PRIMARY KEY (n, name)
) WITHOUT ROWID;

-- Places. A job that has not ended is in exactly one of these four.
--
-- Ready jobs come in runs: `jobs` lists neighbours of one lane and rank, the first of which had `seq`
-- when the run was written (src/rows/ready.rs).
CREATE TABLE ready (
    lane INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    jobs BLOB NOT NULL,
    PRIMARY KEY (lane, rank, seq)
) WITHOUT ROWID;
CREATE TABLE scheduled (
    run_at INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    id     BLOB NOT NULL,
    lane   INTEGER NOT NULL,
    PRIMARY KEY (run_at, seq)
) WITHOUT ROWID;
CREATE TABLE aside (
    n     INTEGER PRIMARY KEY,
    lane  INTEGER NOT NULL,
    state INTEGER NOT NULL
);
-- Leases that were given in one transaction; a row is removed when none of them is held any more
-- (src/rows/leases.rs).
CREATE TABLE lease (number INTEGER PRIMARY KEY, jobs BLOB NOT NULL);

-- Jobs of a lane that ended alike, by the time of the last of them, for retention; those with a
-- retention of their own are in `deadline` (src/rows/ended.rs).
CREATE TABLE ended (
    lane   INTEGER NOT NULL,
    state  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    number INTEGER NOT NULL,
    jobs   BLOB NOT NULL,
    PRIMARY KEY (lane, state, at, number)
) WITHOUT ROWID;

-- Ordering keys: who holds one, and who stands in line for it.
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

-- Unique keys that are held; `until` is null for those held until the job ends.
CREATE TABLE unique_key (
    queue TEXT NOT NULL,
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    id    BLOB NOT NULL,
    until INTEGER,
    PRIMARY KEY (queue, kind, key)
) WITHOUT ROWID;
CREATE INDEX unique_window ON unique_key (until) WHERE until IS NOT NULL;

-- Deadlines of jobs that have a limit of their own: work 0 expires the waiting, work 1 removes the
-- ended.
CREATE TABLE deadline (
    work INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    id   BLOB NOT NULL,
    PRIMARY KEY (work, at, id)
) WITHOUT ROWID;
-- Waiting jobs by age, kept only for queues that limit it.
CREATE TABLE aging (
    queue  TEXT NOT NULL,
    run_at INTEGER NOT NULL,
    id     BLOB NOT NULL,
    PRIMARY KEY (queue, run_at, id)
) WITHOUT ROWID;

CREATE TABLE record (
    key        TEXT PRIMARY KEY,
    version    INTEGER NOT NULL,
    value      BLOB NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE log (name TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE log_entry (
    name   TEXT NOT NULL,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    value  BLOB NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;
