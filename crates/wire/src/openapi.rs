//! OpenAPI schemas for core types used in wire types: names, ids, instants, and numbers with core's
//! limits. Used only for documentation (feature `openapi`): no value has one of these types; fields
//! refer to them with `#[schema(value_type = …)]`.
//!
//! A schema may be wider than the server's checks, never narrower. The server refuses everything
//! that a schema forbids, and may refuse values that a schema allows where JSON Schema cannot
//! express a limit: limits are in bytes, lengths in schemas in characters.

mod answers;
mod shapes;
mod words;

pub use answers::{
    ChangedItems, Code, EmptyItems, EnqueuedItems, Failure, RecordAnswerItems, SettledItem,
    UpdatedItems,
};
pub use shapes::{
    Attempt, Continuation, DeadList, IdempotencyHeaders, KindOverview, KindSettings, LogLine,
    NamedKind, NamedLimit, NamedQueue, QueueOverview, QueueSettings, RawHeaders, Running,
    SignalWait, Step, StepKind, TraceHeaders, Wake,
};
pub use words::{
    Atomicity, AttemptEnd, CauseCode, Codec, DependencyOrId, Durability, Finish, Gate, Location,
    Missed, OnConflict, OnFailure, PartName, PartOrResult, QueueOrder, State, UniqueScope,
    UniqueUntil, Work, WritablePart,
};

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};
use windlass_core::limits;
use windlass_core::time::HOUR_MS;

/// A small document or a log entry, under a more specific name.
pub type RecordValue = crate::Value;

/// Letters, digits and `_ - . : / @`, as in core's `check_name`.
const NAME: &str = "^[A-Za-z0-9_][A-Za-z0-9_.:/@-]*$";
/// All characters except control characters, as in core's `check_text`.
const PRINTABLE: &str = "^[^\\u0000-\\u001F\\u007F-\\u009F]+$";
/// Standard base64 alphabet, with padding.
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Declares string schemas: description, length, pattern and example.
macro_rules! texts {
    ($($doc:literal $name:ident: $length:expr, $pattern:expr, $example:literal;)+) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some($doc))
                    .min_length(Some(*$length.start()))
                    .max_length(Some(*$length.end()))
                    .pattern(Some($pattern))
                    .examples([$example])
                    .into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

texts! {
    "The name of a queue, a kind, a record or a log."
        Name: 1..=limits::NAME_BYTES_MAX, NAME, "send_email";
    "Display name of a tenant or a worker."
        Label: 1..=limits::NAME_BYTES_MAX, PRINTABLE, "worker-1";
    "A unique or ordering key; hash longer ones."
        Key: 1..=limits::KEY_BYTES_MAX, PRINTABLE, "signup:789";
    "The first hex digits of a job id."
        IdPrefix: 1..=63, "^-*[0-9A-Fa-f](-*[0-9A-Fa-f]){0,31}-*$", "0199b2c8-00";
    "A text to search for."
        SearchText: 1..=limits::SEARCH_TEXT_BYTES_MAX, PRINTABLE, "mailbox busy";
    "A label of a job."
        Tag: 1..=limits::TAG_BYTES_MAX, PRINTABLE, "nightly";
    "Trace context (W3C `traceparent`)."
        Trace: 1..=limits::TRACE_BYTES_MAX, PRINTABLE,
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    "Opaque token that permits reports on one attempt of a job."
        Lease: 1..=limits::TOKEN_BYTES_MAX, PRINTABLE, "9f86d081884c7d659a2feaa0c55ad015";
    "Opaque id of a session, assigned by the server."
        SessionId: 1..=limits::TOKEN_BYTES_MAX, PRINTABLE, "5e884898da28047151d0e56f8dc62927";
    "An id for a claim, chosen by the client."
        ClaimId: 1..=limits::CLAIM_ID_BYTES_MAX, PRINTABLE, "claim-1";
    "Opaque position after a page; invalid once the epoch changes."
        Cursor: 1..=limits::TOKEN_BYTES_MAX, PRINTABLE, "c3RhcnQ=";
    "A cron expression: minute, hour, day, month, weekday; or a shorthand such as `@daily`."
        CronLine: 1..=limits::CRON_LINE_BYTES_MAX, PRINTABLE, "30 2 * * MON-FRI";
    "A name from the IANA time zone database."
        Zone: 1..=limits::ZONE_BYTES_MAX, PRINTABLE, "Europe/Berlin";
}

