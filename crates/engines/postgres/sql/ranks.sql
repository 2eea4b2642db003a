-- The first ready job of each rank of some lanes. Skips from rank to rank by the index.
--
-- $1 lanes, $2 maximum number of ranks per lane
WITH RECURSIVE step AS (
    SELECT r.lane, r.rank, r.id, 1::bigint AS n
    FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL
        (SELECT lane, rank, id FROM {s}.ready WHERE lane = w.lane ORDER BY rank, seq LIMIT 1) r
    UNION ALL
    SELECT r.lane, r.rank, r.id, s.n + 1
    FROM step s CROSS JOIN LATERAL
        (SELECT lane, rank, id FROM {s}.ready WHERE lane = s.lane AND rank > s.rank
        ORDER BY rank, seq LIMIT 1) r
    WHERE s.n < $2::bigint
)
SELECT s.lane, s.rank, coalesce(f.ready_at, j.created_at), coalesce(f.priority, j.priority)
FROM step s JOIN {s}.job j ON j.id = ANY(ARRAY[s.id]) LEFT JOIN {s}.life f ON f.id = ANY(ARRAY[s.id])
ORDER BY s.lane, s.rank
