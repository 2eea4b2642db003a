-- Removes ended jobs with all of their rows, adds them to the history of removed jobs, and returns the number of jobs by
-- lane and state. Skips locked jobs, which may be about to change, and jobs of queues that record events.
--
-- $1 ids, $2 cutoffs: a job is removed if it ended at or before its cutoff; $3 the time
WITH recorded AS MATERIALIZED (
    SELECT l.id FROM {s}.queue q JOIN {s}.lane l ON l.queue = q.name WHERE q.recorded
), free AS MATERIALIZED (
    SELECT j.id, w.ended FROM unnest($1::uuid[], $2::bigint[]) w (id, ended)
    JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])
    -- A job stays until its dependents have learned how it ended.
    WHERE NOT EXISTS (SELECT FROM {s}.unresolved u WHERE u.id = ANY(ARRAY[w.id])) ORDER BY w.id FOR UPDATE OF j SKIP LOCKED
), gone AS (
    -- A job that was replayed meanwhile has no such row and stays.
    DELETE FROM {s}.finished f USING free w WHERE f.id = ANY(ARRAY[w.id]) AND NOT f.own AND f.at <= w.ended
        AND f.lane <> ALL(ARRAY(SELECT id FROM recorded))
    RETURNING f.id, f.lane, f.state
), life AS (
    DELETE FROM {s}.life WHERE id = ANY(ARRAY(SELECT id FROM gone))
), key AS (
    -- By its index: only keys that are held until the job is removed.
    DELETE FROM {s}.unique_key WHERE until = {while_stored} AND id = ANY(ARRAY(SELECT id FROM gone))
), part AS (
    DELETE FROM {s}.part WHERE id = ANY(ARRAY(SELECT id FROM gone))
), edge AS (
    DELETE FROM {s}.edge WHERE dependent = ANY(ARRAY(SELECT id FROM gone))
), job AS (
    DELETE FROM {s}.job j USING gone g WHERE j.id = ANY(ARRAY[g.id]) RETURNING g.lane, g.state, j.spec
), grouped AS MATERIALIZED (
    SELECT lane, state, coalesce(spec::json ->> 'tenant', '') AS tenant, count(*) AS jobs FROM job GROUP BY 1, 2, 3
), noted AS MATERIALIZED (
    SELECT {s}.count_removed(array_agg($3::bigint), array_agg(n.queue), array_agg(n.kind), array_agg(g.tenant),
        array_agg(g.state), array_agg(g.jobs))
    FROM grouped g JOIN {s}.lane n ON n.id = g.lane HAVING count(*) > 0
), counted AS (
    INSERT INTO {s}.tally (lane, completed, dead, cancelled, expired)
    SELECT lane, -count(*) FILTER (WHERE state = {completed}), -count(*) FILTER (WHERE state = {dead}),
        -count(*) FILTER (WHERE state = {cancelled}), -count(*) FILTER (WHERE state = {expired})
    FROM gone GROUP BY lane
)
SELECT g.lane, g.state, sum(g.jobs)::bigint FROM grouped g
WHERE (SELECT count(*) FROM noted) >= 0 GROUP BY g.lane, g.state
