-- Enqueueing in SQL, for applications without the library.

-- Stores a job in the caller's transaction and returns its id, or the id of the job that holds the unique key. Runs with
-- the owner's privileges, so that the caller needs none on the tables.
--
-- It stores what it is given and decides nothing that the executor decides: a job whose start depends on other jobs or
-- on the order of its queue is stored as scheduled and due, and the services promote it; a job that it replaces is noted
-- in `replaced`, and the services cancel it.
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
    payload_bytes bytea DEFAULT NULL,
    unique_scope text DEFAULT 'lane',
    unique_until text DEFAULT 'finished',
    unique_window_ms bigint DEFAULT NULL,
    on_conflict text DEFAULT 'existing',
    id uuid DEFAULT NULL,
    key text DEFAULT NULL,
    parent uuid DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    max_crashes integer DEFAULT {max_crashes_default},
    max_wait_ms bigint DEFAULT NULL,
    retention jsonb DEFAULT NULL,
    checkpoint_bytes bytea DEFAULT NULL,
    blob_bytes bytea DEFAULT NULL,
    metadata_bytes bytea DEFAULT NULL,
    job_group text DEFAULT NULL,
    cost bigint DEFAULT 1
) RETURNS uuid LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    names CONSTANT text := '^[A-Za-z0-9_][A-Za-z0-9_./:@-]{0,{name_rest_bytes_max}}$';
    now_ms CONSTANT bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    job CONSTANT uuid := coalesce(id, {s}.new_id(now_ms));
    caller_timeout CONSTANT text := current_setting('lock_timeout');
    -- Bytes are stored unchanged, JSON as PostgreSQL prints it.
    stored CONSTANT bytea := coalesce(payload_bytes, convert_to(payload::text, 'UTF8'));
    -- Set by engines (windlass_core::engine::Capabilities::payload_bytes_max).
    bytes_max CONSTANT bigint := coalesce(
        (SELECT m.value FROM {s}.meta m WHERE m.name = 'payload_bytes_max'), {payload_bytes_default});
    takes_over CONSTANT boolean := on_conflict IN ('replace', 'debounce');
    settings {s}.queue;
    held uuid;
    held_state smallint;
    held_run_at bigint;
    replaces boolean := false;
    depth bigint;
    due_ms bigint;
    number integer;
    place bigint;
    ready boolean;
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
    ELSIF octet_length(stored) > bytes_max THEN
        RAISE EXCEPTION 'payload has % bytes, the limit is %: store large data elsewhere, or raise store.payload_bytes_max',
            octet_length(stored), bytes_max;
    ELSIF octet_length(checkpoint_bytes) > {checkpoint_bytes_max} THEN
        RAISE EXCEPTION 'checkpoint_bytes has % bytes, the limit is {checkpoint_bytes_max}', octet_length(checkpoint_bytes);
    ELSIF octet_length(blob_bytes) > {blob_bytes_max} THEN
        RAISE EXCEPTION 'blob_bytes has % bytes, the limit is {blob_bytes_max}', octet_length(blob_bytes);
    ELSIF octet_length(metadata_bytes) > {metadata_bytes_max} THEN
        RAISE EXCEPTION 'metadata_bytes has % bytes, the limit is {metadata_bytes_max}', octet_length(metadata_bytes);
    ELSIF priority IS NULL THEN
        RAISE EXCEPTION 'priority is NULL: leave it out for 0';
    ELSIF delay_ms IS NULL OR delay_ms NOT BETWEEN 0 AND {delay_max_ms} THEN
        RAISE EXCEPTION 'delay_ms is %: it must be between 0 and {delay_max_ms}', quote_nullable(delay_ms);
    ELSIF max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND {max_attempts_max} THEN
        RAISE EXCEPTION 'max_attempts is %: it must be between 1 and {max_attempts_max}', quote_nullable(max_attempts);
    ELSIF max_crashes IS NULL OR max_crashes NOT BETWEEN 0 AND {max_crashes_max} THEN
        RAISE EXCEPTION 'max_crashes is %: it must be between 0 and {max_crashes_max}', quote_nullable(max_crashes);
    ELSIF max_wait_ms NOT BETWEEN 1 AND {age_max_ms} THEN
        RAISE EXCEPTION 'max_wait_ms is %: it must be between 1 and {age_max_ms}', max_wait_ms;
    ELSIF unique_key = '' OR octet_length(unique_key) > {key_bytes_max} OR unique_key ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'unique_key must be 1 to {key_bytes_max} bytes without control characters';
    ELSIF unique_scope IS NULL OR unique_scope NOT IN ('lane', 'queue', 'kind', 'global') THEN
        RAISE EXCEPTION 'unique_scope is %: use lane, queue, kind or global', quote_nullable(unique_scope);
    ELSIF unique_until IS NULL OR unique_until NOT IN ('finished', 'removed') THEN
        RAISE EXCEPTION 'unique_until is %: use finished or removed, or unique_window_ms', quote_nullable(unique_until);
    ELSIF unique_window_ms NOT BETWEEN 1 AND {age_max_ms} THEN
        RAISE EXCEPTION 'unique_window_ms is %: it must be between 1 and {age_max_ms}', unique_window_ms;
    ELSIF unique_window_ms IS NOT NULL AND unique_until = 'removed' THEN
        RAISE EXCEPTION 'unique_until and unique_window_ms are both given: use one of them';
    ELSIF on_conflict IS NULL OR on_conflict NOT IN ('existing', 'replace', 'debounce', 'throttle', 'reject') THEN
        RAISE EXCEPTION 'on_conflict is %: use existing, replace, debounce, throttle or reject', quote_nullable(on_conflict);
    ELSIF on_conflict = 'throttle' AND unique_window_ms IS NULL THEN
        RAISE EXCEPTION 'on_conflict is throttle: it needs unique_window_ms';
    ELSIF unique_key IS NULL AND (unique_scope, unique_until, on_conflict) <> ('lane', 'finished', 'existing')
            OR unique_key IS NULL AND unique_window_ms IS NOT NULL THEN
        RAISE EXCEPTION 'unique_scope, unique_until, unique_window_ms and on_conflict need unique_key';
    ELSIF key = '' OR octet_length(key) > {key_bytes_max} OR key ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'key must be 1 to {key_bytes_max} bytes without control characters';
    ELSIF tenant = '' OR octet_length(tenant) > {name_bytes_max} OR tenant ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'tenant must be 1 to {name_bytes_max} bytes without control characters';
    ELSIF job_group = '' OR octet_length(job_group) > {group_bytes_max} OR job_group ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'job_group must be 1 to {group_bytes_max} bytes without control characters';
    ELSIF cost IS NULL OR cost NOT BETWEEN 1 AND {cost_max} THEN
        RAISE EXCEPTION 'cost is %: it must be between 1 and {cost_max}', quote_nullable(cost);
    ELSIF timeout_ms NOT BETWEEN 1 AND {timeout_max_ms} THEN
        RAISE EXCEPTION 'timeout_ms is %: it must be between 1 and {timeout_max_ms}', timeout_ms;
    ELSIF cardinality(tags) > {tags_max} OR array_ndims(tags) > 1 OR EXISTS (SELECT FROM unnest(tags) t
            WHERE t IS NULL OR octet_length(t) NOT BETWEEN 1 AND {tag_bytes_max} OR t ~ '[[:cntrl:]]') THEN
        RAISE EXCEPTION 'tags must be at most {tags_max}, each of 1 to {tag_bytes_max} bytes without control characters';
    ELSIF trace = '' OR octet_length(trace) > {trace_bytes_max} OR trace ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'trace must be 1 to {trace_bytes_max} bytes without control characters';
    ELSIF id IS NOT NULL AND (get_byte(uuid_send(id), 6) >> 4 <> 7 OR abs(now_ms
            - ('x' || lpad(left(replace(id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint) > {id_skew_max_ms}) THEN
        RAISE EXCEPTION 'id is %: use a UUID of version 7 with a time within a day, or leave it out', id;
    END IF;
    IF id IS NOT NULL AND EXISTS (SELECT FROM {s}.job j WHERE j.id = job) THEN
        RETURN job;
    END IF;
    IF max_attempts <> {max_attempts_default} THEN
        policy := policy || jsonb_build_object('max_attempts', max_attempts);
    END IF;
    IF max_crashes <> {max_crashes_default} THEN
        policy := policy || jsonb_build_object('max_crashes', max_crashes);
    END IF;
    IF backoff IS NOT NULL THEN
        policy := policy || jsonb_build_object('backoff', {s}.backoff_of(backoff));
    END IF;
    IF retention IS NOT NULL THEN
        policy := policy || jsonb_build_object('retention', {s}.retention_of(retention));
    END IF;
    policy := policy || jsonb_strip_nulls(jsonb_build_object('timeout_ms', timeout_ms, 'max_wait_ms', max_wait_ms));
    spec := jsonb_strip_nulls(jsonb_build_object('tenant', tenant, 'key', key, 'group', job_group,
        'cost', nullif(cost, 1), 'parent', parent, 'trace', trace));
    IF policy <> '{}' THEN
        spec := spec || jsonb_build_object('policy', policy);
    END IF;
    IF cardinality(tags) > 0 THEN
        spec := spec || jsonb_build_object('tags', tags);
    END IF;
    IF unique_key IS NOT NULL THEN
        spec := spec || jsonb_build_object('unique', jsonb_build_object('key', unique_key, 'scope', unique_scope,
            'until', CASE WHEN unique_window_ms IS NULL THEN to_jsonb(unique_until)
                ELSE jsonb_build_object('window_ms', unique_window_ms) END,
            'on_conflict', on_conflict));
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
    SELECT * INTO settings FROM {s}.queue q WHERE q.name = queue AND q.special;
    IF settings.settings::json -> 'subscriptions' IS NOT NULL THEN
        RAISE EXCEPTION 'queue % is a topic: enqueue in the transaction from Rust, over HTTP, or to the queues of its subscriptions',
            queue USING ERRCODE = 'feature_not_supported';
    END IF;
    IF settings.limited THEN
        -- Enqueues to a queue with a depth limit wait for each other.
        SELECT * INTO settings FROM {s}.queue q WHERE q.name = queue FOR UPDATE;
    END IF;
    IF unique_key IS NOT NULL THEN
        held := {s}.take_key(CASE WHEN unique_scope IN ('lane', 'queue') THEN queue ELSE '' END,
            CASE WHEN unique_scope IN ('lane', 'kind') THEN kind ELSE '' END, unique_key, job,
            CASE WHEN unique_window_ms IS NOT NULL THEN now_ms + unique_window_ms
                WHEN unique_until = 'removed' THEN {while_stored} END, takes_over, now_ms);
    END IF;
    due_ms := now_ms + delay_ms;
    IF held <> job AND NOT takes_over THEN
        PERFORM set_config('lock_timeout', caller_timeout, true);
        IF on_conflict = 'reject' THEN
            RAISE EXCEPTION 'unique_key % is held by job %', quote_literal(unique_key), held
                USING ERRCODE = 'unique_violation';
        END IF;
        RETURN held;
    ELSIF held <> job THEN
        SELECT coalesce(f.state, CASE WHEN e.id IS NOT NULL THEN {running} END, l.state, j.state),
            coalesce(l.run_at, j.run_at) INTO held_state, held_run_at
            FROM {s}.job j LEFT JOIN {s}.life l ON l.id = j.id LEFT JOIN {s}.lease e ON e.id = j.id
            LEFT JOIN {s}.finished f ON f.id = j.id WHERE j.id = held;
        replaces := coalesce(held_state IN ({scheduled}, {blocked}, {available}, {paused}), false);
    END IF;
    IF replaces THEN
        INSERT INTO {s}.replaced (id, by) VALUES (held, job) ON CONFLICT DO NOTHING;
        IF on_conflict = 'replace' THEN
            due_ms := least(due_ms, held_run_at);
        END IF;
    ELSIF settings.limited THEN
        SELECT coalesce(sum(t.scheduled + t.blocked + t.available + t.paused), 0) INTO depth
            FROM {s}.lane l JOIN {s}.tally t ON t.lane = l.id WHERE l.queue = queue;
        IF depth >= (settings.settings::json ->> 'max_depth')::bigint THEN
            RAISE EXCEPTION 'queue % is full: % jobs wait, the limit is %', queue, depth,
                settings.settings::json ->> 'max_depth' USING ERRCODE = 'program_limit_exceeded';
        END IF;
    END IF;
    PERFORM set_config('lock_timeout', caller_timeout, true);
    ready := due_ms <= now_ms AND settings.name IS NULL AND key IS NULL AND max_wait_ms IS NULL
        AND NOT EXISTS (SELECT FROM {s}.kind k WHERE k.name = kind AND k.special);
    place := (nextval({'s.entry'}) << {seq_bits}) + 1;
    INSERT INTO {s}.job (id, created_at, run_at, rank, seq, lane, priority, state, spec, payload)
        VALUES (job, now_ms, due_ms, CASE WHEN ready THEN priority ELSE 0 END, place, number, priority,
            CASE WHEN ready THEN {available} ELSE {scheduled} END, nullif(spec, '{}')::text, stored);
    INSERT INTO {s}.part (id, name, bytes) SELECT job, p.name, p.bytes FROM (VALUES ({part_checkpoint}, checkpoint_bytes),
        ({part_blob}, blob_bytes), ({part_metadata}, metadata_bytes)) p (name, bytes) WHERE p.bytes IS NOT NULL;
    IF id IS NOT NULL THEN
        PERFORM {s}.void_surveys(ARRAY[job], ARRAY[NULL::bigint], ARRAY[{old_id_ms}::bigint]);
    END IF;
    IF ready THEN
        INSERT INTO {s}.ready (lane, flags, rank, seq, id) VALUES (number,
            CASE WHEN unique_key IS NULL AND retention IS NULL THEN {flag_plain} ELSE 0 END
                + CASE WHEN cost <> 1 THEN {flag_costly} ELSE 0 END, priority, place, job);
        INSERT INTO {s}.tally (lane, available) VALUES (number, 1);
        PERFORM {s}.wake(place);
    ELSE
        INSERT INTO {s}.scheduled (run_at, seq, id, lane) VALUES (due_ms, place, job, number);
        INSERT INTO {s}.tally (lane, scheduled) VALUES (number, 1);
    END IF;
    IF settings.recorded THEN
        INSERT INTO {s}.event_inbox (stream, at, job, kind, event, state, attempt, transition)
            SELECT s.id, now_ms, job, kind, '{event_enqueue}', CASE WHEN ready THEN {available} ELSE {scheduled} END, 0, 1
            FROM {s}.event_stream s WHERE s.queue = queue AND NOT s.ended;
        PERFORM {s}.wake_readers(ARRAY[queue]);
    END IF;
    RETURN job;
END
$$;

-- Stores many jobs: an array of objects whose fields are the parameters of `enqueue`, with bytes as `payload_base64`,
-- `checkpoint_base64`, `blob_base64` and `metadata_base64`.
CREATE FUNCTION {s}.enqueue_many(jobs jsonb) RETURNS SETOF uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known CONSTANT text[] := ARRAY['kind', 'payload', 'queue', 'priority', 'delay_ms', 'max_attempts', 'unique_key',
        'tenant', 'run_at', 'timeout_ms', 'tags', 'trace', 'payload_base64', 'unique_scope', 'unique_until',
        'unique_window_ms', 'on_conflict', 'id', 'key', 'parent', 'backoff', 'max_crashes', 'max_wait_ms', 'retention',
        'checkpoint_base64', 'blob_base64', 'metadata_base64', 'job_group', 'cost'];
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
            item ->> 'trace', decode(item ->> 'payload_base64', 'base64'),
            coalesce(item ->> 'unique_scope', 'lane'), coalesce(item ->> 'unique_until', 'finished'),
            (item ->> 'unique_window_ms')::bigint, coalesce(item ->> 'on_conflict', 'existing'),
            (item ->> 'id')::uuid, item ->> 'key', (item ->> 'parent')::uuid, item -> 'backoff',
            coalesce((item ->> 'max_crashes')::integer, {max_crashes_default}), (item ->> 'max_wait_ms')::bigint,
            item -> 'retention', decode(item ->> 'checkpoint_base64', 'base64'), decode(item ->> 'blob_base64', 'base64'),
            decode(item ->> 'metadata_base64', 'base64'), item ->> 'job_group', coalesce((item ->> 'cost')::bigint, 1));
    END LOOP;
-- The messages begin with a fixed word, for drivers that return only the text of an error.
EXCEPTION
    WHEN lock_not_available THEN
        RAISE EXCEPTION 'busy: another transaction holds what jobs[%] needs, and stays open', at
            USING ERRCODE = 'lock_not_available';
    WHEN unique_violation OR program_limit_exceeded THEN
        RAISE EXCEPTION 'refused: jobs[%]: %', at, SQLERRM USING ERRCODE = SQLSTATE;
    WHEN raise_exception OR data_exception THEN
        RAISE EXCEPTION 'refused: jobs[%]: %', at, SQLERRM;
END
$$;

-- Completes a job in the caller's transaction, under the lease of its attempt. Returns false if the attempt was
-- completed before. Fails if the job runs elsewhere by now, so that the transaction rolls back. A job that frees a key or
-- a slot when it ends, has a retention of its own, or is in a queue that records events, is refused: the executor decides what follows from its end.
CREATE FUNCTION {s}.complete(id uuid, lease text, result jsonb DEFAULT NULL, result_bytes bytea DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_ms CONSTANT bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    stored CONSTANT bytea := coalesce(result_bytes, convert_to(result::text, 'UTF8'));
    token CONSTANT uuid := CASE WHEN lease ~ '^[0-9a-f]{32}$' THEN lease::uuid END;
    ended {s}.lease;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'the end of a job needs READ COMMITTED, and this transaction is %',
            current_setting('transaction_isolation') USING ERRCODE = 'invalid_transaction_state';
    ELSIF result IS NOT NULL AND result_bytes IS NOT NULL THEN
        RAISE EXCEPTION 'result and result_bytes are both given: use one of them';
    ELSIF {s}.too_deep(result) THEN
        RAISE EXCEPTION 'result is nested more than {json_depth_max} levels deep: flatten it, or put the inner part into a string';
    ELSIF octet_length(stored) > {result_bytes_max} THEN
        RAISE EXCEPTION 'result has % bytes, the limit is {result_bytes_max}', octet_length(stored);
    END IF;
    -- The session of a claim without a session ends with its last lease: completions of one such claim wait for each other.
    PERFORM FROM {s}.lease e JOIN {s}.session s ON s.id = e.session
        WHERE e.id = id AND e.token = token AND e.flags & {flag_plain_alone} <> 0 FOR UPDATE OF s;
    DELETE FROM {s}.lease e WHERE e.id = id AND e.token = token AND e.flags & ({flag_plain} | {flag_plain_alone}) <> 0
        RETURNING * INTO ended;
    IF ended.id IS NOT NULL THEN
        INSERT INTO {s}.finished (id, at, started_at, attempt, lane, state, own, token, worker, result)
            VALUES (ended.id, now_ms, ended.started_at, ended.attempt, ended.lane, {completed}, false, ended.token,
                coalesce((SELECT s.worker FROM {s}.session s WHERE s.id = ended.session), ''), stored);
        INSERT INTO {s}.tally (lane, running, completed) VALUES (ended.lane, -1, 1);
        IF ended.flags & {flag_plain_alone} <> 0 THEN
            DELETE FROM {s}.session s WHERE s.id = ended.session
                AND NOT EXISTS (SELECT FROM {s}.lease e WHERE e.session = s.id);
        END IF;
        RETURN true;
    ELSIF EXISTS (SELECT FROM {s}.finished f WHERE f.id = id AND f.token = token) THEN
        RETURN false;
    ELSIF EXISTS (SELECT FROM {s}.lease e WHERE e.id = id AND e.token = token) THEN
        RAISE EXCEPTION 'refused: job % has an ordering key, a unique key, a limit by group, a retention of its own or a queue that records events: complete it with windlass::postgres::Jobs, or settle it after the commit (POST /v1/settle)',
            id USING ERRCODE = 'feature_not_supported';
    END IF;
    RAISE EXCEPTION 'lease_lost: job % does not run under this lease any more: roll back', id
        USING ERRCODE = 'no_data_found';
END
$$;

-- PUBLIC may execute new functions unless that is revoked.
REVOKE ALL ON FUNCTION {s}.enqueue, {s}.enqueue_many, {s}.complete FROM PUBLIC;
