//! Every limit of the contract, by name. Everything that can grow has a bound here; exceeding it is an
//! [`Error`](crate::Error) that contains the field, the value and the limit.

use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};

/// Bytes in a queue, kind, tenant, key, worker label, record or log name.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes in a unique or ordering key; callers must hash longer ones.
pub const KEY_BYTES_MAX: usize = 256;
/// Bytes in a lease, session, claim id, cursor or epoch, including the wrapping of layers.
pub const TOKEN_BYTES_MAX: usize = 512;
/// Bytes in the name of a claim without a session; shorter, so that engines can derive a session id from it.
pub const CLAIM_ID_BYTES_MAX: usize = 256;
/// Default payload limit of an engine, in bytes.
pub const PAYLOAD_BYTES_DEFAULT: usize = 64 * 1024;
/// Highest payload limit that can be configured, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the checkpoint.
pub const CHECKPOINT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the `blob` part.
pub const BLOB_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the `metadata` part.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a job's result.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one field of a part's envelope (location, key id, codec name).
pub const ENVELOPE_FIELD_BYTES_MAX: usize = 1024;
/// Levels of nesting in a part or a result that is JSON. Many parsers stop at 128; the difference is for the
/// response around it.
pub const JSON_DEPTH_MAX: usize = 100;
/// Tags on a job.
pub const TAGS_MAX: usize = 16;
/// Bytes in a tag.
pub const TAG_BYTES_MAX: usize = 64;
/// Bytes of trace context carried with a job.
pub const TRACE_BYTES_MAX: usize = 512;

/// Jobs in one enqueue.
pub const ENQUEUE_BATCH_MAX: usize = 10_000;
/// Highest rate at which a bulk enqueue may spread jobs over time, in jobs per second.
pub const PACE_PER_SECOND_MAX: u64 = 1_000_000;
/// Jobs returned by one claim.
pub const CLAIM_BATCH_MAX: u32 = 1_000;
/// Queues named by one claim.
pub const CLAIM_QUEUES_MAX: usize = 64;
/// Kinds named by one claim.
pub const CLAIM_KINDS_MAX: usize = 256;
/// How long one call may wait for work.
pub const WAIT_MAX_MS: u64 = 60 * SECOND_MS;
/// Items in one settle, update, change or record batch.
pub const BATCH_MAX: usize = 10_000;
/// Leases declared by a heartbeat.
pub const DECLARED_LEASES_MAX: usize = 100_000;
/// Unanswered claims declared by a heartbeat.
pub const UNANSWERED_CLAIMS_MAX: usize = 64;
/// Follow-up jobs of one item of a settle.
pub const FOLLOW_UPS_MAX: usize = 1_000;
/// Follow-up jobs of all items of one settle together.
pub const SETTLE_FOLLOW_UPS_MAX: usize = ENQUEUE_BATCH_MAX;

/// Jobs that one job may depend on.
pub const DEPENDENCIES_MAX: usize = 50_000;
/// Dependencies of all jobs of one enqueue, or of all follow-ups of one settle, together.
pub const BATCH_DEPENDENCIES_MAX: usize = 50_000;
/// Bytes of the results of its dependencies that are copied into a job; further ones stay with the jobs they belong to.
pub const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// Dependents that the end of one job resolves in its own step; maintenance continues with the others.
pub const RESOLUTIONS_MAX: u32 = 1_000;
/// Dependents that one call resolves, for all jobs that end in it.
pub const CALL_RESOLUTIONS_MAX: u32 = 10_000;
/// Bytes of results that one call copies into dependents; maintenance continues with the others.
pub const CALL_RESOLUTION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages of a queue to others that are not delivered, on stores whose atomicity is the queue. Beyond, reports with
/// follow-ups elsewhere and jobs that run after jobs elsewhere are refused.
pub const OUTBOX_MAX: u64 = 10_000;
/// Jobs elsewhere that one message names of those that a job runs after.
pub const FOLLOWS_PER_MESSAGE_MAX: usize = 1_000;
/// Messages that one step of a delivery applies.
pub const DELIVERED_PER_STEP_MAX: usize = 100;
/// Pairs of queues with undelivered messages that a step of maintenance reads at a time.
pub const ROUTES_READ_MAX: usize = 100;
/// Length of the longest chain of jobs that end in one step because of each other; maintenance continues.
pub const CASCADE_MAX: u32 = 8;

