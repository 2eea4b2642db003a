-- Rewriting the small tables that turn over quickly. A vacuum cannot clear away what an old snapshot somewhere in
-- the cluster might still see, and rows that were read past again and again cost more and more; but a table of
-- which little is alive can be copied, truncated and filled again. Snapshots older than that see it empty.

-- Rewrites a table; false if more than a few rows are alive, or somebody holds it. As `003_leaves.sql`: no owner's
-- rights are needed, and a lock that does not come soon is given up.
CREATE FUNCTION {s}.rewrite(name text, few bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    alive bigint;
    ready {s}.ready[];
    lease {s}.lease[];
    scheduled {s}.scheduled[];
    session {s}.session[];
    tally {s}.tally[];
BEGIN
    IF name <> ALL (ARRAY['ready', 'lease', 'scheduled', 'session', 'tally']) THEN
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
    END CASE;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION {s}.rewrite(text, bigint) FROM PUBLIC;
