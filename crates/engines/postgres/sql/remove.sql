-- Removes ended jobs with all of their rows, and returns the number of jobs by lane and state. Skips jobs that are
-- locked: they may be about to change.
--
-- $1 ids, $2 removed if ended then or before
WITH free AS MATERIALIZED (
    SELECT j.id, w.ended FROM unnest($1::uuid[], $2::bigint[]) w (id, ended)
    JOIN {s}.job j ON j.id = ANY(ARRAY[w.id]) ORDER BY w.id FOR UPDATE OF j SKIP LOCKED
), gone AS (
    -- A job that was replayed since has no such row any more, and stays.
    DELETE FROM {s}.finished f USING free w WHERE f.id = ANY(ARRAY[w.id]) AND NOT f.own AND f.at <= w.ended
    RETURNING f.id, f.lane, f.state
), life AS (
    DELETE FROM {s}.life WHERE id = ANY(ARRAY(SELECT id FROM gone))
), part AS (
    DELETE FROM {s}.part WHERE id = ANY(ARRAY(SELECT id FROM gone))
), job AS (
    DELETE FROM {s}.job j USING gone g WHERE j.id = ANY(ARRAY[g.id])
), counted AS (
    INSERT INTO {s}.tally (lane, scheduled, blocked, available, running, paused, dead)
    SELECT lane, 0, 0, 0, 0, 0, -count(*) FROM gone WHERE state = 6 GROUP BY lane
)
SELECT lane, state, count(*) FROM gone GROUP BY lane, state