/// Bytes in the payload of a signal.
pub const SIGNAL_BYTES_MAX: usize = 16 * 1024;
/// Signals in the inbox of a job.
pub const INBOX_SIGNALS_MAX: usize = 100;
/// Bytes of all signals in the inbox of a job.
pub const INBOX_BYTES_MAX: usize = 256 * 1024;
/// Ids of signals that a job remembers, the latest ones, so that it accepts each once.
pub const SIGNAL_IDS_MAX: usize = 100;
/// Names of signals that one wait is for.
pub const WAIT_SIGNALS_MAX: usize = 16;

/// Steps of a job.
pub const STEPS_MAX: usize = 1_000;
/// Bytes in the result of a step.
pub const STEP_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the names and results of all steps of a job.
pub const STEPS_BYTES_MAX: usize = 512 * 1024;

/// Jobs of a flow that are read, cancelled or replayed together.
pub const FLOW_JOBS_MAX: usize = 10_000;

/// Default number of failed attempts after which a job is dead.
pub const MAX_ATTEMPTS_DEFAULT: u32 = 5;
/// Highest configurable number of attempts.
pub const MAX_ATTEMPTS_MAX: u32 = 1_000_000;
/// Default number of lost leases that a job survives.
pub const MAX_CRASHES_DEFAULT: u32 = 2;
/// Highest configurable number of lost leases.
pub const MAX_CRASHES_MAX: u32 = 1_000_000;
/// Number of crashes from which on a job is a suspect, which is claimed and run alone.
pub const SUSPECT_CRASHES: u32 = 2;
/// How far in the future a job may be scheduled (ten years).
pub const DELAY_MAX_MS: u64 = 3_653 * DAY_MS;
/// Longest configurable run time of a handler.
pub const TIMEOUT_MAX_MS: u64 = 7 * DAY_MS;
/// The longest `max_wait`, retention or unique window (ten years).
pub const AGE_MAX_MS: u64 = 3_653 * DAY_MS;

/// Ranks are between minus this and this: the integers that a double represents exactly, because some stores
/// use doubles.
pub const RANK_MAX: i64 = 1 << 53;

/// Default delay of the first retry.
pub const BACKOFF_BASE_DEFAULT_MS: u64 = 30 * SECOND_MS;
/// Default cap of the exponential retry delay.
pub const BACKOFF_CAP_DEFAULT_MS: u64 = HOUR_MS;
/// Default retry jitter, drawn from zero up to this.
pub const BACKOFF_JITTER_DEFAULT_MS: u64 = 15 * SECOND_MS;
/// Longest delay of a retry or snooze.
pub const BACKOFF_MAX_MS: u64 = 365 * DAY_MS;
/// First delay after a lost lease; doubles with each crash.
pub const CRASH_BACKOFF_BASE_MS: u64 = SECOND_MS;
/// Longest delay after a lost lease, before jitter.
pub const CRASH_BACKOFF_CAP_MS: u64 = 30 * SECOND_MS;
/// Jitter after a lost lease is drawn from zero up to this.
pub const CRASH_BACKOFF_JITTER_MS: u64 = SECOND_MS;

/// Attempts kept in a job's history; older ones are dropped.
pub const HISTORY_MAX: usize = 20;
/// Bytes kept of one attempt's error; longer ones are truncated and marked.
pub const ERROR_BYTES_MAX: usize = 8 * 1024;
/// Log lines kept per job; older ones are dropped.
pub const LOG_LINES_MAX: usize = 100;
/// Bytes kept of one log line; longer ones are truncated and marked.
pub const LOG_LINE_BYTES_MAX: usize = 1024;
/// Bytes in a progress note.
pub const PROGRESS_NOTE_BYTES_MAX: usize = 256;

