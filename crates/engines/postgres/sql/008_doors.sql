-- Where many claim at a time, they go through these, one at a time through each, by locking one: whoever waits for such
-- a lock has nothing in his hands, not even a snapshot.
CREATE TABLE {s}.door_0 ();
CREATE TABLE {s}.door_1 ();
CREATE TABLE {s}.door_2 ();
CREATE TABLE {s}.door_3 ();

-- How far claims through a door have come: below the highest number of a lane and a rank, nothing is left. A hint, of
-- which a crash leaves nothing. Every claim adds a row, and those after it look at the highest one only, so that it
-- does not matter how many lie dead below; compaction leaves one a lane.
CREATE UNLOGGED TABLE {s}.reached (
    lane integer NOT NULL,
    rank bigint NOT NULL,
    seq  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);
CREATE INDEX reached_last ON {s}.reached (lane, rank, seq);
