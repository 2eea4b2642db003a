-- Lanes are limited, passed by when they are idle, and forgotten when they have been idle for long.

-- When it last got new jobs, to about half a minute.
ALTER TABLE {s}.lane ADD COLUMN used_at bigint NOT NULL DEFAULT 0;
-- Without live jobs, and not used for minutes: claims look at it only now and then. A hint: whoever puts a job there
-- clears it, and maintenance does where somebody did not.
ALTER TABLE {s}.lane ADD COLUMN idle boolean NOT NULL DEFAULT false;
CREATE INDEX lane_busy ON {s}.lane (queue, kind) WHERE NOT idle;
-- Ended jobs with a retention of their own keep their lane, like all others.
CREATE INDEX finished_own ON {s}.finished (lane, at) WHERE own;

-- Adds the lanes that are not there yet, as far as their queues have room. One at a time counts and adds.
CREATE FUNCTION {s}.add_lanes(queues text[], kinds text[], now_ms bigint, most bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('{s} adds lanes', 0));
    INSERT INTO {s}.lane (queue, kind, used_at)
    SELECT w.queue, w.kind, coalesce(now_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM (
        SELECT u.queue, u.kind, row_number() OVER (PARTITION BY u.queue ORDER BY u.kind) AS n
        FROM (SELECT DISTINCT queue, kind FROM unnest(queues, kinds) d (queue, kind)) u
        WHERE NOT EXISTS (SELECT FROM {s}.lane l WHERE l.queue = u.queue AND l.kind = u.kind)
    ) w
    WHERE w.n + (SELECT count(*) FROM {s}.lane l WHERE l.queue = w.queue) <= most
    ON CONFLICT DO NOTHING;
END
$$;

-- The lane of a job that is enqueued by SQL, in the transaction of whoever calls; null if the queue has no room for it.
-- Without a lock that others would wait for, so that some more than the limit may come at the same time.
CREATE FUNCTION {s}.lane_of(of_queue text, of_kind text, now_ms bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found_lane {s}.lane;
    noted boolean;
BEGIN
    SELECT * INTO found_lane FROM {s}.lane l WHERE l.queue = of_queue AND l.kind = of_kind;
    IF found_lane.id IS NULL THEN
        INSERT INTO {s}.lane (queue, kind, used_at)
            SELECT of_queue, of_kind, now_ms
            WHERE (SELECT count(*) FROM {s}.lane l WHERE l.queue = of_queue) < 10000 ON CONFLICT DO NOTHING;
        RETURN (SELECT l.id FROM {s}.lane l WHERE l.queue = of_queue AND l.kind = of_kind);
    END IF;
    IF found_lane.idle OR found_lane.used_at < now_ms - 20000 THEN
        BEGIN
            UPDATE {s}.lane SET idle = false, used_at = now_ms WHERE id IN
                (SELECT l.id FROM {s}.lane l WHERE l.id = found_lane.id FOR UPDATE SKIP LOCKED);
            noted := FOUND;
        EXCEPTION WHEN serialization_failure THEN
            -- A transaction with one snapshot: somebody else noted it since.
            noted := false;
        END;
        -- It was not used for days and somebody has it: it may be about to be forgotten.
        IF NOT noted AND found_lane.idle AND found_lane.used_at < now_ms - 518400000 THEN
            RAISE EXCEPTION 'busy: the kind % of queue % is being forgotten; try again', of_kind, of_queue
                USING ERRCODE = 'lock_not_available';
        END IF;
    END IF;
    RETURN found_lane.id;
END
$$;

-- Whether JSON is nested deeper than 100 levels, which breaks the parsers of other clients.
CREATE FUNCTION {s}.too_deep(json jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(json::text) > 200 AND jsonb_path_exists(json,
        'strict $.**{100} ? (@.type() == "object" || @.type() == "array")')
$$;
REVOKE ALL ON FUNCTION {s}.add_lanes, {s}.lane_of, {s}.too_deep FROM PUBLIC;

DO $do$
DECLARE
    source CONSTANT text := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p
        WHERE p.pronamespace = '{s}'::regnamespace AND p.proname = 'enqueue');
    shallow CONSTANT text := replace(source, 'ELSIF octet_length(stored) > 65536 THEN', $new$ELSIF {s}.too_deep(payload) THEN
        RAISE EXCEPTION 'payload is nested more than 100 levels deep: flatten it, or put the inner part into a string';
    ELSIF octet_length(stored) > 65536 THEN$new$);
    limited CONSTANT text := replace(shallow,
    $old$SELECT l.id INTO number FROM {s}.lane l WHERE l.queue = queue AND l.kind = kind;
    IF number IS NULL THEN
        INSERT INTO {s}.lane (queue, kind) VALUES (queue, kind) ON CONFLICT DO NOTHING;
        SELECT l.id INTO number FROM {s}.lane l WHERE l.queue = queue AND l.kind = kind;
    END IF;$old$,
    $new$number := {s}.lane_of(queue, kind, now_ms);
    IF number IS NULL THEN
        RAISE EXCEPTION 'kind is %: queue % has jobs of 10000 kinds, the limit: use fewer kinds or another queue',
            quote_literal(kind), queue;
    END IF;$new$);
BEGIN
    IF shallow = source OR limited = shallow THEN
        RAISE EXCEPTION 'function enqueue is not as it was made';
    END IF;
    EXECUTE limited;
END
$do$;
