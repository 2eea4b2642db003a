//! Every limit of the contract, by name. Whatever can grow has a bound here, and crossing it is an
//! [`Error`](crate::Error) that names the field, the value and the limit.

use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};

/// Bytes in a queue, kind, tenant, key, worker label, record or log name.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes in a unique or ordering key; longer ones are the caller's to hash.
pub const KEY_BYTES_MAX: usize = 256;
/// Bytes in a lease, session, claim id, cursor or epoch; a layer that wraps one must stay within it.
pub const TOKEN_BYTES_MAX: usize = 512;
/// The name of a claim without a session; shorter, so that engines can name a session after it.
pub const CLAIM_ID_BYTES_MAX: usize = 256;
/// Bytes of payload accepted unless an engine is set up for more.
pub const PAYLOAD_BYTES_DEFAULT: usize = 64 * 1024;
/// Bytes of payload that can be allowed by setting.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the `state` part, the checkpoint.
pub const STATE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the `blob` part.
pub const BLOB_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the `metadata` part.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a job's result.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one field of a part's envelope (location, key id, codec name).
pub const ENVELOPE_FIELD_BYTES_MAX: usize = 1024;
/// Levels of nesting in a part or a result that is JSON. Many parsers stop at 128; the rest is for the response around it.
pub const JSON_DEPTH_MAX: usize = 100;
/// Tags on a job.
pub const TAGS_MAX: usize = 16;
/// Bytes in a tag.
pub const TAG_BYTES_MAX: usize = 64;
/// Bytes of trace context carried with a job.
pub const TRACE_BYTES_MAX: usize = 512;

/// Jobs in one enqueue.
pub const ENQUEUE_BATCH_MAX: usize = 10_000;
/// The fastest pace at which a batch may be spread over time, in jobs per second.
pub const PACE_PER_SECOND_MAX: u64 = 1_000_000;
/// Jobs handed out by one claim.
pub const CLAIM_BATCH_MAX: u32 = 1_000;
/// Queues named by one claim.
pub const CLAIM_QUEUES_MAX: usize = 64;
/// Kinds named by one claim.
pub const CLAIM_KINDS_MAX: usize = 256;
/// How long one call may wait for work.
pub const WAIT_MAX_MS: u64 = 60 * SECOND_MS;
/// Items in one settle, update, change or record batch.
pub const BATCH_MAX: usize = 10_000;
/// Leases a heartbeat declares.
pub const DECLARED_LEASES_MAX: usize = 100_000;
/// Unanswered claims a heartbeat declares.
pub const UNANSWERED_CLAIMS_MAX: usize = 64;
/// Follow-up jobs of one item of a settle.
pub const FOLLOW_UPS_MAX: usize = 1_000;
/// Follow-up jobs of all items of one settle together.
pub const SETTLE_FOLLOW_UPS_MAX: usize = ENQUEUE_BATCH_MAX;

/// Attempts before a job is dead, unless it says otherwise.
pub const MAX_ATTEMPTS_DEFAULT: u32 = 5;
/// The most attempts a job may ask for.
pub const MAX_ATTEMPTS_MAX: u32 = 1_000_000;
/// Lost leases a job survives, unless it says otherwise.
pub const MAX_CRASHES_DEFAULT: u32 = 2;
/// The most lost leases a job may be allowed.
pub const MAX_CRASHES_MAX: u32 = 1_000_000;
/// From this many crashes on a job is a suspect: it comes in a claim of its own.
pub const SUSPECT_CRASHES: u32 = 2;
/// How far ahead a job may be scheduled (ten years).
pub const DELAY_MAX_MS: u64 = 3_653 * DAY_MS;
/// The longest a handler may be allowed to run.
pub const TIMEOUT_MAX_MS: u64 = 7 * DAY_MS;
/// The longest `max_wait`, retention or unique window (ten years).
pub const AGE_MAX_MS: u64 = 3_653 * DAY_MS;

/// Ranks lie between minus this and this: the whole numbers that a double holds exactly, because
/// some stores keep them in one.
pub const RANK_MAX: i64 = 1 << 53;

/// First retry delay.
pub const BACKOFF_BASE_DEFAULT_MS: u64 = 30 * SECOND_MS;
/// Longest exponential retry delay.
pub const BACKOFF_CAP_DEFAULT_MS: u64 = HOUR_MS;
/// Retry jitter is drawn from zero up to this.
pub const BACKOFF_JITTER_DEFAULT_MS: u64 = 15 * SECOND_MS;
/// The longest delay any retry or snooze may ask for.
pub const BACKOFF_MAX_MS: u64 = 365 * DAY_MS;
/// First delay after a lost lease; doubles with each crash.
pub const CRASH_BACKOFF_BASE_MS: u64 = SECOND_MS;
/// Longest delay after a lost lease, before jitter.
pub const CRASH_BACKOFF_CAP_MS: u64 = 30 * SECOND_MS;
/// Jitter after a lost lease is drawn from zero up to this.
pub const CRASH_BACKOFF_JITTER_MS: u64 = SECOND_MS;

