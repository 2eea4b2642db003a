-- `_rest` is never alone: to PostgreSQL 18 the price of a scan that is turned off does not count where a table has one
-- partition, so that without leaves it would go through all of `_rest` for each job sought. No id is below the lowest.
CREATE TABLE {s}.job_none (LIKE {s}.job INCLUDING ALL);
CREATE TABLE {s}.finished_none (LIKE {s}.finished INCLUDING ALL);
ALTER TABLE {s}.job ATTACH PARTITION {s}.job_none
    FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
ALTER TABLE {s}.finished ATTACH PARTITION {s}.finished_none
    FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
