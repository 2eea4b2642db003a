-- Stores plain jobs, and returns the ids that did not exist before. Stores nothing if a queue or kind has special settings, or
-- if an id is so old that its partition may be being removed.
--
-- $1 ids, $2 lanes, $3 priorities, $4 flags, $5 specs, $6 payloads, $7 envelopes, $8 queues
-- $9 the time of a test or null, $10 the lowest id, $11 its maximum age in milliseconds, $12 kinds
WITH clock AS MATERIALIZED (
    SELECT coalesce($9::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), start AS MATERIALIZED (
    SELECT nextval({'s.entry'}) << {seq_bits} AS seq, now,
        NOT EXISTS (SELECT FROM {s}.queue WHERE name = ANY($8::text[]) AND special)
            AND NOT EXISTS (SELECT FROM {s}.kind WHERE name = ANY($12::text[]) AND special)
            AND $10::uuid >= rpad(lpad(to_hex(greatest(now - $11::bigint, 0)), 12, '0'), 32, '0')::uuid AS usual
    FROM clock
), given AS MATERIALIZED (
    SELECT w.*, s.now, s.seq + w.n AS seq FROM start s CROSS JOIN
        unnest($1::uuid[], $2::integer[], $3::integer[], $4::smallint[], $5::text[], $6::bytea[], $7::text[])
            WITH ORDINALITY w (id, lane, priority, flags, spec, payload, envelope, n)
    WHERE s.usual
), added AS (
    INSERT INTO {s}.job
        (id, created_at, run_at, rank, seq, lane, priority, state, spec, payload, envelope)
    SELECT id, now, now, priority, seq, lane, priority, {available}, spec, payload, envelope FROM given
    ON CONFLICT (id) DO NOTHING RETURNING id, lane, rank, seq
), placed AS (
    -- The number of a job gives its index in the arrays.
    INSERT INTO {s}.ready (lane, flags, rank, seq, id)
    SELECT a.lane, ($4::smallint[])[a.seq - s.seq], a.rank, a.seq, a.id
    FROM start s CROSS JOIN added a
), counted AS (
    INSERT INTO {s}.tally (lane, available) SELECT lane, count(*) FROM added GROUP BY lane
)
SELECT s.now, s.usual, CASE WHEN (SELECT count(*) FROM added) < cardinality($1::uuid[])
    THEN (SELECT coalesce(array_agg(id), '{}') FROM added) END, s.seq
FROM start s
