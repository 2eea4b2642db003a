-- For people and for programs without our library: views, and enqueue as a function.

-- Every job, with its state by name and its times as such.
CREATE VIEW {s}.jobs AS
SELECT j.id, n.queue, n.kind,
    (ARRAY['scheduled', 'blocked', 'available', 'running', 'paused', 'completed', 'dead', 'cancelled',
        'expired'])[1 + coalesce(f.state, CASE WHEN e.id IS NOT NULL THEN 3 END, l.state, j.state)] AS state,
    coalesce(l.priority, j.priority) AS priority,
    to_timestamp(coalesce(CASE WHEN f.token IS NOT NULL THEN f.at END, l.run_at, j.run_at) / 1000.0) AS run_at,
    to_timestamp(j.created_at / 1000.0) AS created_at,
    to_timestamp(coalesce(e.started_at, f.started_at, l.started_at) / 1000.0) AS started_at,
    to_timestamp(coalesce(f.at, l.finished_at) / 1000.0) AS finished_at,
    coalesce(e.attempt, f.attempt, l.attempt, 0) AS attempt,
    coalesce(l.failures, 0) AS failures,
    CASE WHEN f.token IS NOT NULL THEN 0 ELSE coalesce(l.crashes, 0) END AS crashes,
    l.tail::json -> 'error' AS error,
    j.spec::json AS spec, j.payload
FROM {s}.job j JOIN {s}.lane n ON n.id = j.lane
LEFT JOIN {s}.life l ON l.id = j.id
LEFT JOIN {s}.lease e ON e.id = j.id
LEFT JOIN {s}.finished f ON f.id = j.id;

-- Dead letters, found by themselves and not among all others.
CREATE VIEW {s}.dead_jobs AS
SELECT j.* FROM {s}.finished d JOIN {s}.jobs j ON j.id = d.id WHERE d.state = 6;

-- Lanes in numbers.
CREATE VIEW {s}.queue_stats AS
SELECT n.queue, n.kind, sum(t.scheduled) AS scheduled, sum(t.blocked) AS blocked,
    sum(t.available) AS available, sum(t.running) AS running, sum(t.paused) AS paused, sum(t.dead) AS dead
FROM {s}.tally t JOIN {s}.lane n ON n.id = t.lane GROUP BY n.queue, n.kind;

-- A fresh id: a UUID of version 7 made now.
CREATE FUNCTION {s}.new_id(now_ms bigint) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_byte(set_byte(
        overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(now_ms) FROM 3) FROM 1 FOR 6),
        6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
        8, (get_byte(uuid_send(gen_random_uuid()), 8) & 63) | 128), 'hex')::uuid
$$;

