//! The JSON of the HTTP API: what the server and its clients say to each other. It turns the requests
//! and replies of `windlass-core` into JSON and back, and knows neither HTTP libraries nor engines.
//!
//! Types carry the names of the core types they stand for. A request is made from its core type with
//! `From` and read back with `into_core`, a reply the same way; what arrives is what was sent, errors
//! included ([`Fault`]). `docs/protocol.md` describes the same for people who write clients.
//!
//! - Requests are strict: an unknown field is refused and named, because an option that does nothing is
//!   an error. Replies are lenient: a client ignores what it does not know.
//! - Instants are milliseconds since the Unix epoch on the store's clock; durations end in `_ms`.
//! - Bytes that are JSON travel as JSON, to the byte; all others as base64 ([`Part`]).
//! - The stamp of a reply (the store's time and epoch) travels in the headers [`NOW_HEADER`] and
//!   [`EPOCH_HEADER`], so that bodies stay what people asked for.
//!
//! With the feature `openapi` the types have schemas too, for the document that the server serves.
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

mod audit;
mod bounded;
mod capabilities;
mod change;
mod claim;
mod configure;
mod dead;
mod enqueue;
mod fault;
mod health;
mod history;
mod intern;
mod item;
mod job;
mod kinds;
mod maintain;
mod new_job;
#[cfg(feature = "openapi")]
pub mod openapi;
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
mod update;

pub use audit::{Action, AuditList, AuditPage};
pub use capabilities::{Capabilities, PROTOCOL};
pub use change::{Change, ChangeBatch, Changed, Edits, JobChange};
pub use claim::{Claim, Claimed, Limited, Ready, Wait, Want};
pub use configure::{Configure, ConfigureBatch, KindPatch, Named, QueuePatch, Settings};
pub use dead::{DeadBatch, DeadFilter, DeadItem, DeadOnes, DeadReply};
pub use enqueue::{Enqueue, Enqueued, Pace, Verdict};
pub use fault::{Fault, Problem};
pub use health::{Alive, Disk, StoreHealth};
pub use history::{HistoryPage, HistoryQuery, HistoryRow};
pub use item::{Empty, Item, Items, Nothing, into_items};
pub use job::{Job, Jobs, Page};
pub use kinds::{Breaker, BreakerPolicy, BreakerWord, KindOverview, KindRules, Kinds};
pub use maintain::{Check, CheckReport, Finding, Maintain, MaintainReply, Tally};
pub use new_job::NewJob;
pub use part::{Envelope, Part, PartEdits, Parts};
pub use policy::{Backoff, Policy, Retention, Unique};
pub use query::{Get, GetOne, Lane, LanePriority, List, Order, Stats, StatsQuery, Worker, Workers};
pub use queues::{Counts, Overview, Queues};
pub use read::{read, read_query, read_reply, write, write_query};
pub use records::{LogEntry, Record, RecordAnswer, RecordBatch, RecordOp, RecordReply, Value};
pub use scale::{Scale, ScaleQuery};
pub use schedule::{
    PutSchedule, Schedule, ScheduleError, ScheduleList, SchedulePage, SchedulePatch, ScheduleView,
};
pub use series::{Point, Series, SeriesQuery};
pub use session::{Heartbeat, HeartbeatReply, Held, OpenSession, Session};
pub use settle::{Outcome, Reason, Settle, SettleItem, SettleReply, Settled};
pub use update::{Progress, Update, UpdateItem, Updated};

/// The header of every successful reply with the store's time, in milliseconds since the Unix epoch.
pub const NOW_HEADER: &str = "windlass-now";
/// The header of every successful reply with the store's epoch. When it changes, cursors are void.
pub const EPOCH_HEADER: &str = "windlass-epoch";
/// The header of a request about one running job with its lease.
pub const LEASE_HEADER: &str = "windlass-lease";
/// The header beside raw bytes with their envelope as JSON, where they are not plain.
pub const ENVELOPE_HEADER: &str = "windlass-envelope";
/// The media type of requests and replies.
pub const JSON: &str = "application/json";
/// The media type of raw bytes that are not JSON.
pub const BYTES: &str = "application/octet-stream";
/// The media type of errors (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Whether a field has its default and need not be sent.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a field whose `null` means something: `None` only where the field is missing.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