/// Highest number of jobs that a worker may report to run at a time.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// Named limits of a store.
pub const LIMITS_MAX: usize = 1_000;
/// Limits that a queue lists, and that a kind lists.
pub const LISTED_LIMITS_MAX: usize = 4;
/// Subscriptions of a topic.
pub const SUBSCRIPTIONS_MAX: usize = 32;
/// Kinds in the filter of a subscription.
pub const SUBSCRIPTION_KINDS_MAX: usize = 100;
/// Jobs that subscriptions get from one call.
pub const CALL_COPIES_MAX: usize = 20_000;
/// Groups with a rule of their own in one limit.
pub const LIMIT_OVERRIDES_MAX: usize = 1_000;
/// Bytes in a group.
pub const GROUP_BYTES_MAX: usize = NAME_BYTES_MAX;
/// Highest `max_running` of a limit.
pub const LIMIT_RUNNING_MAX: u32 = 1_000_000;
/// Highest amount and burst of a bucket, and highest cost of a job.
pub const LIMIT_AMOUNT_MAX: u32 = 1_000_000_000;
/// Highest maximum of a sliding window, which remembers every start.
pub const LIMIT_WINDOW_MAX: u32 = 1_000;
/// Longest period of a rate.
pub const LIMIT_PER_MAX_MS: u64 = 31 * DAY_MS;
/// Longest time for which a report can hold a limit.
pub const HOLD_MAX_MS: u64 = DAY_MS;
/// Blocked jobs that one step releases from the line of a group; the next step continues.
pub const LINE_RELEASES_MAX: u32 = 1_000;
/// Groups of a limit in its statistics, those with the most jobs first; all others are counted together.
pub const LIMIT_GROUPS_LISTED_MAX: usize = 20;
/// Lines of groups that are examined for the statistics of all limits together.
pub const LIMIT_LINES_EXAMINED_MAX: usize = 10_000;
/// Ready jobs that one claim returns to the lines of their groups.
pub const DEFERRALS_MAX: u32 = 1_000;

/// Default TTL of a session.
pub const SESSION_TTL_DEFAULT_MS: u64 = 30 * SECOND_MS;
/// Shortest TTL of a session.
pub const SESSION_TTL_MIN_MS: u64 = SECOND_MS;
/// Longest TTL of a session.
pub const SESSION_TTL_MAX_MS: u64 = HOUR_MS;
/// Default heartbeat interval of a worker.
pub const HEARTBEAT_MS: u64 = 5 * SECOND_MS;
/// The shortest lease of a claim without a session.
pub const LEASE_MIN_MS: u64 = SECOND_MS;
/// The longest lease of a claim without a session.
pub const LEASE_MAX_MS: u64 = HOUR_MS;
/// Default lease of a claim without a session.
pub const LEASE_DEFAULT_MS: u64 = 5 * MINUTE_MS;

/// Lanes of one queue: kinds with jobs in it (retained ones included), now or within the last
/// [`LANE_IDLE_MS`].
pub const LANES_PER_QUEUE_MAX: usize = 10_000;
/// A lane without jobs is removed after this time.
pub const LANE_IDLE_MS: u64 = 7 * DAY_MS;

/// Default retention of completed and cancelled jobs.
pub const RETENTION_FINISHED_DEFAULT_MS: u64 = 7 * DAY_MS;
/// Default retention of dead jobs.
pub const RETENTION_DEAD_DEFAULT_MS: u64 = 30 * DAY_MS;
/// Default retention of expired jobs.
pub const RETENTION_EXPIRED_DEFAULT_MS: u64 = 30 * DAY_MS;

/// Highest number of ended jobs of a state that a queue can be limited to.
pub const KEEP_MAX_MAX: u64 = 1_000_000;

/// How long the history of removed jobs is kept by default.
pub const REMOVED_KEPT_DEFAULT_MS: u64 = 90 * DAY_MS;
/// Tenants that one hour of the history of removed jobs has for a queue and kind; further ones are counted together.
pub const REMOVED_TENANTS_MAX: usize = 100;

/// Default number of events that a queue with events keeps.
pub const EVENTS_KEPT_DEFAULT: u64 = 10_000;
/// Highest number of events that a queue can be set to keep.
pub const EVENTS_KEPT_MAX: u64 = 1_000_000;
/// How long events are kept by default, if their number allows it.
pub const EVENTS_AGE_DEFAULT_MS: u64 = DAY_MS;
/// Shortest configurable age of events.
pub const EVENTS_AGE_MIN_MS: u64 = SECOND_MS;
/// Longest configurable age of events.
pub const EVENTS_AGE_MAX_MS: u64 = 31 * DAY_MS;
/// Queues of a store that may have events.
pub const EVENT_QUEUES_MAX: usize = 1_000;