/// Attempts kept in a job's history; older ones fall off.
pub const HISTORY_MAX: usize = 20;
/// Bytes kept of one attempt's error; the rest is cut and marked.
pub const ERROR_BYTES_MAX: usize = 8 * 1024;
/// Log lines kept per job; older ones fall off.
pub const LOG_LINES_MAX: usize = 100;
/// Bytes kept of one log line; the rest is cut and marked.
pub const LOG_LINE_BYTES_MAX: usize = 1024;
/// Bytes in a progress note.
pub const PROGRESS_NOTE_BYTES_MAX: usize = 256;

/// A session's time to live unless it asks otherwise.
pub const SESSION_TTL_DEFAULT_MS: u64 = 30 * SECOND_MS;
/// The shortest session.
pub const SESSION_TTL_MIN_MS: u64 = SECOND_MS;
/// The longest session.
pub const SESSION_TTL_MAX_MS: u64 = HOUR_MS;
/// How often a worker heartbeats its session.
pub const HEARTBEAT_MS: u64 = 5 * SECOND_MS;
/// The shortest lease of a claim without a session.
pub const LEASE_MIN_MS: u64 = SECOND_MS;
/// The longest lease of a claim without a session.
pub const LEASE_MAX_MS: u64 = HOUR_MS;
/// The lease of a claim without a session, unless it asks otherwise.
pub const LEASE_DEFAULT_MS: u64 = 5 * MINUTE_MS;

/// Lanes of one queue: kinds of which it has jobs, retained ones included, or had some lately.
pub const LANES_PER_QUEUE_MAX: usize = 10_000;
/// A lane without jobs is forgotten after this time.
pub const LANE_IDLE_MS: u64 = 7 * DAY_MS;

/// How long completed and cancelled jobs are kept.
pub const RETENTION_FINISHED_DEFAULT_MS: u64 = 7 * DAY_MS;
/// How long dead jobs are kept.
pub const RETENTION_DEAD_DEFAULT_MS: u64 = 30 * DAY_MS;
/// How long expired jobs are kept.
pub const RETENTION_EXPIRED_DEFAULT_MS: u64 = 30 * DAY_MS;

/// Rows in one page of a listing.
pub const PAGE_MAX: u32 = 1_000;
/// Rows in one page unless asked otherwise.
pub const PAGE_DEFAULT: u32 = 50;
/// Priorities of a lane that are told apart in numbers, the most urgent first.
pub const PRIORITIES_MAX: usize = 16;
/// Ready jobs that are counted one by one to tell them apart by priority, for all lanes of an answer.
pub const READY_COUNTED_MAX: u64 = 20_000;
/// Items one maintenance step may touch.
pub const MAINTAIN_BUDGET_MAX: u32 = 10_000;

/// Bytes in a record or log entry.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Entries a log may be asked to keep.
pub const LOG_KEEP_MAX: u32 = 100_000;

/// How far from now the time inside a job id may lie, either way.
pub const ID_SKEW_MAX_MS: u64 = DAY_MS;
/// Missed fires of a schedule older than this are never caught up (their ids would be too old).
pub const MISSED_FIRE_MAX_MS: u64 = 12 * HOUR_MS;
/// Fires of one schedule handed out at once.
pub const FIRES_MAX: usize = 1_000;
/// The shortest interval of a schedule.
pub const EVERY_MIN_MS: u64 = SECOND_MS;
/// A fire looked at within this time is on time; later, it was missed.
pub const ON_TIME_MS: u64 = MINUTE_MS;
/// Bytes in a cron line.
pub const CRON_LINE_BYTES_MAX: usize = 256;
/// Bytes in the name of a time zone.
pub const ZONE_BYTES_MAX: usize = 64;

/// Registered kinds of a store.
pub const KINDS_MAX: usize = 1_000;
/// Bytes of the JSON Schema of a kind: it must fit into a record.
pub const SCHEMA_BYTES_MAX: usize = 48 * 1024;
/// How deep the JSON of a schema may be nested.
pub const SCHEMA_DEPTH_MAX: usize = 32;

/// Counters a circuit breaker divides its window into.
pub const BREAKER_BUCKETS_MAX: usize = 10;
/// The window and the probe interval of a circuit breaker lie in here.
pub const BREAKER_INTERVAL_MS: std::ops::RangeInclusive<u64> = SECOND_MS..=DAY_MS;
/// The most samples a circuit breaker may be told to wait for.
pub const BREAKER_SAMPLES_MAX: u64 = 1_000_000;
