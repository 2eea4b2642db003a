-- Functions that truncate, create and drop tables. They run with the owner's privileges, so that workers need not own
-- the tables; EXECUTE must be granted. A lock that is not granted within the short timeout is given up, because other
-- sessions queue behind the one that waits for it.

-- Maintenance copies live rows, truncates, and puts the copy back. The snapshot of the copy must be taken after the
-- lock: in a transaction with a single snapshot, rows committed before the lock was granted would be lost.
CREATE FUNCTION {s}.require_read_committed() RETURNS void LANGUAGE plpgsql
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

-- Replaces the rows of a table, which the caller has locked, by the rows of a query (all of the table's by default).
-- `kept` gives their type.
CREATE FUNCTION {s}.replace_rows(name text, kept anyarray, source text DEFAULT 'SELECT t FROM %s.%I t') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('SELECT ARRAY(' || source || ')', {'s'}, name) INTO kept;
    EXECUTE format('TRUNCATE %s.%I', {'s'}, name);
    EXECUTE format('INSERT INTO %s.%I SELECT * FROM unnest($1)', {'s'}, name) USING kept;
END
$$;

-- Rewrites a small table that changes quickly, and folds it where rows add up. Vacuum cannot remove dead rows that an
-- old snapshot anywhere in the cluster might see, and scans that skip them take longer and longer. Snapshots older
-- than the rewrite see an empty table. Returns false if more than `few` rows are alive.
CREATE FUNCTION {s}.rewrite(name text, few bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    alive bigint;
BEGIN
    PERFORM {s}.require_read_committed();
    IF name <> ALL (ARRAY['ready', 'lease', 'scheduled', 'session', 'tally', 'turn', 'served',
        'event_inbox']) THEN
        RAISE EXCEPTION 'table % is not rewritten', quote_nullable(name);
    END IF;
    EXECUTE format('LOCK TABLE %s.%I IN ACCESS EXCLUSIVE MODE', {'s'}, name);
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %s.%I LIMIT $1 + 1) t', {'s'}, name) INTO alive USING few;
    IF alive > few THEN
        RETURN false;
    END IF;
    CASE name
        WHEN 'ready' THEN PERFORM {s}.replace_rows(name, NULL::{s}.ready[]);
        WHEN 'lease' THEN PERFORM {s}.replace_rows(name, NULL::{s}.lease[]);
        WHEN 'scheduled' THEN PERFORM {s}.replace_rows(name, NULL::{s}.scheduled[]);
        WHEN 'session' THEN PERFORM {s}.replace_rows(name, NULL::{s}.session[]);
        WHEN 'turn' THEN PERFORM {s}.replace_rows(name, NULL::{s}.turn[]);
        WHEN 'event_inbox' THEN PERFORM {s}.replace_rows(name, NULL::{s}.event_inbox[]);
        WHEN 'served' THEN PERFORM {s}.replace_rows(name, NULL::{s}.served[],
            'SELECT ROW(t.queue, max(t.turn))::%1$s.%2$I FROM %1$s.%2$I t GROUP BY t.queue');
        WHEN 'tally' THEN PERFORM {s}.replace_rows(name, NULL::{s}.tally[],
            'SELECT ROW(t.lane, sum(t.scheduled)::bigint, sum(t.blocked)::bigint, sum(t.available)::bigint,
                sum(t.running)::bigint, sum(t.paused)::bigint, sum(t.completed)::bigint, sum(t.dead)::bigint,
                sum(t.cancelled)::bigint, sum(t.expired)::bigint)::%1$s.%2$I
            FROM %1$s.%2$I t GROUP BY t.lane');
    END CASE;
    RETURN true;
END
$$;

-- Adds partitions for ids from each of `firsts` to before the matching one of `ends`; returns false if that is not
-- possible now. All of them at once, because every statement on `job` and `finished` is planned again afterwards.
CREATE FUNCTION {s}.add_partitions(firsts uuid[], ends uuid[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    default_bytes_max CONSTANT bigint := 268435456;
    numbers integer[] := '{}';
    number integer;
    name text;
    part text;
BEGIN
    PERFORM {s}.require_read_committed();
    LOCK TABLE {s}.partition IN SHARE ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM unnest(firsts, ends) w (first, upto)
        WHERE first >= upto OR EXISTS (SELECT FROM {s}.partition p WHERE p.from_id < upto AND p.upto_id > first))
    THEN
        RETURN false;
    END IF;
    -- The default partitions are scanned under an exclusive lock.
    IF pg_relation_size({'s.job_default'}) + pg_relation_size({'s.finished_default'}) > default_bytes_max THEN
        RETURN false;
    END IF;
    -- Acquires and releases the lock before anything is created, so that a transaction in the way is met first.
    BEGIN
        LOCK TABLE {s}.job_default, {s}.finished_default IN ACCESS EXCLUSIVE MODE;
        RAISE EXCEPTION USING ERRCODE = 'WL000';
    EXCEPTION WHEN SQLSTATE 'WL000' THEN
        NULL;
    END;
    FOR i IN 1 .. cardinality(firsts) LOOP
        INSERT INTO {s}.partition (from_id, upto_id) VALUES (firsts[i], ends[i]) RETURNING no INTO number;
        numbers := numbers || number;
        FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
            EXECUTE format('CREATE TABLE %1$s.%2$s_%3$s (LIKE %1$s.%2$s INCLUDING ALL)', {'s'}, name, number);
        END LOOP;
    END LOOP;
    LOCK TABLE {s}.job_default, {s}.finished_default IN ACCESS EXCLUSIVE MODE;
    FOR i IN 1 .. cardinality(firsts) LOOP
        FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
            part := format('%s.%s_%s', {'s'}, name, numbers[i]);
            -- Ids made by a clock that is ahead may be in the default partition already.
            EXECUTE format('WITH moved AS (DELETE FROM %s.%s_default WHERE id >= $1 AND id < $2 RETURNING *)
                INSERT INTO %s SELECT * FROM moved', {'s'}, name, part) USING firsts[i], ends[i];
            EXECUTE format('ALTER TABLE %s.%s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
                {'s'}, name, part, firsts[i], ends[i]);
        END LOOP;
    END LOOP;
    RETURN true;
END
$$;

-- Locks a partition exclusively, without keeping it from others.
CREATE FUNCTION {s}.lock_partition(number integer) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE %1$s.job_%2$s, %1$s.finished_%2$s IN ACCESS EXCLUSIVE MODE', {'s'}, number);
END
$$;

-- Begins a survey: waits until no transaction uses the partition, and returns the number of late jobs so far. Every
-- job that is stored in the partition later increases it. Takes the same lock as `empty_partition`, so that a long
-- transaction is met before the survey instead of after it.
CREATE FUNCTION {s}.begin_survey(number integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
    PERFORM {s}.require_read_committed();
    PERFORM {s}.lock_partition(number);
    RETURN (SELECT p.late_jobs FROM {s}.partition p WHERE p.no = number);
END
$$;

-- Voids the surveys of partitions in which these jobs were just stored, if the partition ended longer ago than the
-- job's `old_ms`. Called by the transaction that stored the jobs: a survey begins only after that has ended. `times`
-- are the time of a test, or null. Takes no lock unless there is a survey to void.
CREATE FUNCTION {s}.void_surveys(ids uuid[], times bigint[], old_ms bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    numbers integer[] := ARRAY(SELECT p.no FROM {s}.partition p WHERE EXISTS (
        SELECT FROM unnest(ids, times, old_ms) w (id, now, old)
        WHERE w.id >= p.from_id AND w.id < p.upto_id AND p.upto_id <= rpad(lpad(to_hex(greatest(
            coalesce(w.now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) - w.old, 0)),
            12, '0'), 32, '0')::uuid));
BEGIN
    IF cardinality(numbers) > 0 THEN
        UPDATE {s}.partition SET late_jobs = late_jobs + 1 WHERE no = ANY(numbers);
    END IF;
END
$$;

-- Empties a partition except for the jobs in `stay` and jobs that may have changed since the survey. Returns
-- `emptied`, or `changed` if late jobs were stored since the survey began, or `full` if more than `few` jobs must stay.
--
-- The survey takes no locks, so jobs may change behind it. Every change of an ended job writes its row in `life` or
-- `part` in the transaction of the change. So this keeps every job with such a row, and reads them under the lock that
-- excludes writers: a replay that was committed before is kept, and a later one finds the partition as it was left.
--
-- The ended jobs that go are counted under a lock that excludes writers only: changes of ended jobs of this partition wait
-- for that time, reads do not. The exclusive lock is not held while rows are counted.
CREATE FUNCTION {s}.empty_partition(number integer, since bigint, stay uuid[], few integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
SET enable_seqscan = on AS $$
DECLARE
    count_ended CONSTANT text := 'INSERT INTO %1$s.tally (lane, completed, dead, cancelled, expired)
        SELECT lane, %3$s * count(*) FILTER (WHERE state = {completed}), %3$s * count(*) FILTER (WHERE state = {dead}),
            %3$s * count(*) FILTER (WHERE state = {cancelled}), %3$s * count(*) FILTER (WHERE state = {expired})
        FROM %1$s.finished_%2$s GROUP BY lane';
    first uuid;
    upto uuid;
    kept uuid[];
    new_number integer;
    name text;
    part text;
BEGIN
    PERFORM {s}.require_read_committed();
    SELECT p.from_id, p.upto_id INTO first, upto FROM {s}.partition p
        WHERE p.no = number AND p.late_jobs = since AND NOT p.emptied FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'changed';
    END IF;
    EXECUTE format('LOCK TABLE %s.finished_%s IN SHARE MODE', {'s'}, number);
    EXECUTE format(count_ended, {'s'}, number, -1);
    -- Once before others have to wait, and once when nothing can change any more. The first scan also marks index
    -- entries of deleted rows, so that the second one skips them.
    FOR pass IN 1 .. 2 LOOP
        IF pass = 2 THEN
            PERFORM {s}.lock_partition(number);
        END IF;
        kept := ARRAY(SELECT k.id FROM unnest(stay) k (id)
            UNION (SELECT l.id FROM {s}.life l WHERE l.id >= first AND l.id < upto LIMIT few + 1)
            UNION (SELECT DISTINCT p.id FROM {s}.part p WHERE p.id >= first AND p.id < upto LIMIT few + 1));
        IF cardinality(kept) > few THEN
            RETURN 'full';
        END IF;
    END LOOP;
    -- The emptied partition gets a new number. A pg_dump with a snapshot from before the truncation would silently
    -- leave out the jobs that stay, which are rows of this transaction; under another name, the dump fails.
    UPDATE {s}.partition p SET no = DEFAULT, emptied = true WHERE p.no = number RETURNING p.no INTO new_number;
    FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
        part := format('%s.%s_%s', {'s'}, name, number);
        EXECUTE format('CREATE TABLE %1$s_kept AS SELECT t.* FROM unnest($1) k (id) JOIN %2$s t ON t.id = k.id',
            part, part) USING kept;
        EXECUTE format('TRUNCATE %s', part);
        EXECUTE format('INSERT INTO %1$s SELECT * FROM %1$s_kept', part);
        EXECUTE format('DROP TABLE %s_kept', part);
        IF name = 'finished' THEN
            -- The jobs that stay are counted again.
            EXECUTE format(count_ended, {'s'}, number, 1);
        END IF;
        EXECUTE format('ALTER TABLE %s RENAME TO %s_%s', part, name, new_number);
    END LOOP;
    RETURN 'emptied';
END
$$;

-- Drops a partition and moves its last rows to the default partition; returns false if more than `few` are left.
CREATE FUNCTION {s}.drop_partition(number integer, few integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    left_jobs CONSTANT text := format('SELECT count(*) FROM (SELECT FROM %s.job_%s LIMIT $1 + 1) j', {'s'}, number);
    found bigint;
    name text;
BEGIN
    PERFORM {s}.require_read_committed();
    -- First without a lock, so that other sessions do not wait in vain; then under the lock, when no rows can be added.
    FOR pass IN 1 .. 2 LOOP
        IF pass = 2 THEN
            LOCK TABLE {s}.job, {s}.finished IN ACCESS EXCLUSIVE MODE;
        END IF;
        EXECUTE left_jobs INTO found USING few;
        IF found > few THEN
            RETURN false;
        END IF;
    END LOOP;
    FOREACH name IN ARRAY ARRAY['job', 'finished'] LOOP
        EXECUTE format('ALTER TABLE %1$s.%2$s DETACH PARTITION %1$s.%2$s_%3$s', {'s'}, name, number);
        EXECUTE format('INSERT INTO %1$s.%2$s SELECT * FROM %1$s.%2$s_%3$s', {'s'}, name, number);
        EXECUTE format('DROP TABLE %s.%s_%s', {'s'}, name, number);
    END LOOP;
    DELETE FROM {s}.partition p WHERE p.no = number;
    RETURN true;
END
$$;

-- Adds removed jobs to the history, in the transaction that removes them: one element per group of jobs. Beyond the
-- limit of tenants of an hour, queue and kind, further tenants are counted as `other`. Callers do this last, so that
-- the lock is held for a short time and no caller waits for another lock under it.
CREATE FUNCTION {s}.count_removed(times bigint[], queues text[], kinds text[], tenants text[], outcomes smallint[],
    counts bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended({'s'} || ' counts removed jobs', 0));
    WITH fresh AS (
        SELECT u.at - u.at % {hour_ms} AS hour, u.queue, u.kind, u.tenant COLLATE "C" AS tenant, u.outcome,
            sum(u.jobs)::bigint AS jobs
        FROM unnest(times, queues, kinds, tenants, outcomes, counts) u (at, queue, kind, tenant, outcome, jobs)
        GROUP BY 1, 2, 3, 4, 5
    ), stored AS (
        SELECT DISTINCT r.hour, r.queue, r.kind, r.tenant FROM {s}.removed r
        JOIN (SELECT DISTINCT hour, queue, kind FROM fresh) f USING (hour, queue, kind)
        WHERE r.tenant NOT IN ('', '{other_tenant}')
    ), added AS (
        SELECT f.hour, f.queue, f.kind, f.tenant,
            row_number() OVER (PARTITION BY f.hour, f.queue, f.kind ORDER BY f.tenant) + (SELECT count(*) FROM stored s
                WHERE (s.hour, s.queue, s.kind) = (f.hour, f.queue, f.kind)) AS number
        FROM (SELECT DISTINCT hour, queue, kind, tenant FROM fresh WHERE tenant NOT IN ('', '{other_tenant}')) f
        WHERE NOT EXISTS (SELECT FROM stored s
            WHERE (s.hour, s.queue, s.kind, s.tenant) = (f.hour, f.queue, f.kind, f.tenant))
    )
    INSERT INTO {s}.removed AS r (hour, queue, kind, tenant, outcome, jobs)
    SELECT f.hour, f.queue, f.kind,
        CASE WHEN a.number > {removed_tenants_max} THEN '{other_tenant}' ELSE f.tenant END, f.outcome,
        sum(f.jobs)::bigint
    FROM fresh f LEFT JOIN added a USING (hour, queue, kind, tenant)
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (hour, queue, kind, tenant, outcome) DO UPDATE SET jobs = r.jobs + excluded.jobs;
END
$$;

REVOKE ALL ON FUNCTION {s}.count_removed, {s}.require_read_committed, {s}.replace_rows, {s}.rewrite, {s}.add_partitions,
    {s}.lock_partition, {s}.begin_survey, {s}.void_surveys, {s}.empty_partition, {s}.drop_partition FROM PUBLIC;
