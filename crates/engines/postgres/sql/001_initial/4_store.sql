-- Records and logs, sequences, and the identity of the store.

CREATE TABLE {s}.record (
    key        text COLLATE "C" PRIMARY KEY,
    version    bigint NOT NULL,
    value      bytea NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE {s}.log (name text COLLATE "C" PRIMARY KEY, last bigint NOT NULL);
CREATE TABLE {s}.log_entry (
    name   text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at     bigint NOT NULL,
    value  bytea NOT NULL,
    PRIMARY KEY (name, number)
);

-- Removed jobs per hour of removal, queue, kind, tenant ('' for none) and outcome (a state). The view `removed_hourly`
-- is for people.
CREATE TABLE {s}.removed (
    hour    bigint NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    outcome smallint NOT NULL,
    jobs    bigint NOT NULL,
    PRIMARY KEY (hour, queue, kind, tenant, outcome)
);

-- Orders jobs: a transaction takes one number n, and numbers its jobs from n * 2^{seq_bits} on.
CREATE SEQUENCE {s}.entry;
-- Versions of records, each used once.
CREATE SEQUENCE {s}.version;

-- Part of the epoch: a crash, which may lose the last asynchronous commits, empties this table.
CREATE UNLOGGED TABLE {s}.marker (one boolean PRIMARY KEY CHECK (one), id uuid NOT NULL);

-- Part of the name of the notification channel, so that only roles that may read this table can notify workers. NOTIFY
-- itself needs no privilege: with a channel that follows from the schema's name, every role of the database could wake
-- all workers and void their scan cursors as often as it likes.
CREATE TABLE {s}.secret (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    value uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO {s}.secret DEFAULT VALUES;
