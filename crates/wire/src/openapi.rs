//! The schemas of what core lends to the wire, for the OpenAPI document: names, ids, instants, numbers
//! with core's limits. Only documentation is made of it (feature `openapi`); no value ever has one of
//! these types, and a field names its own with `#[schema(value_type = …)]`.
//!
//! A schema may be wider than the server, never narrower: what it calls invalid is refused, and what it
//! calls valid may still be refused for a reason that JSON Schema has no words for (limits are in bytes,
//! lengths here in characters), as a problem.

mod answers;
mod shapes;
mod words;

pub use answers::{
    ChangedItems, Code, EmptyItems, EnqueuedItems, Failure, RecordAnswerItems, SettledItem,
    UpdatedItems,
};
pub use shapes::{
    Attempt, DeadList, KindOverview, KindSettings, LogLine, NamedKind, NamedQueue, QueueOverview,
    QueueSettings, RawHeaders, TraceHeaders,
};
pub use words::{
    Atomicity, AttemptEnd, Codec, Durability, Finish, Gate, Location, Missed, OnConflict, PartName,
    PartOrResult, QueueOrder, State, UniqueScope, Work, WritablePart,
};

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};
use windlass_core::limits;

/// A small document or a log entry, by a name that says so.
pub type RecordValue = crate::Value;

/// Letters, digits and `_ - . : / @`, as core's `check_name` takes them.
const NAME: &str = "^[A-Za-z0-9_][A-Za-z0-9_.:/@-]*$";
/// Anything but control characters, as core's `check_text` takes it.
const PRINTABLE: &str = "^[^\\u0000-\\u001F\\u007F-\\u009F]+$";
/// Standard alphabet, with padding.
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Texts: what they are, how long, of which characters, and what one looks like.
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
    "What people call a tenant or a worker."
        Label: 1..=limits::NAME_BYTES_MAX, PRINTABLE, "worker-1";
    "A unique or ordering key; longer ones are yours to hash."
        Key: 1..=limits::KEY_BYTES_MAX, PRINTABLE, "signup:789";
    "A label of a job."
        Tag: 1..=limits::TAG_BYTES_MAX, PRINTABLE, "nightly";
    "Trace context (W3C `traceparent`)."
        Trace: 1..=limits::TRACE_BYTES_MAX, PRINTABLE,
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    "The right to report on one attempt at a job; opaque."
        Lease: 1..=limits::TOKEN_BYTES_MAX, PRINTABLE, "9f86d081884c7d659a2feaa0c55ad015";
    "A session, named by the server; opaque."
        SessionId: 1..=limits::TOKEN_BYTES_MAX, PRINTABLE, "5e884898da28047151d0e56f8dc62927";
    "A name for a claim, of your own making."
        ClaimId: 1..=limits::CLAIM_ID_BYTES_MAX, PRINTABLE, "claim-1";
    "Where a page ended; opaque, and void when the epoch changes."
        Cursor: 1..=limits::TOKEN_BYTES_MAX, PRINTABLE, "c3RhcnQ=";
    "When a schedule fires: minute, hour, day, month, weekday; or `@daily` and the like."
        CronLine: 1..=limits::CRON_LINE_BYTES_MAX, PRINTABLE, "30 2 * * MON-FRI";
    "A name of the time zone database."
        Zone: 1..=limits::ZONE_BYTES_MAX, PRINTABLE, "Europe/Berlin";
}

/// Whole numbers: what they are, and between which bounds.
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
    "An instant on the store's clock, in milliseconds since the Unix epoch."
        Timestamp: 0..=i64::MAX;
    "An instant that something is compared with; it may be before the Unix epoch."
        Bound: i64::MIN..=i64::MAX;
    "Lower runs first."
        Priority: i32::MIN..=i32::MAX;
    "Any whole number of 64 bits."
        Whole: 0..=u64::MAX;
    "Any whole number of 32 bits."
        Whole32: 0..=u32::MAX;
    "How far ahead a job is scheduled."
        DelayMs: 0..=limits::DELAY_MAX_MS;
    "How long a retry or a snooze waits."
        BackoffMs: 0..=limits::BACKOFF_MAX_MS;
    "How long a handler may run."
        TimeoutMs: 1..=limits::TIMEOUT_MAX_MS;
    "How long something is kept."
        AgeMs: 0..=limits::AGE_MAX_MS;
    "How long something may wait, or a unique key is held."
        SpanMs: 1..=limits::AGE_MAX_MS;
    "How long a call waits for something to claim."
        WaitMs: 0..=limits::WAIT_MAX_MS;
    "How long a lease of a claim without a session lasts."
        LeaseMs: limits::LEASE_MIN_MS..=limits::LEASE_MAX_MS;
    "How long a session lives without a heartbeat."
        SessionTtlMs: limits::SESSION_TTL_MIN_MS..=limits::SESSION_TTL_MAX_MS;
    "Attempts before a job is dead."
        MaxAttempts: 1..=limits::MAX_ATTEMPTS_MAX;
    "Lost leases that a job survives."
        MaxCrashes: 0..=limits::MAX_CRASHES_MAX;
    "Jobs in one claim."
        ClaimLimit: 1..=limits::CLAIM_BATCH_MAX;
    "Rows in one page."
        PageLimit: 1..=limits::PAGE_MAX;
    "Items that one step of maintenance may touch."
        Budget: 1..=limits::MAINTAIN_BUDGET_MAX;
    "Entries that a log keeps."
        LogKeep: 1..=limits::LOG_KEEP_MAX;
    "How many jobs may wait in a queue."
        Depth: 1..=u64::MAX;
    "The interval of a schedule."
        EveryMs: limits::EVERY_MIN_MS..=limits::DELAY_MAX_MS;
    "Bytes of payload."
        PayloadBytes: 1..=limits::PAYLOAD_BYTES_MAX;
    "The window or the probe interval of a circuit breaker."
        BreakerMs: *limits::BREAKER_INTERVAL_MS.start()..=*limits::BREAKER_INTERVAL_MS.end();
    "Outcomes without which a circuit breaker does not open."
        BreakerSamples: 1..=limits::BREAKER_SAMPLES_MAX;
    "A share; more than 100 % never fail, so 100 would be a breaker that does nothing."
        Percent: 0..=99_u32;
    "How often a schedule fires in total."
        FireLimit: 1..=u64::MAX;
}

/// The identity of a job.
#[derive(Debug)]
pub enum JobId {}

impl PartialSchema for JobId {
    fn schema() -> RefOr<Schema> {
        let what = "A job: a UUID of version 7, or of version 8 if it was derived. Your own is a version 7 made within a day of now.";
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

/// Bytes as they are.
#[derive(Debug)]
pub enum Bytes {}

impl PartialSchema for Bytes {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::String);
        let object = object.format(Some(SchemaFormat::Custom("binary".to_owned())));
        object.description(Some("Bytes as they are.")).into()
    }
}

impl ToSchema for Bytes {}

/// Any JSON at all.
#[derive(Debug)]
pub enum Json {}

impl PartialSchema for Json {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        object.description(Some("Any JSON; kept to the byte.")).into()
    }
}

impl ToSchema for Json {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Any;

    /// The schema of a type, as JSON.
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
