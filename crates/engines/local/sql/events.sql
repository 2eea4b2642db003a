-- Events: the transitions of the jobs of queues that record them (src/rows/events.rs).
--
-- A stream per queue: the number before its first event, of the last one that was dropped, of the last one, and of the
-- last one whose row was deleted.
CREATE TABLE IF NOT EXISTS event_stream (
    id      INTEGER PRIMARY KEY,
    queue   TEXT NOT NULL UNIQUE,
    start   INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    deleted INTEGER NOT NULL
);
-- `queue` is the queue of the job after the transition, `transition` its number in the life of the job. `state` is null for
-- removals, `reason` is JSON.
CREATE TABLE IF NOT EXISTS event (
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
