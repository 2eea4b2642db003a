-- Looks through a page of a leaf: how many jobs of each lane and state can go with it, which must be removed by
-- themselves (something of theirs is elsewhere), and which must stay; and where the page ends.
--
-- $1 from this id, $2 to before this one, $3 how many, $4 until when jobs must have ended to go: an object with
-- a time for each `lane.state`
WITH cut AS MATERIALIZED (
    SELECT $4::text::jsonb AS times
), page AS MATERIALIZED (
    SELECT id FROM {s}.job WHERE id >= $1::uuid AND id < $2::uuid ORDER BY id LIMIT $3::bigint
), seen AS MATERIALIZED (
    SELECT p.id, f.lane, f.state,
        CASE WHEN NOT f.own THEN (c.times ->> concat(f.lane, '.', f.state))::bigint END AS cut, f.at
    FROM cut c CROSS JOIN page p LEFT JOIN LATERAL (
        SELECT lane, state, own, at FROM {s}.finished WHERE id = p.id
    ) f ON true
), judged AS MATERIALIZED (
    SELECT s.id, s.lane, s.state, s.cut,
        CASE WHEN s.at <= s.cut THEN CASE
            WHEN EXISTS (SELECT FROM {s}.life l WHERE l.id = s.id)
                OR EXISTS (SELECT FROM {s}.part a WHERE a.id = s.id) THEN 1
            ELSE 0 END ELSE 2 END AS way
    FROM seen s
)
SELECT way, lane, state, count(*),
    CASE WHEN way > 0 THEN array_agg(id) END, CASE WHEN way = 1 THEN array_agg(cut) END,
    (SELECT id FROM page ORDER BY id DESC LIMIT 1)
FROM judged GROUP BY way, lane, state
