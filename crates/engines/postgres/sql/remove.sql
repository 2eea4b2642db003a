-- Removes ended jobs with all of their rows, and returns the number of jobs by lane and state. Skips locked jobs, which
-- may be about to change.
--
-- $1 ids, $2 cutoffs: a job is removed if it ended at or before its cutoff
WITH free AS MATERIALIZED (
    SELECT j.id, w.ended FROM unnest($1::uuid[], $2::bigint[]) w (id, ended)
    JOIN {s}.job j ON j.id = ANY(ARRAY[w.id]) ORDER BY w.id FOR UPDATE OF j SKIP LOCKED
), gone AS (
    -- A job that was replayed meanwhile has no such row and stays.
    DELETE FROM {s}.finished f USING free w WHERE f.id = ANY(ARRAY[w.id]) AND NOT f.own AND f.at <= w.ended
    RETURNING f.id, f.lane, f.state
), life AS (
    DELETE FROM {s}.life WHERE id = ANY(ARRAY(SELECT id FROM gone))
), key AS (
    -- By its index: only keys that are held until the job is removed.
    DELETE FROM {s}.unique_key WHERE until = {while_stored} AND id = ANY(ARRAY(SELECT id FROM gone))
), part AS (
    DELETE FROM {s}.part WHERE id = ANY(ARRAY(SELECT id FROM gone))
), job AS (
    DELETE FROM {s}.job j USING gone g WHERE j.id = ANY(ARRAY[g.id])
), counted AS (
    INSERT INTO {s}.tally (lane, dead) SELECT lane, -count(*) FROM gone WHERE state = {dead} GROUP BY lane
)
SELECT lane, state, count(*) FROM gone GROUP BY lane, state