-- Stores a job in the transaction of whoever calls, and returns its id: that of the job that is there
-- already, if the unique key is held. What it cannot do it refuses; the library can do more.
CREATE FUNCTION {s}.enqueue(
    kind text,
    payload jsonb DEFAULT NULL,
    queue text DEFAULT 'default',
    priority integer DEFAULT 0,
    delay_ms bigint DEFAULT 0,
    max_attempts integer DEFAULT 5,
    unique_key text DEFAULT NULL,
    tenant text DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    timeout_ms bigint DEFAULT NULL,
    tags text[] DEFAULT NULL,
    trace text DEFAULT NULL,
    payload_bytes bytea DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE
-- With the rights of the owner: who may only enqueue needs no right to the tables.
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    names CONSTANT text := '^[A-Za-z0-9_][A-Za-z0-9_./:@-]{0,127}$';
    now_ms CONSTANT bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    job uuid := {s}.new_id(now_ms);
    held uuid;
    waits CONSTANT text := current_setting('lock_timeout');
    number integer;
    place bigint;
    -- Bytes are kept as they are, where JSON is kept as PostgreSQL writes it.
    stored CONSTANT bytea := coalesce(payload_bytes, convert_to(payload::text, 'UTF8'));
    policy jsonb := '{}';
    spec jsonb := '{}';
BEGIN
    IF run_at IS NOT NULL AND delay_ms = 0 THEN
        delay_ms := greatest(0, ceil(extract(epoch FROM run_at) * 1000)::bigint - now_ms);
    ELSIF run_at IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay_ms are both given: use one of them';
    END IF;
    IF kind IS NULL OR kind !~ names THEN
        RAISE EXCEPTION 'kind is %: use letters, digits and _ - . : / @', quote_nullable(kind);
    ELSIF queue IS NULL OR queue !~ names THEN
        RAISE EXCEPTION 'queue is %: use letters, digits and _ - . : / @', quote_nullable(queue);
    ELSIF payload IS NOT NULL AND payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION 'payload and payload_bytes are both given: use one of them';
    ELSIF octet_length(stored) > 65536 THEN
        RAISE EXCEPTION 'payload has % bytes, the limit is 65536', octet_length(stored);
    ELSIF priority IS NULL THEN
        RAISE EXCEPTION 'priority is NULL: leave it out for 0';
    ELSIF delay_ms IS NULL OR delay_ms NOT BETWEEN 0 AND 315619200000 THEN
        RAISE EXCEPTION 'delay_ms is %: it must be between 0 and 315619200000', quote_nullable(delay_ms);
    ELSIF max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'max_attempts is %: it must be between 1 and 1000000', quote_nullable(max_attempts);
    ELSIF unique_key = '' OR octet_length(unique_key) > 256 OR unique_key ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'unique_key must be 1 to 256 bytes without control characters';
    ELSIF tenant = '' OR octet_length(tenant) > 128 OR tenant ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'tenant must be 1 to 128 bytes without control characters';
    ELSIF timeout_ms NOT BETWEEN 1 AND 604800000 THEN
        RAISE EXCEPTION 'timeout_ms is %: it must be between 1 and 604800000', timeout_ms;
    ELSIF cardinality(tags) > 16 OR array_ndims(tags) > 1 OR EXISTS (SELECT FROM unnest(tags) t
            WHERE t IS NULL OR octet_length(t) NOT BETWEEN 1 AND 64 OR t ~ '[[:cntrl:]]') THEN
        RAISE EXCEPTION 'tags must be at most 16, each of 1 to 64 bytes without control characters';
    ELSIF trace = '' OR octet_length(trace) > 512 OR trace ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'trace must be 1 to 512 bytes without control characters';
    ELSIF EXISTS (SELECT FROM {s}.queue q WHERE q.name = queue AND q.special) THEN
        RAISE EXCEPTION 'queue % has limits or an order of its own: enqueue to it through the library', queue;
    END IF;
    -- From here on it may have to wait for a transaction that stays open: not for long, 55P03 means busy.
    IF NOT extract(epoch FROM waits::interval) BETWEEN 0.001 AND 2 THEN
        PERFORM set_config('lock_timeout', '2s', true);
    END IF;
    SELECT l.id INTO number FROM {s}.lane l WHERE l.queue = queue AND l.kind = kind;
    IF number IS NULL THEN
        INSERT INTO {s}.lane (queue, kind) VALUES (queue, kind) ON CONFLICT DO NOTHING;
        SELECT l.id INTO number FROM {s}.lane l WHERE l.queue = queue AND l.kind = kind;
    END IF;
    IF unique_key IS NOT NULL THEN
        -- First without a lock: if somebody holds it, he must be able to end.
        SELECT u.id INTO held FROM {s}.unique_key u WHERE u.queue = queue AND u.kind = kind
            AND u.key = unique_key AND (u.until IS NULL OR u.until > now_ms);
        IF held IS NULL THEN
            INSERT INTO {s}.unique_key AS u (queue, kind, key, id) VALUES (queue, kind, unique_key, job)
                ON CONFLICT ON CONSTRAINT unique_key_pkey DO UPDATE
                    SET id = CASE WHEN u.until <= now_ms THEN excluded.id ELSE u.id END,
                        until = CASE WHEN u.until <= now_ms THEN NULL ELSE u.until END
                RETURNING u.id INTO held;
        END IF;
    END IF;
    PERFORM set_config('lock_timeout', waits, true);
    IF held <> job THEN
        RETURN held;
    END IF;
    IF unique_key IS NOT NULL THEN
        spec := jsonb_build_object('unique', jsonb_build_object('key', unique_key));
    END IF;
    IF tenant IS NOT NULL THEN
        spec := spec || jsonb_build_object('tenant', tenant);
    END IF;
    IF cardinality(tags) > 0 THEN
        spec := spec || jsonb_build_object('tags', tags);
    END IF;
    IF trace IS NOT NULL THEN
        spec := spec || jsonb_build_object('trace', trace);
    END IF;
    IF max_attempts <> 5 THEN
        policy := policy || jsonb_build_object('max_attempts', max_attempts);
    END IF;
    IF timeout_ms IS NOT NULL THEN
        policy := policy || jsonb_build_object('timeout_ms', timeout_ms);
    END IF;
    IF policy <> '{}' THEN
        spec := spec || jsonb_build_object('policy', policy);
    END IF;
    place := (nextval('{s}.entry') << 20) + 1;
    INSERT INTO {s}.job (id, created_at, run_at, rank, seq, lane, priority, state, spec, payload)
        VALUES (job, now_ms, now_ms + delay_ms, CASE WHEN delay_ms = 0 THEN priority ELSE 0 END, place,
            number, priority, CASE WHEN delay_ms = 0 THEN 2 ELSE 0 END, nullif(spec, '{}')::text,
            stored);
    IF delay_ms = 0 THEN
        INSERT INTO {s}.ready (lane, flags, rank, seq, id)
            VALUES (number, CASE WHEN unique_key IS NULL THEN 2 ELSE 0 END, priority, place, job);
    ELSE
        INSERT INTO {s}.scheduled (run_at, seq, id) VALUES (now_ms + delay_ms, place, job);
    END IF;
    INSERT INTO {s}.tally (lane, scheduled, blocked, available, running, paused, dead)
        VALUES (number, (delay_ms > 0)::integer, 0, (delay_ms = 0)::integer, 0, 0, 0);
    -- The same for all jobs of a transaction, so that it is sent once.
    PERFORM pg_notify({channel}, coalesce(nullif(current_setting('windlass.first', true), ''),
        set_config('windlass.first', place::text, true)));
    RETURN job;
END
$$;

-- The same for many: an array of objects with the names of the parameters above, and with bytes as
-- `payload_base64`.
CREATE FUNCTION {s}.enqueue_many(jobs jsonb) RETURNS SETOF uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known CONSTANT text[] := ARRAY['kind', 'payload', 'queue', 'priority', 'delay_ms', 'max_attempts',
        'unique_key', 'tenant', 'run_at', 'timeout_ms', 'tags', 'trace', 'payload_base64'];
    item jsonb;
    field text;
    at integer := -1;
BEGIN
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' OR jsonb_array_length(jobs) > 10000 THEN
        RAISE EXCEPTION 'jobs must be an array of at most 10000 objects';
    END IF;
    FOR item IN SELECT value FROM jsonb_array_elements(jobs) LOOP
        at := at + 1;
        FOR field IN SELECT key FROM jsonb_each(item) LOOP
            IF field <> ALL (known) THEN
                RAISE EXCEPTION 'field % is not known: use one of %', quote_literal(field), known;
            END IF;
        END LOOP;
        RETURN NEXT {s}.enqueue(item ->> 'kind', item -> 'payload', coalesce(item ->> 'queue', 'default'),
            coalesce((item ->> 'priority')::integer, 0), coalesce((item ->> 'delay_ms')::bigint, 0),
            coalesce((item ->> 'max_attempts')::integer, 5), item ->> 'unique_key', item ->> 'tenant',
            (item ->> 'run_at')::timestamptz, (item ->> 'timeout_ms')::bigint,
            CASE WHEN item -> 'tags' IS NOT NULL THEN
                ARRAY(SELECT value FROM jsonb_array_elements_text(item -> 'tags')) END,
            item ->> 'trace', decode(item ->> 'payload_base64', 'base64'));
    END LOOP;
-- For programs that see no more of an error than its text, it begins with a word of its own.
EXCEPTION
    WHEN lock_not_available THEN
        RAISE EXCEPTION 'busy: another transaction holds what jobs[%] needs, and stays open', at
            USING ERRCODE = 'lock_not_available';
    WHEN raise_exception OR data_exception THEN
        RAISE EXCEPTION 'refused: jobs[%]: %', at, SQLERRM;
END
$$;

-- Functions are everybody's unless it is said otherwise.
REVOKE ALL ON FUNCTION {s}.new_id, {s}.enqueue, {s}.enqueue_many FROM PUBLIC;
