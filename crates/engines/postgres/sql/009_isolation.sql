-- Maintenance copies what is alive, truncates or drops, and puts the copy back. The snapshot of the copy must be younger
-- than the lock: with one snapshot for the whole transaction, what commits before the lock is granted would be lost.

CREATE FUNCTION {s}.need_read_committed() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    level CONSTANT text := current_setting('transaction_isolation');
BEGIN
    IF level NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'maintenance needs READ COMMITTED, and this transaction is %', level
            USING ERRCODE = 'invalid_transaction_state', HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION {s}.need_read_committed() FROM PUBLIC;

-- Each of these functions asks for it first. The rest of them stays as it is.
DO $do$
DECLARE
    maintenance text;
    source text;
    guarded text;
BEGIN
    FOREACH maintenance IN ARRAY ARRAY['rewrite(text, bigint)', 'touched_leaf(integer)',
        'empty_leaf(integer, bigint, uuid[])', 'drop_leaf(integer, integer)', 'add_leaves(uuid[], uuid[])']
    LOOP
        source := pg_get_functiondef(('{s}.' || maintenance)::regprocedure);
        guarded := regexp_replace(source, '\nBEGIN\n', E'\nBEGIN\n    PERFORM {s}.need_read_committed();\n');
        IF guarded = source THEN
            RAISE EXCEPTION 'function % has no body to guard', maintenance;
        END IF;
        EXECUTE guarded;
    END LOOP;
END
$do$;

-- A snapshot from before a partition is emptied does not see the jobs that stay in it: they are rows of the transaction
-- that empties it. A pg_dump that has such a snapshot, and comes to the partition only afterwards, would be without them.
-- So the partition has another name from then on, and that dump fails.
DO $do$
DECLARE
    source CONSTANT text := pg_get_functiondef('{s}.empty_leaf(integer, bigint, uuid[])'::regprocedure);
    renamed CONSTANT text := replace(source, 'UPDATE {s}.leaf l SET emptied = true WHERE l.no = number;', $new$DECLARE
        renamed_to integer;
    BEGIN
        UPDATE {s}.leaf l SET no = DEFAULT, emptied = true WHERE l.no = number RETURNING l.no INTO renamed_to;
        FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
            EXECUTE format('ALTER TABLE {s}.%s_%s RENAME TO %s_%s', name, number, name, renamed_to);
        END LOOP;
    END;$new$);
BEGIN
    IF renamed = source THEN
        RAISE EXCEPTION 'function empty_leaf is not as it was made';
    END IF;
    EXECUTE renamed;
END
$do$;

-- Applications enqueue in transactions of any level. Where the whole transaction has one snapshot, the job that holds a
-- unique key in it may have ended since: then the transaction must be repeated, as after any change to what it has read.
CREATE FUNCTION {s}.recheck_key(queue text, kind text, key text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RETURN;
    END IF;
    -- A row that has changed since the snapshot cannot be locked (40001). The lock is released again: the job that holds
    -- the key must be able to end.
    BEGIN
        PERFORM FROM {s}.unique_key u WHERE u.queue = queue AND u.kind = kind AND u.key = key FOR KEY SHARE;
        RAISE EXCEPTION USING ERRCODE = 'WL000';
    EXCEPTION WHEN SQLSTATE 'WL000' THEN
        NULL;
    END;
END
$$;
REVOKE ALL ON FUNCTION {s}.recheck_key(text, text, text) FROM PUBLIC;

DO $do$
DECLARE
    source CONSTANT text := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p
        WHERE p.pronamespace = '{s}'::regnamespace AND p.proname = 'enqueue');
    rechecked CONSTANT text := regexp_replace(source, 'IF held IS NULL THEN',
        E'PERFORM {s}.recheck_key(queue, kind, unique_key);\n        IF held IS NULL THEN');
BEGIN
    IF rechecked = source THEN
        RAISE EXCEPTION 'function enqueue is not as it was made';
    END IF;
    EXECUTE rechecked;
END
$do$;