/// Rows in one page of a listing.
pub const PAGE_MAX: u32 = 1_000;
/// Default number of rows in one page.
pub const PAGE_DEFAULT: u32 = 50;
/// Jobs that are read and compared with the filter for one page of a listing. A page of a filter that matches few of
/// them may be short.
pub const LIST_EXAMINED_MAX: usize = 10_000;
/// Jobs of other queues and kinds that are passed over, without being read, for one page of a listing.
pub const LIST_PASSED_MAX: usize = 100_000;
/// Bytes of payloads and metadata that are compared with the filter for one page of a listing.
pub const LIST_EXAMINED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Fields of payload and metadata in one filter.
pub const FILTER_FIELDS_MAX: usize = 8;
/// Bytes in the path of a field.
pub const FIELD_BYTES_MAX: usize = 256;
/// Steps in the path of a field.
pub const FIELD_STEPS_MAX: usize = 16;
/// Bytes in the value of a field that is searched for.
pub const FIELD_VALUE_BYTES_MAX: usize = 1024;
/// Bytes in a text that is searched for.
pub const SEARCH_TEXT_BYTES_MAX: usize = 256;
/// Jobs that one step of a bulk operation examines.
pub const BULK_STEP_JOBS: u32 = 500;
/// How long a process holds a bulk operation after a step; if it dies, another one continues after this time.
pub const BULK_HOLD_MS: u64 = 5 * SECOND_MS;
/// Bulk operations that a store keeps; the oldest ended one is removed for a new one.
pub const BULKS_MAX: usize = 100;
/// Priorities per lane in statistics, most urgent first.
pub const PRIORITIES_MAX: usize = 16;
/// Ready jobs counted one by one for statistics by priority, over all lanes of a reply.
pub const READY_COUNTED_MAX: u64 = 20_000;
/// Ready jobs ahead of a job that are counted for its explanation.
pub const AHEAD_COUNTED_MAX: usize = 1_000;
/// Items that one maintenance step may process.
pub const MAINTAIN_BUDGET_MAX: u32 = 10_000;

/// Bytes in a record or log entry.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of entries that a log keeps.
pub const LOG_KEEP_MAX: u32 = 100_000;

/// Maximum difference between the time in a job id and the current time, in both directions.
pub const ID_SKEW_MAX_MS: u64 = DAY_MS;
/// Missed fires older than this are never made up for, because their ids would be too old.
pub const MISSED_FIRE_MAX_MS: u64 = 12 * HOUR_MS;
/// Fires of one schedule returned at once.
pub const FIRES_MAX: usize = 1_000;
/// The shortest interval of a schedule.
pub const EVERY_MIN_MS: u64 = SECOND_MS;
/// A fire is on time if it is noticed within this time; later, it counts as missed.
pub const ON_TIME_MS: u64 = MINUTE_MS;
/// Bytes in a cron line.
pub const CRON_LINE_BYTES_MAX: usize = 256;
/// Bytes in the name of a time zone.
pub const ZONE_BYTES_MAX: usize = 64;

/// Registered kinds of a store.
pub const KINDS_MAX: usize = 1_000;
/// Bytes of the JSON Schema of a kind, which must fit into a record.
pub const SCHEMA_BYTES_MAX: usize = 48 * 1024;
/// Levels of nesting of a schema.
pub const SCHEMA_DEPTH_MAX: usize = 32;

/// Allowed sample of completed jobs that a kind's check covers, out of 1,000.
pub const CHECK_PER_MILLE: std::ops::RangeInclusive<u64> = 1..=1_000;

/// Buckets into which a circuit breaker divides its window.
pub const BREAKER_BUCKETS_MAX: usize = 10;
/// Allowed window and probe interval of a circuit breaker.
pub const BREAKER_INTERVAL_MS: std::ops::RangeInclusive<u64> = SECOND_MS..=DAY_MS;
/// Highest configurable minimum of samples of a circuit breaker.
pub const BREAKER_SAMPLES_MAX: u64 = 1_000_000;
