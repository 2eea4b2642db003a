-- Leases ready jobs of one queue to a session, in order, and says how many. What must be looked at more
-- closely (a suspect, a kind with permits) is left untouched, and `unusual` says so.
--
-- Only what is taken is locked: whoever passes by what another has locked may conclude that it is gone.
--
-- $1 session, $2 claim number, $3 queue, $4 kinds or null, $5 how many, $6 tokens, $7 the time or null,
-- $8 the receipt of reports that must have been settled, or null
-- $9 to $12 where to look: lanes, from which ranks and numbers, up to which ranks; a lane that is not named as a
-- whole
--
-- Lines that begin with `door` are for claims that come through one, and comments to all others.
-- $13 up to which numbers of each range others are believed
-- The line that begins with `busy` is a comment to claims that look everywhere.
WITH start AS MATERIALIZED (
    SELECT nextval('{s}.entry') << 20 AS seq,
        coalesce($7::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
        (extract(epoch FROM clock_timestamp() - transaction_timestamp()) * 1000)::bigint AS waited
), open AS MATERIALIZED (
    SELECT l.id, count(*) OVER () AS lanes,
        EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND k.permits > 0) AS permits
    FROM {s}.lane l
    WHERE l.queue = $3::text AND ($4::text[] IS NULL OR l.kind = ANY($4))
        --busy AND NOT l.idle
        AND ($8::uuid IS NULL OR current_setting('windlass.settled', true) = $8::text)
        AND EXISTS (SELECT FROM {s}.session WHERE id = $1::text)
        AND NOT EXISTS (SELECT FROM {s}.lease WHERE session = $1::text AND claim_no = $2::bigint)
        AND NOT EXISTS (SELECT FROM {s}.queue q WHERE q.name = l.queue AND q.paused)
        AND NOT EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND (k.paused OR k.permits = 0))
