-- Queues in which tenants take turns.

-- Claims note which turn they served, and enqueues look at the tenants.
ALTER TABLE {s}.queue ADD COLUMN fair boolean NOT NULL DEFAULT false;

-- The latest turn of each tenant of such a queue; jobs that are nobody's have the tenant ''. Whoever takes the next
-- one locks the row. Tenants behind what is served are as good as new, and forgotten by compaction.
CREATE TABLE {s}.turn (
    queue  text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    turn   bigint NOT NULL,
    PRIMARY KEY (queue, tenant)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
CREATE INDEX turn_behind ON {s}.turn (queue, turn);

-- Which turn is being served: the highest of a queue. Every claim adds a row, so that claims do not wait for each
-- other; compaction folds them.
CREATE TABLE {s}.served (
    queue text COLLATE "C" NOT NULL,
    turn  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);
CREATE INDEX served_last ON {s}.served (queue, turn);

-- As in `004_rewrite.sql`, for these two, too.
CREATE OR REPLACE FUNCTION {s}.rewrite(name text, few bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    alive bigint;
    ready {s}.ready[];
    lease {s}.lease[];
    scheduled {s}.scheduled[];
    session {s}.session[];
    tally {s}.tally[];
    turn {s}.turn[];
    served {s}.served[];
BEGIN
    IF name <> ALL (ARRAY['ready', 'lease', 'scheduled', 'session', 'tally', 'turn', 'served']) THEN
        RAISE EXCEPTION 'table % is not rewritten', quote_nullable(name);
    END IF;
    EXECUTE format('LOCK TABLE {s}.%I IN ACCESS EXCLUSIVE MODE', name);
    EXECUTE format('SELECT count(*) FROM (SELECT FROM {s}.%I LIMIT $1 + 1) t', name) INTO alive USING few;
    IF alive > few THEN
        RETURN false;
    END IF;
    CASE name
        WHEN 'ready' THEN
            ready := ARRAY(SELECT t FROM {s}.ready t);
            TRUNCATE {s}.ready;
            INSERT INTO {s}.ready SELECT * FROM unnest(ready);
        WHEN 'lease' THEN
            lease := ARRAY(SELECT t FROM {s}.lease t);
            TRUNCATE {s}.lease;
            INSERT INTO {s}.lease SELECT * FROM unnest(lease);
        WHEN 'scheduled' THEN
            scheduled := ARRAY(SELECT t FROM {s}.scheduled t);
            TRUNCATE {s}.scheduled;
            INSERT INTO {s}.scheduled SELECT * FROM unnest(scheduled);
        WHEN 'session' THEN
            session := ARRAY(SELECT t FROM {s}.session t);
            TRUNCATE {s}.session;
            INSERT INTO {s}.session SELECT * FROM unnest(session);
        WHEN 'tally' THEN
            -- Folded on the way.
            tally := ARRAY(SELECT ROW(t.lane, sum(t.scheduled)::bigint, sum(t.blocked)::bigint,
                sum(t.available)::bigint, sum(t.running)::bigint, sum(t.paused)::bigint,
                sum(t.dead)::bigint)::{s}.tally FROM {s}.tally t GROUP BY t.lane);
            TRUNCATE {s}.tally;
            INSERT INTO {s}.tally SELECT * FROM unnest(tally);
        WHEN 'turn' THEN
            turn := ARRAY(SELECT t FROM {s}.turn t);
            TRUNCATE {s}.turn;
            INSERT INTO {s}.turn SELECT * FROM unnest(turn);
        WHEN 'served' THEN
            served := ARRAY(SELECT ROW(t.queue, max(t.turn))::{s}.served FROM {s}.served t GROUP BY t.queue);
            TRUNCATE {s}.served;
            INSERT INTO {s}.served SELECT * FROM unnest(served);
    END CASE;
    RETURN true;
END
$$;