/// Declares schemas of times: description and earliest number.
macro_rules! times {
    ($($doc:literal $name:ident: $earliest:expr;)+) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new()
                    .schema_type(Type::String)
                    .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
                    .description(Some("RFC 3339, as in all replies."));
                let number = ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some($earliest))
                    .maximum(Some(i64::MAX))
                    .description(Some("Milliseconds since the Unix epoch, in requests."));
                let digits = ObjectBuilder::new()
                    .schema_type(Type::String)
                    .pattern(Some("^-?[0-9]{1,18}$"))
                    .description(Some("The same number as text, as in queries."));
                let any = OneOfBuilder::new().description(Some($doc));
                any.item(text).item(number).item(digits).into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

times! {
    "An instant on the store's clock."
        Timestamp: 0_i64;
    "An instant for comparison; it may be before the Unix epoch."
        Bound: i64::MIN;
}

/// Declares integer schemas: description and range.
macro_rules! numbers {
    ($($doc:literal $name:ident: $range:expr;)+) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .description(Some($doc))
                    .minimum(Some(*$range.start()))
                    .maximum(Some(*$range.end()))
                    .into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

numbers! {
    "Lower runs first."
        Priority: i32::MIN..=i32::MAX;
    "Any unsigned 64-bit integer."
        Whole: 0..=u64::MAX;
    "Any unsigned 32-bit integer."
        Whole32: 0..=u32::MAX;
    "Delay until a job is due."
        DelayMs: 0..=limits::DELAY_MAX_MS;
    "Delay of a retry or a snooze."
        BackoffMs: 0..=limits::BACKOFF_MAX_MS;
    "Maximum run time of a handler."
        TimeoutMs: 1..=limits::TIMEOUT_MAX_MS;
    "Tokens that a start takes from the rates of its limits."
        Cost: 1..=limits::LIMIT_AMOUNT_MAX;
    "How long to stop starts; 0 ends a hold."
        HoldMs: 0..=limits::HOLD_MAX_MS;
    "Retention time."
        AgeMs: 0..=limits::AGE_MAX_MS;
    "Maximum waiting time of a job, or the time a unique key is held."
        SpanMs: 1..=limits::AGE_MAX_MS;
    "Maximum time to wait for claimable jobs."
        WaitMs: 0..=limits::WAIT_MAX_MS;
    "Duration of a lease for claims without a session."
        LeaseMs: limits::LEASE_MIN_MS..=limits::LEASE_MAX_MS;
    "Time until a session without a heartbeat expires."
        SessionTtlMs: limits::SESSION_TTL_MIN_MS..=limits::SESSION_TTL_MAX_MS;
    "Number of jobs that a worker runs at a time."
        Concurrency: 0..=limits::CONCURRENCY_MAX;
    "Number of failed attempts after which a job is dead."
        MaxAttempts: 1..=limits::MAX_ATTEMPTS_MAX;
    "Number of lost leases that a job survives."
        MaxCrashes: 0..=limits::MAX_CRASHES_MAX;
    "Maximum number of jobs in one claim."
        ClaimLimit: 1..=limits::CLAIM_BATCH_MAX;
    "Maximum number of rows in one page."
        PageLimit: 1..=limits::PAGE_MAX;
    "Maximum number of items that one step of maintenance processes."
        Budget: 1..=limits::MAINTAIN_BUDGET_MAX;
    "Maximum number of entries in a log."
        LogKeep: 1..=limits::LOG_KEEP_MAX;
    "Maximum number of waiting jobs in a queue."
        Depth: 1..=u64::MAX;
    "The interval of a schedule."
        EveryMs: limits::EVERY_MIN_MS..=limits::DELAY_MAX_MS;
    "Maximum number of ended jobs that a queue keeps."
        KeepCount: 0..=limits::KEEP_MAX_MAX;
    "How long the history of removed jobs is kept."
        HistoryMs: HOUR_MS..=limits::AGE_MAX_MS;
    "Maximum number of events that a queue keeps."
        EventCount: 1..=limits::EVENTS_KEPT_MAX;
    "Maximum age of events."
        EventAgeMs: limits::EVENTS_AGE_MIN_MS..=limits::EVENTS_AGE_MAX_MS;
    "Size of a payload in bytes."
        PayloadBytes: 1..=limits::PAYLOAD_BYTES_MAX;
    "The window or the probe interval of a circuit breaker."
        BreakerMs: *limits::BREAKER_INTERVAL_MS.start()..=*limits::BREAKER_INTERVAL_MS.end();
    "Minimum number of outcomes before a circuit breaker opens."
        BreakerSamples: 1..=limits::BREAKER_SAMPLES_MAX;
    "A percentage. 100 is not allowed: a breaker with that threshold would never open."
        Percent: 0..=99_u32;
    "A share of jobs, out of 1,000."
        PerMille: *limits::CHECK_PER_MILLE.start()..=*limits::CHECK_PER_MILLE.end();
    "Total number of runs of a schedule."
        FireLimit: 1..=u64::MAX;
}

/// The id of a job.
#[derive(Debug)]
pub enum JobId {}

impl PartialSchema for JobId {
    fn schema() -> RefOr<Schema> {
        let what = "Id of a job: a version 7 UUID, or version 8 if derived. Ids chosen by clients must be version 7 with a time within a day of now.";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("uuid".to_owned())))
            .description(Some(what))
            .examples(["019a8b2c-7d4e-7f01-8a23-456789abcdef"])
            .into()
    }
}

