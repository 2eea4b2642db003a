-- Leaves of `job` and `finished`: ranges of the time in the ids. Once nearly everything in a leaf has ended and
-- is past its retention, the leaf is emptied at once instead of row by row. What no leaf covers is in `_rest`.
--
-- Who calls these need not own the tables; nobody may call them unless it was granted. A lock that does not come
-- soon is given up: whoever waits for one holds up everybody behind it.

CREATE TABLE {s}.leaf (
    no      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    from_id uuid NOT NULL,
    upto_id uuid NOT NULL,
    -- Rises when a job is stored in it late: who looked through it before must look again.
    touched bigint NOT NULL DEFAULT 0,
    emptied boolean NOT NULL DEFAULT false
);

-- Adds a leaf for ids from the first to before the second; false if others are in the way.
CREATE FUNCTION {s}.add_leaf(first uuid, upto uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    number integer;
    name text;
BEGIN
    LOCK TABLE {s}.leaf IN SHARE ROW EXCLUSIVE MODE;
    IF first >= upto OR EXISTS (SELECT FROM {s}.leaf l WHERE l.from_id < upto AND l.upto_id > first) THEN
        RETURN false;
    END IF;
    LOCK TABLE {s}.job_rest, {s}.finished_rest IN ACCESS EXCLUSIVE MODE;
    -- Both are looked through under this lock.
    IF pg_relation_size('{s}.job_rest') + pg_relation_size('{s}.finished_rest') > 268435456 THEN
        RETURN false;
    END IF;
    INSERT INTO {s}.leaf (from_id, upto_id) VALUES (first, upto) RETURNING no INTO number;
    FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
        EXECUTE format('CREATE TABLE {s}.%s_%s (LIKE {s}.%s INCLUDING ALL)', name, number, name);
        -- A clock that is ahead made ids before there was a leaf for them.
        EXECUTE format('WITH moved AS (DELETE FROM {s}.%s_rest WHERE id >= $1 AND id < $2 RETURNING *)
            INSERT INTO {s}.%s_%s SELECT * FROM moved', name, name, number) USING first, upto;
        EXECUTE format('ALTER TABLE {s}.%s ATTACH PARTITION {s}.%s_%s FOR VALUES FROM (%L) TO (%L)',
            name, name, number, first, upto);
    END LOOP;
    RETURN true;
END
$$;

-- Waits until nobody is in the middle of writing to a leaf, and says how often it was touched so far: whoever
-- stores a job in it from now on touches it.
CREATE FUNCTION {s}.touched_leaf(number integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
    EXECUTE format('LOCK TABLE {s}.job_%s, {s}.finished_%s IN SHARE MODE', number, number);
    RETURN (SELECT l.touched FROM {s}.leaf l WHERE l.no = number);
END
$$;

-- Empties a leaf but for these jobs; false if it was touched since somebody looked through it.
CREATE FUNCTION {s}.empty_leaf(number integer, since bigint, kept uuid[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    name text;
BEGIN
    PERFORM FROM {s}.leaf l WHERE l.no = number AND l.touched = since AND NOT l.emptied FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE {s}.job_%s, {s}.finished_%s IN ACCESS EXCLUSIVE MODE', number, number);
    FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
        EXECUTE format('CREATE TABLE {s}.%s_%s_kept AS SELECT t.* FROM unnest($1) k (id) JOIN {s}.%s_%s t ON t.id = k.id',
            name, number, name, number) USING kept;
        EXECUTE format('TRUNCATE {s}.%s_%s', name, number);
        EXECUTE format('INSERT INTO {s}.%s_%s SELECT * FROM {s}.%s_%s_kept', name, number, name, number);
        EXECUTE format('DROP TABLE {s}.%s_%s_kept', name, number);
    END LOOP;
    UPDATE {s}.leaf l SET emptied = true WHERE l.no = number;
    RETURN true;
END
$$;

-- Drops a leaf, moving what is left in it to `_rest`; false if that is more than a few.
CREATE FUNCTION {s}.drop_leaf(number integer, few integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    name text;
    found bigint;
BEGIN
    -- Looked at before anybody has to wait for us, and again when nobody can add to it.
    EXECUTE format('SELECT count(*) FROM (SELECT FROM {s}.job_%s LIMIT $1 + 1) j', number) INTO found USING few;
    IF found > few THEN
        RETURN false;
    END IF;
    LOCK TABLE {s}.job, {s}.finished IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM {s}.job_%s LIMIT $1 + 1) j', number) INTO found USING few;
    IF found > few THEN
        RETURN false;
    END IF;
    FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
        EXECUTE format('ALTER TABLE {s}.%s DETACH PARTITION {s}.%s_%s', name, name, number);
        EXECUTE format('INSERT INTO {s}.%s SELECT * FROM {s}.%s_%s', name, name, number);
        EXECUTE format('DROP TABLE {s}.%s_%s', name, number);
    END LOOP;
    DELETE FROM {s}.leaf l WHERE l.no = number;
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION {s}.add_leaf(uuid, uuid), {s}.touched_leaf(integer),
    {s}.empty_leaf(integer, bigint, uuid[]), {s}.drop_leaf(integer, integer) FROM PUBLIC;
