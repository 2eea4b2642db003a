-- Functions that create lanes.

-- Creates the lanes that do not exist yet, as far as their queues have room. An advisory lock serializes callers, so
-- that the limit is exact.
CREATE FUNCTION {s}.add_lanes(queues text[], kinds text[], now_ms bigint, most bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended({'s'} || ' adds lanes', 0));
    -- Lanes are counted once per queue, not once per new lane.
    INSERT INTO {s}.lane (queue, kind, used_at)
    SELECT w.queue, k.kind, coalesce(now_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM (
        SELECT u.queue, array_agg(u.kind ORDER BY u.kind) AS kinds,
            (SELECT count(*) FROM {s}.lane l WHERE l.queue = u.queue) AS existing
        FROM (SELECT DISTINCT queue, kind FROM unnest(queues, kinds) d (queue, kind)) u
        WHERE NOT EXISTS (SELECT FROM {s}.lane l WHERE l.queue = u.queue AND l.kind = u.kind)
        GROUP BY u.queue
    ) w CROSS JOIN LATERAL unnest(w.kinds) WITH ORDINALITY k (kind, n)
    WHERE k.n + w.existing <= most
    ON CONFLICT DO NOTHING;
END
$$;

-- Returns the lane of a job that is enqueued in SQL, in the caller's transaction; null if the queue has no room for
-- another kind. Takes no lock that others would wait for, so concurrent callers may exceed the limit slightly.
CREATE FUNCTION {s}.lane_of(of_queue text, of_kind text, now_ms bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found_lane {s}.lane;
    updated boolean;
BEGIN
    SELECT * INTO found_lane FROM {s}.lane l WHERE l.queue = of_queue AND l.kind = of_kind;
    IF found_lane.id IS NULL THEN
        INSERT INTO {s}.lane (queue, kind, used_at)
            SELECT of_queue, of_kind, now_ms
            WHERE (SELECT count(*) FROM {s}.lane l WHERE l.queue = of_queue) < {lanes_per_queue_max}
            ON CONFLICT DO NOTHING;
        RETURN (SELECT l.id FROM {s}.lane l WHERE l.queue = of_queue AND l.kind = of_kind);
    END IF;
    IF found_lane.idle OR found_lane.used_at < now_ms - {lane_used_ms} THEN
        BEGIN
            UPDATE {s}.lane SET idle = false, used_at = now_ms WHERE id IN
                (SELECT l.id FROM {s}.lane l WHERE l.id = found_lane.id FOR UPDATE SKIP LOCKED);
            updated := FOUND;
        EXCEPTION WHEN serialization_failure THEN
            -- Above READ COMMITTED: another transaction updated it after our snapshot.
            updated := false;
        END;
        -- The lane was not used for days and another transaction has locked it: it may be deleting it.
        IF NOT updated AND found_lane.idle AND found_lane.used_at < now_ms - {lane_doomed_ms} THEN
            RAISE EXCEPTION 'busy: the kind % of queue % is being forgotten; try again', of_kind, of_queue
                USING ERRCODE = 'lock_not_available';
        END IF;
    END IF;
    RETURN found_lane.id;
END
$$;

REVOKE ALL ON FUNCTION {s}.add_lanes, {s}.lane_of FROM PUBLIC;
