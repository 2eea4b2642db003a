-- Wake-ups go over a channel whose name is known only to who may read this table. NOTIFY needs no right but to connect,
-- and a name that follows from the schema's would let every role of the database wake all workers, and make them look
-- for ready jobs from the very beginning, as often as it likes.
CREATE TABLE {s}.secret (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    value uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO {s}.secret DEFAULT VALUES;

-- Wakes workers when the transaction commits, and tells them the number of its first job: claims may have come further
-- meanwhile, and must look there again. It is the same for all jobs of a transaction, so that one notification is sent.
-- In between it is kept in a setting. Anybody can change settings, so it counts only with a seal, which nobody else can
-- make, and which fits no other transaction.
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
REVOKE ALL ON FUNCTION {s}.wake(bigint) FROM PUBLIC;

DO $do$
DECLARE
    source CONSTANT text := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p
        WHERE p.pronamespace = '{s}'::regnamespace AND p.proname = 'enqueue');
    sealed CONSTANT text := regexp_replace(source, 'PERFORM pg_notify\([^;]*;', 'PERFORM {s}.wake(place);');
BEGIN
    IF sealed = source THEN
        RAISE EXCEPTION 'function enqueue is not as it was made';
    END IF;
    EXECUTE sealed;
END
$do$;