--door ), come AS MATERIALIZED (
    -- How far others have come in these ranges.
    --door SELECT w.n, w.lane, w.rank, r.seq, least(r.seq, w.believed) AS from_seq
    --door FROM unnest($9::integer[], $10::bigint[], $13::bigint[]) WITH ORDINALITY w (lane, rank, believed, n)
    --door CROSS JOIN LATERAL (
        --door SELECT seq FROM {s}.reached WHERE lane = w.lane AND rank = w.rank ORDER BY seq DESC LIMIT 1
    --door ) r
), range AS MATERIALIZED (
    SELECT o.id AS lane, o.lanes, coalesce(w.from_rank, -9223372036854775808) AS from_rank,
        coalesce(
            --door greatest((SELECT c.from_seq FROM come c WHERE c.n = w.n),
            w.from_seq
            --door )
            , -9223372036854775808) AS from_seq,
        coalesce(w.upto_rank, 9223372036854775807) AS upto_rank
    FROM open o LEFT JOIN unnest($9::integer[], $10::bigint[], $11::bigint[], $12::bigint[])
        WITH ORDINALITY w (lane, from_rank, from_seq, upto_rank, n) ON w.lane = o.id
    WHERE NOT EXISTS (SELECT FROM open WHERE permits) ORDER BY o.id, w.n
), under_way AS MATERIALIZED (
    -- Transactions that had not ended when this statement began: those of an age, and some that are older.
    SELECT age((pg_snapshot_xmax(now)::text::bigint & 4294967295)::text::xid) AS age,
        ARRAY(SELECT (x::text::bigint & 4294967295)::text::xid FROM pg_snapshot_xip(now) x) AS before
    FROM pg_current_snapshot() now
), head AS MATERIALIZED (
    -- Of several lanes, the first of each that nobody else is taking: how many of which are the first of all?
    SELECT r.lane, r.rank, r.seq, r.n = o.most AS last
    FROM (SELECT DISTINCT lane, $5::bigint * 2 / lanes + 2 AS most FROM range WHERE lanes > 1) o
    CROSS JOIN LATERAL (
        SELECT t.*, row_number() OVER () AS n FROM range w CROSS JOIN LATERAL (
            SELECT lane, rank, seq FROM {s}.ready
            WHERE lane = o.lane AND (rank, seq) >= (w.from_rank, w.from_seq) AND rank <= w.upto_rank
                AND (xmax = '0' OR (age(xmax) > (SELECT age FROM under_way)
                    AND xmax <> ALL ((SELECT before FROM under_way)::xid[])))
            ORDER BY rank, seq LIMIT o.most
        ) t WHERE w.lane = o.lane LIMIT o.most
    ) r
), bound AS MATERIALIZED (
    -- Beyond the last one of a lane of which there may be more, the order is not known.
    SELECT rank, seq FROM head WHERE last ORDER BY rank, seq LIMIT 1
), share AS MATERIALIZED (
    SELECT lane, count(*) AS most FROM (
        SELECT lane FROM head h
        WHERE NOT EXISTS (SELECT FROM bound b WHERE (h.rank, h.seq) > (b.rank, b.seq))
        ORDER BY rank, seq LIMIT $5::bigint
    ) first GROUP BY lane
    UNION ALL
    SELECT DISTINCT lane, $5::bigint FROM range WHERE lanes = 1
), locked AS MATERIALIZED (
    SELECT r.* FROM share o CROSS JOIN LATERAL (
        SELECT t.* FROM range w CROSS JOIN LATERAL (
            SELECT ctid AS place, lane, rank, seq, id, flags FROM {s}.ready
            WHERE lane = o.lane AND (rank, seq) >= (w.from_rank, w.from_seq) AND rank <= w.upto_rank
                AND (xmax = '0' OR (age(xmax) > (SELECT age FROM under_way)
                    AND xmax <> ALL ((SELECT before FROM under_way)::xid[])))
            ORDER BY rank, seq LIMIT o.most FOR UPDATE SKIP LOCKED
        ) t WHERE w.lane = o.lane LIMIT o.most
    ) r
), taken AS MATERIALIZED (
    SELECT place, lane, rank, seq, id, flags, row_number() OVER (ORDER BY rank, seq) AS n FROM locked
    WHERE NOT EXISTS (SELECT FROM locked WHERE flags & 1 <> 0)
), gone AS (
    DELETE FROM {s}.ready WHERE ctid = ANY(ARRAY(SELECT place FROM taken))
), leased AS (
    INSERT INTO {s}.lease (id, token, claim_no, started_at, seq, attempt, lane, flags, session)
    SELECT t.id, ($6::uuid[])[t.n], $2::bigint, s.now, s.seq + t.n, coalesce(f.attempt, 0) + 1, t.lane,
        t.flags & 2, $1::text
    FROM start s CROSS JOIN taken t LEFT JOIN {s}.life f ON f.id = ANY(ARRAY[t.id])
), counted AS (
    INSERT INTO {s}.tally (lane, scheduled, blocked, available, running, paused, dead)
    SELECT lane, 0, 0, -count(*), count(*), 0, 0 FROM taken GROUP BY lane
--door ), noted AS (
    -- Of ranks that are times there is one for every job.
    --door INSERT INTO {s}.reached (lane, rank, seq)
    --door SELECT lane, rank, max(seq) + 1 FROM taken GROUP BY lane, rank ORDER BY count(*) DESC LIMIT 32
), served AS (
    -- Where tenants take turns: which one is being served.
    INSERT INTO {s}.served (queue, turn)
    SELECT $3::text, max(rank) FROM taken
    WHERE EXISTS (SELECT FROM {s}.queue WHERE name = $3::text AND fair) HAVING max(rank) > 0
)
SELECT s.now, EXISTS (SELECT FROM open WHERE permits) OR EXISTS (SELECT FROM locked WHERE flags & 1 <> 0),
    -- Where what was locked and not taken begins: others passed it by meanwhile.
    (SELECT min(seq) FROM locked WHERE NOT EXISTS (SELECT FROM taken)),
    -- How many others were under way, and how long this had waited.
    (SELECT cardinality(before) FROM under_way)::bigint, s.waited
    --door , ARRAY(SELECT lane FROM come ORDER BY n), ARRAY(SELECT rank FROM come ORDER BY n)
    --door , ARRAY(SELECT seq FROM come ORDER BY n)
FROM start s
