-- Completes plain jobs by deleting their leases, and returns their ids. Leaves all others to the slow path. If there are
-- no others, sets the receipt for the next claim.
--
-- The end of a job that limits by group count may release another one. It is plain if its group is locked, so that no job
-- can begin to wait meanwhile, and no job of the group waits. `windlass.groups` names the groups that this transaction has
-- locked, if any.
--
-- $1 ids, $2 tokens, $3 results, $4 receipt, $5 the time of a test or null
WITH start AS MATERIALIZED (
    SELECT coalesce($5::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
        nullif(current_setting('windlass.groups', true), '')::text[] AS groups
), done AS (
    DELETE FROM {s}.lease e USING unnest($1::uuid[], $2::uuid[], $3::bytea[]) w (id, token, result)
    WHERE e.id = ANY(ARRAY[w.id]) AND e.token = w.token AND (e.flags & {flag_plain} <> 0
        OR (e.flags & {flag_plain_in_group} <> 0 AND e.grp = ANY((SELECT groups FROM start)::text[])
            AND NOT EXISTS (SELECT FROM {s}.group_lane g WHERE g.grp = ANY(ARRAY[e.grp]) AND g.waiting > 0)))
    RETURNING e.id, e.token, e.started_at, e.attempt, e.lane, e.session, w.result
), who AS MATERIALIZED (
    -- Most batches belong to one session.
    SELECT id, worker FROM {s}.session WHERE id = ANY(ARRAY(SELECT DISTINCT session FROM done))
), ended AS (
    INSERT INTO {s}.finished (id, at, started_at, attempt, lane, state, own, token, worker, result)
    SELECT d.id, s.now, d.started_at, d.attempt, d.lane, {completed}, false, d.token, coalesce(w.worker, ''), d.result
    FROM start s CROSS JOIN done d LEFT JOIN who w ON w.id = d.session
), counted AS (
    INSERT INTO {s}.tally (lane, running, completed) SELECT lane, -count(*), count(*) FROM done GROUP BY lane
), settled AS (
    SELECT array_agg(id) AS ids, count(*) AS n FROM done
)
SELECT s.now, d.ids,
    set_config('windlass.settled', CASE WHEN d.n = cardinality($1::uuid[]) THEN $4::uuid::text END, false),
    -- Whether the end of a job may let another start.
    EXISTS (SELECT FROM {s}.limit_rule WHERE NOT by_group)
FROM start s CROSS JOIN settled d
