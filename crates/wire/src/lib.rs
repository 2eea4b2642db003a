//! The JSON of the HTTP API. Converts the requests and replies of `windlass-core` to JSON and back,
//! and depends on neither HTTP libraries nor engines.
//!
//! Types have the names of the core types they represent. `From` converts a core request to its
//! wire type and `into_core` converts it back; replies work the same way. Conversion loses nothing,
//! errors included ([`Fault`]). `docs/protocol.md` describes the format for authors of clients.
//!
//! - Requests are strict: an unknown field is refused by name, because an option without effect is an
//!   error. Replies are lenient: clients ignore unknown fields.
//! - Instants are RFC 3339 on the store's clock, and requests may contain milliseconds since the Unix epoch instead.
//!   Durations end in `_ms`.
//! - Bytes that are JSON are sent as JSON, byte for byte; all others as base64 ([`Part`]).
//! - The stamp of a reply (the store's time and epoch) is sent in the headers [`NOW_HEADER`] and
//!   [`EPOCH_HEADER`], so that bodies contain only the requested data.
//!
//! The feature `openapi` adds schemas to the types, for the document that the server serves.
//!
//! # Why wire types mirror core types
//!
//! 61 types have the name of a core type, and 18 of them the same fields with the same types: 519 of 7,000 lines, with
//! their conversions. Serving the core types themselves, with an `openapi` feature in core, would save about 300 of
//! them, because the attributes for JSON and schemas (about 3 lines per field) would move along. The price is higher:
//! stores keep some core types as JSON, so that renaming a field of the API would change stored data; core would
//! depend on an OpenAPI library; and a new field of a core type would be in the public API before a route handles it.
//!
//! ```
//! use windlass_core::model;
//! use windlass_wire::{NewJob, read};
//!
//! let text = br#"{"kind": "send_email", "queue": "mail", "payload": {"to": "ada@example.org"}}"#;
//! let job: model::NewJob = read::<NewJob>(text)?.into_core()?;
//! assert_eq!(job, model::NewJob::new("send_email").queue("mail").json(r#"{"to": "ada@example.org"}"#));
//!
//! let error = read::<NewJob>(br#"{"kind": "send_email", "prioritee": 1}"#).unwrap_err();
//! assert_eq!(error.field(), Some("prioritee"));
//! # Ok::<(), windlass_core::Error>(())
//! ```

#![deny(clippy::wildcard_enum_match_arm)]

mod actions;
mod audit;
mod bounded;
mod bulk;
mod capabilities;
mod change;
mod claim;
mod configure;
mod dead;
mod dependency;
mod enqueue;
mod events;
mod explain;
mod fault;
mod flow;
mod health;
mod history;
mod intern;
mod item;
mod job;
mod keys;
mod kinds;
mod limit;
mod maintain;
mod new_job;
#[cfg(feature = "openapi")]
pub mod openapi;
mod page;
mod part;
mod policy;
mod query;
mod queues;
mod read;
mod reader;
mod records;
pub mod routes;
mod scale;
mod schedule;
mod series;
mod session;
mod settle;
mod signal;
mod topic;
mod update;

pub use actions::{IfState, Move, Reprioritise, Reschedule};
pub use audit::{Action, AuditList, AuditPage};
pub use bulk::{Bulk, BulkChange, Bulks, JobFilter, NewBulk};
pub use capabilities::{Capabilities, PROTOCOL};
pub use change::{Change, ChangeBatch, Changed, Edits, JobChange};
pub use claim::{Claim, Claimed, Limited, Ready, Wait, Want};
pub use configure::{Configure, ConfigureBatch, KindPatch, Named, QueuePatch, Settings};
pub use dead::{DeadBatch, DeadFilter, DeadItem, DeadOnes, DeadReply};
pub use dependency::{Dependencies, Dependency, Input, Join};
pub use enqueue::{Enqueue, Enqueued, Pace, TopicCopy, Verdict};
pub use events::{Event, EventBounds, EventStreamQuery, EventsPage, EventsQuery};
pub use explain::{Cause, Explanation};
pub use fault::{Fault, Problem};
pub use flow::{Flow, NewFlow, StoredFlow};
pub use health::{Alive, Disk, StoreHealth};
pub use history::{HistoryPage, HistoryQuery, HistoryRow};
pub use item::{Empty, Item, Items, Nothing, into_items};
pub use job::{Import, Job, Jobs, Page};
pub use keys::{CreatedKey, Key, Keys, NewKey};
pub use kinds::{
    Breaker, BreakerPolicy, BreakerWord, CheckRule, Checks, KindOverview, KindRules, Kinds,
    PriorityRule,
};
pub use limit::{GroupStats, Limit, LimitView, Limits, Rate, Rule, Take, Took};
pub use maintain::{Check, CheckReport, Finding, Maintain, MaintainReply, Tally};
pub use new_job::NewJob;
pub use page::PageQuery;
pub use part::{Envelope, Part, PartEdits, Parts};
pub use policy::{Backoff, KeepMax, Policy, Retention, Unique};
pub use query::{Get, GetOne, Lane, LanePriority, List, Order, Stats, StatsQuery, Worker, Workers};
pub use queues::{Counts, Overview, Queues};
pub use read::{read, read_list, read_query, read_reply, write, write_list, write_query};
pub use records::{LogEntry, Record, RecordAnswer, RecordBatch, RecordOp, RecordReply, Value};
pub use scale::{Scale, ScaleQuery};
pub use schedule::{
    PutSchedule, Schedule, ScheduleError, ScheduleList, SchedulePage, SchedulePatch, ScheduleView,
};
pub use series::{Point, Series, SeriesQuery};
pub use session::{Heartbeat, HeartbeatReply, Held, OpenSession, Session, WorkerInfo};
pub use settle::{Hold, Outcome, Reason, Settle, SettleItem, SettleReply, Settled};
pub use signal::Signal;
pub use topic::Subscription;
pub use update::{Progress, Update, UpdateItem, Updated};

/// Header of every successful reply: the store's time in milliseconds since the Unix epoch.
pub const NOW_HEADER: &str = "windlass-now";
/// Header of every successful reply: the store's epoch. When it changes, cursors become invalid.
pub const EPOCH_HEADER: &str = "windlass-epoch";
/// Header of a request about one running job: its lease.
pub const LEASE_HEADER: &str = "windlass-lease";
/// Header of a message with raw bytes: their envelope as JSON, if they are not plain.
pub const ENVELOPE_HEADER: &str = "windlass-envelope";
/// The media type of requests and replies.
pub const JSON: &str = "application/json";
/// The media type of raw bytes that are not JSON.
pub const BYTES: &str = "application/octet-stream";
/// The media type of errors (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Whether a field has its default value and can be omitted.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The default of a cost.
const fn one() -> u32 {
    1
}

/// Whether a cost is the default and can be omitted.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(cost: &u32) -> bool {
    *cost == 1
}

/// Deserializes a field for which `null` has a meaning: `None` only if the field is missing.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
