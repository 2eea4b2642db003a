-- Checks and helpers of the functions that applications call.

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

-- Returns a field of an object as a whole number from 0 to `most`, or `usual` if the field is absent.
CREATE FUNCTION {s}.number_of(object jsonb, name text, field text, most bigint, usual bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    value CONSTANT jsonb := object -> field;
    number CONSTANT numeric := CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::numeric END;
BEGIN
    IF value IS NULL AND usual IS NOT NULL THEN
        RETURN usual;
    ELSIF number IS NULL OR number <> trunc(number) OR number NOT BETWEEN 0 AND most THEN
        RAISE EXCEPTION '%.% is %: it must be a whole number from 0 to %',
            name, field, coalesce(value::text, 'missing'), most;
    END IF;
    RETURN number::bigint;
END
$$;

-- Raises an error unless `object` is an object with no fields but these.
CREATE FUNCTION {s}.check_fields(name text, object jsonb, fields text[]) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(object) IS DISTINCT FROM 'object' OR object - fields <> '{}' THEN
        RAISE EXCEPTION '% is %: it must be an object with the fields %', name, object, array_to_string(fields, ', ');
    END IF;
END
$$;

-- Returns the backoff as windlass_core::policy::Backoff reads it.
CREATE FUNCTION {s}.backoff_of(given jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    exponential CONSTANT jsonb := given -> 'exponential';
    fixed CONSTANT jsonb := given -> 'fixed';
    base_ms bigint;
    cap_ms bigint;
BEGIN
    PERFORM {s}.check_fields('backoff', given, ARRAY['exponential', 'fixed']);
    IF (exponential IS NULL) = (fixed IS NULL) THEN
        RAISE EXCEPTION 'backoff is %: it must have one of the fields exponential, fixed', given;
    ELSIF fixed IS NOT NULL THEN
        PERFORM {s}.check_fields('backoff.fixed', fixed, ARRAY['delay_ms', 'jitter_ms']);
        RETURN jsonb_build_object('fixed', jsonb_build_object(
            'delay_ms', {s}.number_of(fixed, 'backoff', 'delay_ms', {backoff_max_ms}, NULL),
            'jitter_ms', {s}.number_of(fixed, 'backoff', 'jitter_ms', {backoff_max_ms}, 0)));
    END IF;
    PERFORM {s}.check_fields('backoff.exponential', exponential, ARRAY['base_ms', 'cap_ms', 'jitter_ms']);
    base_ms := {s}.number_of(exponential, 'backoff', 'base_ms', {backoff_max_ms}, {backoff_base_default_ms});
    cap_ms := {s}.number_of(exponential, 'backoff', 'cap_ms', {backoff_max_ms}, {backoff_cap_default_ms});
    IF cap_ms < base_ms THEN
        RAISE EXCEPTION 'backoff.cap_ms is %: it must not be below backoff.base_ms (%)', cap_ms, base_ms;
    END IF;
    RETURN jsonb_build_object('exponential', jsonb_build_object('base_ms', base_ms, 'cap_ms', cap_ms, 'jitter_ms',
        {s}.number_of(exponential, 'backoff', 'jitter_ms', {backoff_max_ms}, {backoff_jitter_default_ms})));
END
$$;

-- Returns the retention as windlass_core::policy::Retention reads it.
CREATE FUNCTION {s}.retention_of(given jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM {s}.check_fields('retention', given, ARRAY['finished_ms', 'dead_ms', 'expired_ms']);
    RETURN jsonb_build_object(
        'finished_ms', {s}.number_of(given, 'retention', 'finished_ms', {age_max_ms}, {retention_finished_default_ms}),
        'dead_ms', {s}.number_of(given, 'retention', 'dead_ms', {age_max_ms}, {retention_dead_default_ms}),
        'expired_ms', {s}.number_of(given, 'retention', 'expired_ms', {age_max_ms}, {retention_expired_default_ms}));
END
$$;

-- Acquires a unique key for `job`, until `until`. Returns the job that holds it: `job` itself if it was free. A
-- newcomer that `takes_over` acquires it in any case; the job that held it until then is returned.
CREATE FUNCTION {s}.take_key(in_queue text, in_kind text, of_key text, job uuid, until bigint, takes_over boolean,
    now_ms bigint) RETURNS uuid LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    held {s}.unique_key;
BEGIN
    -- First without a lock, so that the holder of the key can end.
    SELECT * INTO held FROM {s}.unique_key u WHERE u.queue = in_queue AND u.kind = in_kind AND u.key = of_key
        AND (u.until IS NULL OR u.until > now_ms);
    PERFORM {s}.recheck_key(in_queue, in_kind, of_key);
    IF held.id IS NOT NULL AND NOT takes_over THEN
        RETURN held.id;
    END IF;
    LOOP
        SELECT * INTO held FROM {s}.unique_key u WHERE u.queue = in_queue AND u.kind = in_kind AND u.key = of_key
            FOR UPDATE;
        IF held.id IS NULL THEN
            INSERT INTO {s}.unique_key (queue, kind, key, id, until) VALUES (in_queue, in_kind, of_key, job, until)
                ON CONFLICT DO NOTHING;
            IF FOUND THEN
                RETURN job;
            END IF;
        ELSIF held.until IS NOT NULL AND held.until <= now_ms OR takes_over THEN
            UPDATE {s}.unique_key u SET id = job, until = until
                WHERE u.queue = in_queue AND u.kind = in_kind AND u.key = of_key;
            RETURN CASE WHEN held.until IS NULL OR held.until > now_ms THEN held.id ELSE job END;
        ELSE
            RETURN held.id;
        END IF;
    END LOOP;
END
$$;

REVOKE ALL ON FUNCTION {s}.new_id, {s}.too_deep, {s}.recheck_key, {s}.wake, {s}.number_of,
    {s}.check_fields, {s}.backoff_of, {s}.retention_of, {s}.take_key FROM PUBLIC;
