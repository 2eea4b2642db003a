-- Format 2 of a Windlass directory: lanes that are idle for long are forgotten, and a job that is enqueued again
-- after its removal is not mistaken for the one that had a lease.

-- When maintenance first found no live job in the lane; null while it has some. The lane with the highest number is
-- never forgotten, so that no number is given twice.
ALTER TABLE lane ADD COLUMN idle_since INTEGER;
-- The lane of the job. Null in rows of format 1: as long as there is one of them, no lane is forgotten.
ALTER TABLE deadline ADD COLUMN lane INTEGER;
CREATE INDEX deadline_lane ON deadline (lane) WHERE work = 1;

-- The highest order of entry among the jobs of a row when it was written (src/rows/leases.rs). Rows of format 1 get a
-- bound that nothing written so far exceeds.
ALTER TABLE lease ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE lease SET seq = (SELECT (value + 1) << 40 FROM meta WHERE name = 'opens');
