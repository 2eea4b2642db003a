-- Leaves are added together: whoever works with `job` and `finished` plans anew after each change. And nobody has to
-- wait while their tables are made.

DROP FUNCTION {s}.add_leaf(uuid, uuid);

-- Adds leaves for ids from each first to before its end; false if others are in the way.
CREATE FUNCTION {s}.add_leaves(firsts uuid[], ends uuid[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    numbers integer[] := '{}';
    number integer;
    name text;
BEGIN
    LOCK TABLE {s}.leaf IN SHARE ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM unnest(firsts, ends) w (first, upto)
        WHERE first >= upto OR EXISTS (SELECT FROM {s}.leaf l WHERE l.from_id < upto AND l.upto_id > first))
    THEN
        RETURN false;
    END IF;
    -- Both will be looked through under a lock.
    IF pg_relation_size('{s}.job_rest') + pg_relation_size('{s}.finished_rest') > 268435456 THEN
        RETURN false;
    END IF;
    -- Whoever is in the way is met before anything is made, and the lock let go of again.
    BEGIN
        LOCK TABLE {s}.job_rest, {s}.finished_rest IN ACCESS EXCLUSIVE MODE;
        RAISE EXCEPTION USING ERRCODE = 'WL000';
    EXCEPTION WHEN SQLSTATE 'WL000' THEN
        NULL;
    END;
    FOR i IN 1 .. cardinality(firsts) LOOP
        INSERT INTO {s}.leaf (from_id, upto_id) VALUES (firsts[i], ends[i]) RETURNING no INTO number;
        numbers := numbers || number;
        FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
            EXECUTE format('CREATE TABLE {s}.%s_%s (LIKE {s}.%s INCLUDING ALL)', name, number, name);
        END LOOP;
    END LOOP;
    LOCK TABLE {s}.job_rest, {s}.finished_rest IN ACCESS EXCLUSIVE MODE;
    FOR i IN 1 .. cardinality(firsts) LOOP
        FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
            -- A clock that is ahead made ids before there was a leaf for them.
            EXECUTE format('WITH moved AS (DELETE FROM {s}.%s_rest WHERE id >= $1 AND id < $2 RETURNING *)
                INSERT INTO {s}.%s_%s SELECT * FROM moved', name, name, numbers[i]) USING firsts[i], ends[i];
            EXECUTE format('ALTER TABLE {s}.%s ATTACH PARTITION {s}.%s_%s FOR VALUES FROM (%L) TO (%L)',
                name, name, numbers[i], firsts[i], ends[i]);
        END LOOP;
    END LOOP;
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION {s}.add_leaves(uuid[], uuid[]) FROM PUBLIC;
