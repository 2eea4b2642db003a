-- A partition is emptied of the jobs that a survey found to be past their retention. The survey takes no locks, so jobs
-- may change behind it. Whatever happens to an ended job writes its row in `life` (or in `part`), in the transaction of
-- the change. So the emptying keeps every job that has such a row, and reads them under the lock that excludes writers:
-- a replay that was committed before is kept, and one that comes after finds the partition as it was left.

-- Waits until no transaction uses a partition, and returns how often it was touched so far: a job that is stored in it
-- from now on touches it. Takes the lock that emptying needs, so that a transaction that stays open is met before the
-- survey, not after it.
CREATE OR REPLACE FUNCTION {s}.touched_leaf(number integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
    PERFORM {s}.need_read_committed();
    EXECUTE format('LOCK TABLE {s}.job_%s, {s}.finished_%s IN ACCESS EXCLUSIVE MODE', number, number);
    RETURN (SELECT l.touched FROM {s}.leaf l WHERE l.no = number);
END
$$;

DROP FUNCTION {s}.empty_leaf(integer, bigint, uuid[]);

-- Empties a partition but for the jobs in `stay` and those that may have changed since the survey. Returns `emptied`,
-- or `touched` if a job was stored in it since the survey began, or `full` if more than `few` jobs must stay.
CREATE FUNCTION {s}.empty_leaf(number integer, since bigint, stay uuid[], few integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    first uuid;
    upto uuid;
    kept uuid[];
    name text;
    renamed_to integer;
BEGIN
    PERFORM {s}.need_read_committed();
    SELECT l.from_id, l.upto_id INTO first, upto FROM {s}.leaf l
        WHERE l.no = number AND l.touched = since AND NOT l.emptied FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'touched';
    END IF;
    -- Once before others have to wait, and once when nothing can change any more. The first scan also marks index
    -- entries of deleted rows, so that the second one skips them.
    FOR pass IN 1 .. 2 LOOP
        IF pass = 2 THEN
            EXECUTE format('LOCK TABLE {s}.job_%s, {s}.finished_%s IN ACCESS EXCLUSIVE MODE', number, number);
        END IF;
        kept := ARRAY(SELECT k.id FROM unnest(stay) k (id)
            UNION (SELECT l.id FROM {s}.life l WHERE l.id >= first AND l.id < upto LIMIT few + 1)
            UNION (SELECT DISTINCT p.id FROM {s}.part p WHERE p.id >= first AND p.id < upto LIMIT few + 1));
        IF cardinality(kept) > few THEN
            RETURN 'full';
        END IF;
    END LOOP;
    FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
        EXECUTE format('CREATE TABLE {s}.%s_%s_kept AS SELECT t.* FROM unnest($1) k (id) JOIN {s}.%s_%s t ON t.id = k.id',
            name, number, name, number) USING kept;
        EXECUTE format('TRUNCATE {s}.%s_%s', name, number);
        EXECUTE format('INSERT INTO {s}.%s_%s SELECT * FROM {s}.%s_%s_kept', name, number, name, number);
        EXECUTE format('DROP TABLE {s}.%s_%s_kept', name, number);
    END LOOP;
    -- A pg_dump with a snapshot from before would leave out the jobs that stay: under another name, it fails.
    UPDATE {s}.leaf l SET no = DEFAULT, emptied = true WHERE l.no = number RETURNING l.no INTO renamed_to;
    FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
        EXECUTE format('ALTER TABLE {s}.%s_%s RENAME TO %s_%s', name, number, name, renamed_to);
    END LOOP;
    RETURN 'emptied';
END
$$;

REVOKE ALL ON FUNCTION {s}.empty_leaf(integer, bigint, uuid[], integer) FROM PUBLIC;

-- Voids the surveys of partitions in which these jobs were just stored, if such a partition ended longer ago than each
-- job says. It is called by the transaction that stored them: a survey begins only after that has ended. `times` are the
-- time of a test, or null. No lock that others could wait for is taken unless there is something to void.
CREATE FUNCTION {s}.touch_leaves(ids uuid[], times bigint[], old_ms bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    numbers integer[] := ARRAY(SELECT l.no FROM {s}.leaf l WHERE EXISTS (
        SELECT FROM unnest(ids, times, old_ms) w (id, now, old)
        WHERE w.id >= l.from_id AND w.id < l.upto_id AND l.upto_id <= rpad(lpad(to_hex(greatest(
            coalesce(w.now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) - w.old, 0)),
            12, '0'), 32, '0')::uuid));
BEGIN
    IF cardinality(numbers) > 0 THEN
        UPDATE {s}.leaf SET touched = touched + 1 WHERE no = ANY(numbers);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION {s}.touch_leaves(uuid[], bigint[], bigint[]) FROM PUBLIC;
