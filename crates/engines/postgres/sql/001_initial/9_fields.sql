-- Optional indexes on fields of payloads and metadata: `windlass migrate --index payload.customer`. They select candidates
-- and Rust decides, so they may return more jobs than match, but never fewer.

-- The first characters of the value of a field, as text; null if there is none. A text that looks like JSON and that
-- this parser refuses has the key '\x01', with which it is always a candidate. Handlers of exceptions are not allowed in
-- parallel operations, such as the construction of an index on a large table.
CREATE FUNCTION {s}.field_key(bytes bytea, envelope text, steps text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF bytes IS NULL OR octet_length(bytes) = 0 OR envelope IS NOT NULL THEN
        RETURN NULL;
    END IF;
    RETURN left(convert_from(bytes, 'UTF8')::json #>> steps, 100);
EXCEPTION WHEN OTHERS THEN
    RETURN CASE WHEN get_byte(bytes, 0) IN (9, 10, 13, 32, 91, 123) THEN E'\x01' END;
END
$$;

-- The beginning of the names of the indexes of a field.
CREATE FUNCTION {s}.field_index(part smallint, steps text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'field_' || md5(part || '.' || array_to_string(steps, '.'))
$$;

-- The query for candidates. The path is a constant in it, as in the indexes. Edited payloads are in `part`.
CREATE FUNCTION {s}.field_query(part smallint, steps text[], value text, most bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN part = {part_payload} THEN
        format('(SELECT id FROM %1$s.job WHERE %1$s.field_key(payload, envelope, %2$L::text[])
            = ANY (ARRAY[left(%3$L, 100), E''\x01'']) LIMIT %4$s) UNION ALL ', {'s'}, steps, value, most)
        ELSE '' END
    || format('(SELECT id FROM %1$s.part WHERE name = %5$s AND %1$s.field_key(bytes, envelope, %2$L::text[])
            = ANY (ARRAY[left(%3$L, 100), E''\x01'']) LIMIT %4$s)', {'s'}, steps, value, most, part)
$$;

-- Candidates for a value of a field; one null if the field has no complete index.
CREATE FUNCTION {s}.jobs_by_field(part smallint, steps text[], value text, most bigint) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := {s}.field_index(part, steps);
BEGIN
    IF (SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relnamespace = {'s'}::regnamespace AND i.indisvalid
                AND c.relname IN (name || '_job', name || '_part'))
        < (CASE WHEN part = {part_payload} THEN 2 ELSE 1 END)
    THEN
        RETURN NEXT NULL;
        RETURN;
    END IF;
    RETURN QUERY EXECUTE {s}.field_query(part, steps, value, most);
END
$$;
