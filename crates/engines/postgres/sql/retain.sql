-- Removes ended jobs that are past the retention of their queue, with everything there is of them; says
-- how many of each lane and state. Jobs that others hold are left to them.
--
-- $1 lanes, $2 states, $3 removed if ended then or before, $4 how many at most
WITH due AS MATERIALIZED (
    SELECT f.id, w.ended FROM unnest($1::integer[], $2::smallint[], $3::bigint[]) w (lane, state, ended)
    CROSS JOIN LATERAL (
        SELECT id FROM {s}.finished
        WHERE lane = w.lane AND state = w.state AND NOT own AND at <= w.ended ORDER BY at LIMIT $4::bigint
    ) f LIMIT $4::bigint
), free AS MATERIALIZED (
    SELECT id FROM {s}.job WHERE id = ANY(ARRAY(SELECT id FROM due)) ORDER BY id FOR UPDATE SKIP LOCKED
), gone AS (
    -- One that was replayed meanwhile has no such row any more, and stays.
    DELETE FROM {s}.finished WHERE id = ANY(ARRAY(SELECT id FROM free)) RETURNING id, lane, state
), life AS (
    DELETE FROM {s}.life WHERE id = ANY(ARRAY(SELECT id FROM gone))
), part AS (
    DELETE FROM {s}.part WHERE id = ANY(ARRAY(SELECT id FROM gone))
), job AS (
    DELETE FROM {s}.job WHERE id = ANY(ARRAY(SELECT id FROM gone))
), counted AS (
    INSERT INTO {s}.tally (lane, scheduled, blocked, available, running, paused, dead)
    SELECT lane, 0, 0, 0, 0, 0, -count(*) FROM gone WHERE state = 6 GROUP BY lane
)
SELECT l.queue, g.state, count(*) FROM gone g JOIN {s}.lane l ON l.id = g.lane GROUP BY l.queue, g.state