impl ToSchema for JobId {}

/// Bytes in base64.
#[derive(Debug)]
pub enum Base64 {}

impl PartialSchema for Base64 {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::String).content_encoding("base64");
        let what = "Bytes that are not JSON, in base64: standard alphabet, with padding.";
        object.description(Some(what)).pattern(Some(BASE64)).examples(["AAH/"]).into()
    }
}

impl ToSchema for Base64 {}

/// Raw bytes.
#[derive(Debug)]
pub enum Bytes {}

impl PartialSchema for Bytes {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::String);
        let object = object.format(Some(SchemaFormat::Custom("binary".to_owned())));
        object.description(Some("Raw bytes.")).into()
    }
}

impl ToSchema for Bytes {}

/// Any JSON value.
#[derive(Debug)]
pub enum Json {}

impl PartialSchema for Json {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        object.description(Some("Any JSON; preserved byte for byte.")).into()
    }
}

impl ToSchema for Json {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Any;

    /// The schema of a type as JSON.
    pub(crate) fn schema<T: PartialSchema>() -> Any {
        serde_json::to_value(T::schema()).unwrap()
    }

    #[test]
    fn lists_are_bounded_as_core_bounds_them() {
        let bounds: [(Any, &str, usize); 16] = [
            (schema::<crate::Enqueue>(), "jobs", limits::ENQUEUE_BATCH_MAX),
            (schema::<crate::ChangeBatch>(), "items", limits::BATCH_MAX),
            (schema::<crate::ConfigureBatch>(), "items", limits::BATCH_MAX),
            (schema::<crate::RecordBatch>(), "items", limits::BATCH_MAX),
            (schema::<crate::Settle>(), "items", limits::BATCH_MAX),
            (schema::<crate::Update>(), "items", limits::BATCH_MAX),
            (schema::<crate::Get>(), "ids", limits::BATCH_MAX),
            (schema::<crate::DeadBatch>(), "ids", limits::BATCH_MAX),
            (schema::<crate::NewJob>(), "tags", limits::TAGS_MAX),
            (schema::<crate::Claim>(), "queues", limits::CLAIM_QUEUES_MAX),
            (schema::<crate::Claim>(), "kinds", limits::CLAIM_KINDS_MAX),
            (schema::<crate::Wait>(), "queues", limits::CLAIM_QUEUES_MAX),
            (schema::<crate::Heartbeat>(), "held", limits::DECLARED_LEASES_MAX),
            (schema::<crate::Heartbeat>(), "unanswered", limits::UNANSWERED_CLAIMS_MAX),
            (schema::<crate::UpdateItem>(), "log", limits::LOG_LINES_MAX),
            (schema::<crate::SettleItem>(), "follow_ups", limits::FOLLOW_UPS_MAX),
        ];
        for (schema, field, max) in bounds {
            assert_eq!(schema["properties"][field]["maxItems"], max, "{field} of {schema}");
        }
    }
}
