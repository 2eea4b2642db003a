-- Enqueueing in SQL, for applications without the library.

-- Returns a new id: a UUID of version 7.
CREATE FUNCTION {s}.new_id(now_ms bigint) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_byte(set_byte(
        overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(now_ms) FROM 3) FROM 1 FOR 6),
        6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
        8, (get_byte(uuid_send(gen_random_uuid()), 8) & 63) | 128), 'hex')::uuid
$$;

-- Whether JSON is nested deeper than {json_depth_max} levels, which breaks the parsers of other clients.
CREATE FUNCTION {s}.too_deep(json jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(json::text) > 2 * {json_depth_max} AND jsonb_path_exists(json,
        'strict $.**{{json_depth_max}} ? (@.type() == "object" || @.type() == "array")')
$$;

-- Detects a unique key that was freed after the caller's snapshot. Applications enqueue at any isolation level; with
-- one snapshot per transaction, the holder may have ended since, and the transaction must be repeated (40001).
CREATE FUNCTION {s}.recheck_key(queue text, kind text, key text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RETURN;
    END IF;
    -- A row that has changed since the snapshot cannot be locked. The lock is released again, so that the holder can
    -- end.
    BEGIN
        PERFORM FROM {s}.unique_key u WHERE u.queue = queue AND u.kind = kind AND u.key = key FOR KEY SHARE;
        RAISE EXCEPTION USING ERRCODE = 'WL000';
    EXCEPTION WHEN SQLSTATE 'WL000' THEN
        NULL;
    END;
END
$$;

-- Notifies workers when the transaction commits, with the number of its first job: claims may have scanned further
-- meanwhile and must start there again. All jobs of a transaction send the same number, so that PostgreSQL merges the
-- notifications. The number is kept in a setting, which every role can change, so it carries a seal made from the secret
-- and the transaction id.
CREATE FUNCTION {s}.wake(place bigint) RETURNS void LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    secret CONSTANT text := (SELECT replace(value::text, '-', '') FROM {s}.secret);
    kept CONSTANT text := coalesce(current_setting('windlass.first', true), '');
    first text := split_part(kept, ' ', 1);
    transaction CONSTANT text := pg_current_xact_id()::text;
BEGIN
    IF kept <> first || ' ' || encode(sha256(convert_to(concat_ws(' ', secret, first, transaction), 'UTF8')), 'hex')
    THEN
        first := place::text;
        PERFORM set_config('windlass.first', first || ' '
            || encode(sha256(convert_to(concat_ws(' ', secret, first, transaction), 'UTF8')), 'hex'), true);
    END IF;
    PERFORM pg_notify('windlass_' || secret, first);
END
$$;

-- Stores a job in the caller's transaction and returns its id, or the id of the job that holds the unique key.
-- Refuses options that only the library supports. Runs with the owner's privileges, so that the caller needs none on
-- the tables.
CREATE FUNCTION {s}.enqueue(
    kind text,
    payload jsonb DEFAULT NULL,
    queue text DEFAULT 'default',
    priority integer DEFAULT 0,
    delay_ms bigint DEFAULT 0,
    max_attempts integer DEFAULT {max_attempts_default},
    unique_key text DEFAULT NULL,
    tenant text DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    timeout_ms bigint DEFAULT NULL,
    tags text[] DEFAULT NULL,
    trace text DEFAULT NULL,
    payload_bytes bytea DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    names CONSTANT text := '^[A-Za-z0-9_][A-Za-z0-9_./:@-]{0,{name_rest_bytes_max}}$';
    now_ms CONSTANT bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    job uuid := {s}.new_id(now_ms);
    held uuid;
    caller_timeout CONSTANT text := current_setting('lock_timeout');
    number integer;
    place bigint;
    -- Bytes are stored unchanged, JSON as PostgreSQL prints it.
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
    ELSIF {s}.too_deep(payload) THEN
        RAISE EXCEPTION 'payload is nested more than {json_depth_max} levels deep: flatten it, or put the inner part into a string';
    ELSIF octet_length(stored) > {payload_bytes_max} THEN
        RAISE EXCEPTION 'payload has % bytes, the limit is {payload_bytes_max}', octet_length(stored);
    ELSIF priority IS NULL THEN
        RAISE EXCEPTION 'priority is NULL: leave it out for 0';
    ELSIF delay_ms IS NULL OR delay_ms NOT BETWEEN 0 AND {delay_max_ms} THEN
        RAISE EXCEPTION 'delay_ms is %: it must be between 0 and {delay_max_ms}', quote_nullable(delay_ms);
    ELSIF max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND {max_attempts_max} THEN
        RAISE EXCEPTION 'max_attempts is %: it must be between 1 and {max_attempts_max}', quote_nullable(max_attempts);
    ELSIF unique_key = '' OR octet_length(unique_key) > {key_bytes_max} OR unique_key ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'unique_key must be 1 to {key_bytes_max} bytes without control characters';
    ELSIF tenant = '' OR octet_length(tenant) > {name_bytes_max} OR tenant ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'tenant must be 1 to {name_bytes_max} bytes without control characters';
    ELSIF timeout_ms NOT BETWEEN 1 AND {timeout_max_ms} THEN
        RAISE EXCEPTION 'timeout_ms is %: it must be between 1 and {timeout_max_ms}', timeout_ms;
    ELSIF cardinality(tags) > {tags_max} OR array_ndims(tags) > 1 OR EXISTS (SELECT FROM unnest(tags) t
            WHERE t IS NULL OR octet_length(t) NOT BETWEEN 1 AND {tag_bytes_max} OR t ~ '[[:cntrl:]]') THEN
        RAISE EXCEPTION 'tags must be at most {tags_max}, each of 1 to {tag_bytes_max} bytes without control characters';
    ELSIF trace = '' OR octet_length(trace) > {trace_bytes_max} OR trace ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'trace must be 1 to {trace_bytes_max} bytes without control characters';
    ELSIF EXISTS (SELECT FROM {s}.queue q WHERE q.name = queue AND q.special) THEN
        RAISE EXCEPTION 'queue % has limits or an order of its own: enqueue to it through the library', queue;
    END IF;
    -- From here on it may wait for a transaction that stays open: at most 2 seconds, then 55P03 means busy.
    IF NOT extract(epoch FROM caller_timeout::interval) BETWEEN 0.001 AND 2 THEN
        PERFORM set_config('lock_timeout', '2s', true);
    END IF;
    number := {s}.lane_of(queue, kind, now_ms);
    IF number IS NULL THEN
        RAISE EXCEPTION 'kind is %: queue % has jobs of {lanes_per_queue_max} kinds, the limit: use fewer kinds or another queue',
            quote_literal(kind), queue;
    END IF;
    IF unique_key IS NOT NULL THEN
        -- First without a lock, so that the holder of the key can end.
        SELECT u.id INTO held FROM {s}.unique_key u WHERE u.queue = queue AND u.kind = kind
            AND u.key = unique_key AND (u.until IS NULL OR u.until > now_ms);
        PERFORM {s}.recheck_key(queue, kind, unique_key);
        IF held IS NULL THEN
            INSERT INTO {s}.unique_key AS u (queue, kind, key, id) VALUES (queue, kind, unique_key, job)
                ON CONFLICT ON CONSTRAINT unique_key_pkey DO UPDATE
                    SET id = CASE WHEN u.until <= now_ms THEN excluded.id ELSE u.id END,
                        until = CASE WHEN u.until <= now_ms THEN NULL ELSE u.until END
                RETURNING u.id INTO held;
        END IF;
    END IF;
    PERFORM set_config('lock_timeout', caller_timeout, true);
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
    IF max_attempts <> {max_attempts_default} THEN
        policy := policy || jsonb_build_object('max_attempts', max_attempts);
    END IF;
    IF timeout_ms IS NOT NULL THEN
        policy := policy || jsonb_build_object('timeout_ms', timeout_ms);
    END IF;
    IF policy <> '{}' THEN
        spec := spec || jsonb_build_object('policy', policy);
    END IF;
    place := (nextval({'s.entry'}) << {seq_bits}) + 1;
    INSERT INTO {s}.job (id, created_at, run_at, rank, seq, lane, priority, state, spec, payload)
        VALUES (job, now_ms, now_ms + delay_ms, CASE WHEN delay_ms = 0 THEN priority ELSE 0 END, place, number,
            priority, CASE WHEN delay_ms = 0 THEN {available} ELSE {scheduled} END, nullif(spec, '{}')::text, stored);
    IF delay_ms = 0 THEN
        INSERT INTO {s}.ready (lane, flags, rank, seq, id)
            VALUES (number, CASE WHEN unique_key IS NULL THEN {flag_plain} ELSE 0 END, priority, place, job);
        INSERT INTO {s}.tally (lane, available) VALUES (number, 1);
    ELSE
        INSERT INTO {s}.scheduled (run_at, seq, id) VALUES (now_ms + delay_ms, place, job);
        INSERT INTO {s}.tally (lane, scheduled) VALUES (number, 1);
    END IF;
    PERFORM {s}.wake(place);
    RETURN job;
END
$$;

-- Stores many jobs: an array of objects whose fields are the parameters of `enqueue`, with bytes as `payload_base64`.
CREATE FUNCTION {s}.enqueue_many(jobs jsonb) RETURNS SETOF uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known CONSTANT text[] := ARRAY['kind', 'payload', 'queue', 'priority', 'delay_ms', 'max_attempts',
        'unique_key', 'tenant', 'run_at', 'timeout_ms', 'tags', 'trace', 'payload_base64'];
    item jsonb;
    field text;
    at integer := -1;
BEGIN
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' OR jsonb_array_length(jobs) > {enqueue_batch_max} THEN
        RAISE EXCEPTION 'jobs must be an array of at most {enqueue_batch_max} objects';
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
            coalesce((item ->> 'max_attempts')::integer, {max_attempts_default}), item ->> 'unique_key',
            item ->> 'tenant', (item ->> 'run_at')::timestamptz, (item ->> 'timeout_ms')::bigint,
            CASE WHEN item -> 'tags' IS NOT NULL THEN
                ARRAY(SELECT value FROM jsonb_array_elements_text(item -> 'tags')) END,
            item ->> 'trace', decode(item ->> 'payload_base64', 'base64'));
    END LOOP;
-- The messages begin with a fixed word, for drivers that return only the text of an error.
EXCEPTION
    WHEN lock_not_available THEN
        RAISE EXCEPTION 'busy: another transaction holds what jobs[%] needs, and stays open', at
            USING ERRCODE = 'lock_not_available';
    WHEN raise_exception OR data_exception THEN
        RAISE EXCEPTION 'refused: jobs[%]: %', at, SQLERRM;
END
$$;

-- PUBLIC may execute new functions unless that is revoked.
REVOKE ALL ON FUNCTION {s}.new_id, {s}.too_deep, {s}.recheck_key, {s}.wake, {s}.enqueue, {s}.enqueue_many FROM PUBLIC;
