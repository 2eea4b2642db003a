-- Leases ready jobs of one queue to a session, in order, and says how many. What must be looked at more
-- closely (a suspect, a kind with permits) is left untouched, and `unusual` says so.
--
-- $1 session, $2 claim number, $3 queue, $4 kinds or null, $5 how many, $6 tokens, $7 the time or null,
-- $8 how many reports of the same transaction must have been settled, or null
-- $9 to $12 where to look: lanes, from which ranks and numbers, up to which ranks; a lane that is not named as a
-- whole
WITH start AS MATERIALIZED (
    SELECT nextval('{s}.entry') << 20 AS seq,
        coalesce($7::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), open AS MATERIALIZED (
    SELECT l.id,
        CASE WHEN count(*) OVER () <= 2 THEN $5::bigint ELSE $5::bigint * 2 / count(*) OVER () + 1 END AS most,
        EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND k.permits > 0) AS permits
    FROM {s}.lane l
    WHERE l.queue = $3::text AND ($4::text[] IS NULL OR l.kind = ANY($4))
        AND ($8::bigint IS NULL OR current_setting('windlass.settled', true) = $8::bigint::text)
        AND EXISTS (SELECT FROM {s}.session WHERE id = $1::text)
        AND NOT EXISTS (SELECT FROM {s}.lease WHERE session = $1::text AND claim_no = $2::bigint)
        AND NOT EXISTS (SELECT FROM {s}.queue q WHERE q.name = l.queue AND q.paused)
        AND NOT EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND (k.paused OR k.permits = 0))
), head AS MATERIALIZED (
    -- Of many lanes only some of each: nobody else can claim what is locked here.
    SELECT r.*, count(*) OVER (PARTITION BY r.lane) >= r.most AS cut
    FROM open o CROSS JOIN LATERAL (
        SELECT t.*, o.most FROM (
            SELECT from_rank, from_seq, upto_rank
            FROM unnest($9::integer[], $10::bigint[], $11::bigint[], $12::bigint[])
                w (lane, from_rank, from_seq, upto_rank) WHERE w.lane = o.id
            UNION ALL
            SELECT -9223372036854775808, -9223372036854775808, 9223372036854775807
            WHERE o.id <> ALL ($9::integer[])
        ) w CROSS JOIN LATERAL (
            SELECT ctid AS place, lane, rank, seq, id, flags FROM {s}.ready
            WHERE lane = o.id AND (rank, seq) >= (w.from_rank, w.from_seq) AND rank <= w.upto_rank
            ORDER BY rank, seq LIMIT o.most FOR UPDATE SKIP LOCKED
        ) t LIMIT o.most
    ) r
    WHERE NOT EXISTS (SELECT FROM open WHERE permits)
), bound AS MATERIALIZED (
    -- Beyond the last one of a lane of which there may be more, the order is not known.
    SELECT rank, seq FROM (
        SELECT DISTINCT ON (lane) rank, seq FROM head WHERE cut ORDER BY lane, rank DESC, seq DESC
    ) last ORDER BY rank, seq LIMIT 1
), taken AS MATERIALIZED (
    SELECT place, lane, rank, seq, id, flags, row_number() OVER (ORDER BY rank, seq) AS n FROM head h
    WHERE NOT EXISTS (SELECT FROM head WHERE flags & 1 <> 0)
        AND NOT EXISTS (SELECT FROM bound b WHERE (h.rank, h.seq) > (b.rank, b.seq))
    ORDER BY rank, seq LIMIT $5::bigint
), gone AS (
    DELETE FROM {s}.ready WHERE ctid = ANY(ARRAY(SELECT place FROM taken))
), leased AS (
    INSERT INTO {s}.lease (id, token, claim_no, started_at, seq, attempt, lane, flags, session)
    SELECT t.id, ($6::uuid[])[t.n], $2::bigint, s.now, s.seq + t.n, coalesce(f.attempt, 0) + 1, t.lane,
        t.flags & 2, $1::text
    FROM start s CROSS JOIN taken t LEFT JOIN {s}.life f ON f.id = t.id
), counted AS (
    INSERT INTO {s}.tally (lane, scheduled, blocked, available, running, paused, dead)
    SELECT lane, 0, 0, -count(*), count(*), 0, 0 FROM taken GROUP BY lane
)
SELECT s.now,
    EXISTS (SELECT FROM open WHERE permits) OR EXISTS (SELECT FROM head WHERE flags & 1 <> 0),
    -- Whether it was one lane, and where what was locked and not taken begins: others passed it by meanwhile.
    (SELECT count(*) FROM open) = 1,
    (SELECT min(h.seq) FROM head h WHERE (h.rank, h.seq) > ALL (
        SELECT rank, seq FROM taken ORDER BY rank DESC, seq DESC LIMIT 1))
FROM start s
