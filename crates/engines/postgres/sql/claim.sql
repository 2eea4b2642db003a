-- Leases ready jobs of one queue to a session, in order. Takes nothing and sets `unusual` if the slow path must look at
-- them: a suspect job, a job with a cost, or limits other than those that were counted.
--
-- Locks only the jobs that it takes: another claim that skips a locked job may conclude that it is gone.
--
-- $1 session, $2 claim number, $3 queue, $4 kinds or null, $5 number of jobs, $6 tokens, $7 the time of a test or null
-- $8 the receipt of reports that must have been settled, or null
-- $9 to $12 the ranges to scan: lanes, first ranks and numbers, last ranks; a lane that is not named is scanned whole
-- $13 whether $5 takes the limits of the queue over all jobs into account
--
-- The line that begins with `--busy` is part of the statement unless the claim scans idle lanes, too.
WITH start AS MATERIALIZED (
    SELECT nextval({'s.entry'}) << {seq_bits} AS seq,
        coalesce($7::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), open AS MATERIALIZED (
    SELECT l.id, l.idle, l.limited OR (l.gated AND NOT $13::boolean) AS limited, l.gated FROM {s}.open_lane l
    WHERE l.queue = $3::text AND ($4::text[] IS NULL OR l.kind = ANY($4))
        --busy AND NOT l.idle
        AND ($8::uuid IS NULL OR current_setting('windlass.settled', true) = $8::text)
        AND EXISTS (SELECT FROM {s}.session WHERE id = $1::text)
        AND NOT EXISTS (SELECT FROM {s}.lease WHERE session = $1::text AND claim_no = $2::bigint)
), total AS MATERIALIZED (
    -- `most`: with several lanes, how many jobs to read of each before it is decided which come first. Idle lanes, which
    -- rarely have jobs, do not reduce it.
    SELECT count(*) AS lanes, $5::bigint * 2 / greatest(count(*) FILTER (WHERE NOT idle), 1) + 2 AS most,
        coalesce(bool_or(limited), false) AS limited, coalesce(bool_or(gated), false) AS gated
    FROM open
), range AS MATERIALIZED (
    -- One row per lane, as arrays: nothing is joined, because that takes the product of both numbers of lanes.
    SELECT w.lane, array_agg(w.from_rank ORDER BY w.n) AS from_ranks, array_agg(w.from_seq ORDER BY w.n) AS from_seqs,
        array_agg(w.upto_rank ORDER BY w.n) AS upto_ranks
    FROM unnest($9::integer[], $10::bigint[], $11::bigint[], $12::bigint[])
        WITH ORDINALITY w (lane, from_rank, from_seq, upto_rank, n)
    WHERE (w.lane IN (SELECT id FROM open)) IS TRUE AND NOT (SELECT limited FROM total)
    GROUP BY w.lane
    UNION ALL
    SELECT id, ARRAY[{rank_min}]::bigint[], ARRAY[{rank_min}]::bigint[], ARRAY[{rank_max}]::bigint[] FROM open
    WHERE id NOT IN (SELECT unnest($9::integer[])) AND NOT (SELECT limited FROM total)
), in_progress AS MATERIALIZED (
    -- Transactions in progress when this statement began: those younger than `age`, and the older ones in `before`.
    SELECT age((pg_snapshot_xmax(now)::text::bigint & 4294967295)::text::xid) AS age,
        ARRAY(SELECT (x::text::bigint & 4294967295)::text::xid FROM pg_snapshot_xip(now) x) AS before
    FROM pg_current_snapshot() now
), head AS MATERIALIZED (
    -- With several lanes: the first jobs of each that no other transaction is taking, to find the first of all.
    SELECT r.*, r.n = (SELECT most FROM total) AS last FROM range o CROSS JOIN LATERAL (
        SELECT t.*, row_number() OVER () AS n, o.from_ranks, o.from_seqs, o.upto_ranks
        FROM unnest(o.from_ranks, o.from_seqs, o.upto_ranks) w (from_rank, from_seq, upto_rank) CROSS JOIN LATERAL (
            SELECT lane, rank, seq FROM {s}.ready
            WHERE lane = o.lane AND (rank, seq) >= (w.from_rank, w.from_seq) AND rank <= w.upto_rank
                AND (xmax = '0' OR (age(xmax) > (SELECT age FROM in_progress)
                    AND xmax <> ALL ((SELECT before FROM in_progress)::xid[])))
            ORDER BY rank, seq LIMIT (SELECT most FROM total)
        ) t LIMIT (SELECT most FROM total)
    ) r WHERE (SELECT lanes FROM total) > 1
), bound AS MATERIALIZED (
    -- The order is known up to the last row of the first lane that may have more.
    SELECT rank, seq FROM head WHERE last ORDER BY rank, seq LIMIT 1
), share AS MATERIALIZED (
    SELECT lane, from_ranks, from_seqs, upto_ranks, count(*) AS most FROM (
        SELECT lane, from_ranks, from_seqs, upto_ranks FROM head h
        WHERE NOT EXISTS (SELECT FROM bound b WHERE (h.rank, h.seq) > (b.rank, b.seq))
        ORDER BY rank, seq LIMIT $5::bigint
    ) first GROUP BY lane, from_ranks, from_seqs, upto_ranks
    UNION ALL
    SELECT lane, from_ranks, from_seqs, upto_ranks, $5::bigint FROM range WHERE (SELECT lanes FROM total) = 1
), locked AS MATERIALIZED (
    SELECT r.* FROM share o CROSS JOIN LATERAL (
        SELECT t.* FROM unnest(o.from_ranks, o.from_seqs, o.upto_ranks) w (from_rank, from_seq, upto_rank)
        CROSS JOIN LATERAL (
            SELECT ctid AS place, lane, rank, seq, id, flags FROM {s}.ready
            WHERE lane = o.lane AND (rank, seq) >= (w.from_rank, w.from_seq) AND rank <= w.upto_rank
                AND (xmax = '0' OR (age(xmax) > (SELECT age FROM in_progress)
                    AND xmax <> ALL ((SELECT before FROM in_progress)::xid[])))
            ORDER BY rank, seq LIMIT o.most FOR UPDATE SKIP LOCKED
        ) t LIMIT o.most
    ) r
), taken AS MATERIALIZED (
    SELECT place, lane, rank, seq, id, flags, row_number() OVER (ORDER BY rank, seq) AS n FROM locked
    WHERE NOT EXISTS (SELECT FROM locked
        WHERE flags & {flag_suspect} <> 0 OR ($13::boolean AND flags & {flag_costly} <> 0))
), gone AS (
    DELETE FROM {s}.ready WHERE ctid = ANY(ARRAY(SELECT place FROM taken))
), leased AS (
    INSERT INTO {s}.lease (id, token, claim_no, started_at, seq, attempt, lane, flags, session)
    SELECT t.id, ($6::uuid[])[t.n], $2::bigint, s.now, s.seq + t.n, coalesce(f.attempt, 0) + 1, t.lane,
        t.flags & {flag_plain}, $1::text
    FROM start s CROSS JOIN taken t LEFT JOIN {s}.life f ON f.id = ANY(ARRAY[t.id])
), counted AS (
    INSERT INTO {s}.tally (lane, available, running) SELECT lane, -count(*), count(*) FROM taken GROUP BY lane
), served AS (
    -- In a fair queue: the turn being served.
    INSERT INTO {s}.served (queue, turn)
    SELECT $3::text, max(rank) FROM taken
    WHERE EXISTS (SELECT FROM {s}.queue WHERE name = $3::text AND fair) HAVING max(rank) > 0
)
SELECT s.now,
    (SELECT limited FROM total) OR (EXISTS (SELECT FROM locked) AND NOT EXISTS (SELECT FROM taken)) AS unusual,
    -- The lowest number that was locked and not taken: other claims may have skipped it.
    (SELECT min(seq) FROM locked WHERE NOT EXISTS (SELECT FROM taken)),
    (SELECT gated FROM total)
FROM start s
