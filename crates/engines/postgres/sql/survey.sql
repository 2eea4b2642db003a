-- Surveys a page of a partition. Jobs past their retention either go with the partition (way 0: completed by the fast
-- path, with no rows elsewhere) or have to be removed one by one (way 1); all others stay (way 2). Returns the number of
-- jobs by way, lane, state and (in way 0) tenant, the ids of ways 1 and 2, and the last id of the page.
--
-- $1 the first id, $2 the end of the ids (exclusive), $3 the number of jobs, $4 the time until which jobs must have
-- ended to be past their retention: an object with a time for each `lane.state`
WITH cut AS MATERIALIZED (
    SELECT $4::text::jsonb AS times
), page AS MATERIALIZED (
    SELECT id, spec FROM {s}.job WHERE id >= $1::uuid AND id < $2::uuid ORDER BY id LIMIT $3::bigint
), seen AS MATERIALIZED (
    SELECT p.id, p.spec, f.lane, f.state, f.token,
        CASE WHEN NOT f.own THEN (c.times ->> concat(f.lane, '.', f.state))::bigint END AS cut, f.at
    FROM cut c CROSS JOIN page p LEFT JOIN LATERAL (
        SELECT lane, state, own, at, token FROM {s}.finished WHERE id = p.id
    ) f ON true
), judged AS MATERIALIZED (
    SELECT s.id, s.spec, s.lane, s.state, s.cut,
        CASE WHEN s.at <= s.cut THEN CASE
            WHEN s.token IS NULL OR EXISTS (SELECT FROM {s}.life l WHERE l.id = s.id)
                OR EXISTS (SELECT FROM {s}.part a WHERE a.id = s.id) THEN 1
            ELSE 0 END ELSE 2 END AS way
    FROM seen s
)
SELECT way, lane, state, count(*),
    CASE WHEN way > 0 THEN array_agg(id) END, CASE WHEN way = 1 THEN array_agg(cut) END,
    (SELECT id FROM page ORDER BY id DESC LIMIT 1), tenant
FROM (SELECT j.*, CASE WHEN way = 0 THEN coalesce(spec::json ->> 'tenant', '') END AS tenant FROM judged j) t
GROUP BY way, lane, state, tenant
