//! The background services that maintain a store, and their leader election with fencing. They depend on the
//! engine traits, not on concrete engines, workers or HTTP.
//!
//! Any worker or server hosts them. Among all processes on a store one leads and does the work. When it dies,
//! another takes over after [`ServiceOptions::lead_ttl`]; when it stops gracefully, within a second.
//!
//! | service | task | interval | limit per step |
//! |---|---|---|---|
//! | promote | makes due jobs available | 250 ms, or when the next is due | 1,000 jobs |
//! | reclaim | reclaims jobs of lost sessions | 2 s, or when the next session expires | 1,000 jobs |
//! | expire | expires jobs that waited longer than allowed | 1 min | 1,000 jobs |
//! | retain | removes jobs whose retention is over | 5 min | 1,000 jobs |
//! | compact | frees storage space | 2 min, or when the engine asks | the engine's equivalent of 1,000 items |
//! | trim | keeps dead jobs within the byte limit of their queue | 5 min | 1,000 dead jobs |
//! | schedule | fires recurring jobs ([`Schedules`]) | 1 s, or when the next is due | 100 schedules |
//! | breaker | holds back kinds that keep failing ([`Breakers`]) | 1 s, or when a probe is due | 1,000 reports |
//! | bulk | continues changes of many jobs ([`Bulks`]) | 1 s | 500 jobs |
//! | sample | samples queue metrics ([`Samples`]) | 1 s | 1,000 lanes |
//!
//! ```
//! use std::sync::Arc;
//! use windlass_core::engine::{Enqueue, Jobs, Wait};
//! use windlass_core::model::{Due, NewJob};
//! use windlass_memory::MemoryEngine;
//! use windlass_services::Services;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let engine = MemoryEngine::new();
//! let services = Services::builder(Arc::new(engine.clone())).start()?;
//!
//! let soon = NewJob::new("hello").due(Due::After(20));
//! engine.enqueue(Enqueue::each([soon])).await?;
//! let ready = engine.wait(Wait::new(["default"], 10_000)).await?;
//! assert!(ready.value, "promoted when its time came");
//!
//! services.stop().await;
//! # Ok::<(), windlass_core::Error>(())
//! # }).unwrap();
//! ```

// A match that lists the known variants shows the next one where it must be decided.
#![deny(clippy::wildcard_enum_match_arm)]

mod audit;
mod board;
mod breaker;
mod bulk;
mod checks;
mod explain;
mod flows;
mod handle;
mod host;
mod host_name;
mod keys;
mod kinds;
mod lead;
mod logs;
mod options;
mod records;
mod reserved;
mod runner;
mod sample;
mod scale;
mod schedule;
mod service;
mod services;
mod trim;
mod upkeep;

pub use audit::{Action, Audit, AuditPage, AuditQuery, AuditRow, Audited};
pub use board::{ServiceName, ServiceStatus, Status};
pub use breaker::{Breakers, Outcomes};
pub use bulk::{Bulk, BulkChange, BulkState, Bulks, NewBulk};
pub use checks::Checks;
pub use explain::explain;
pub use flows::{cancel_flow, flow_jobs, replay_flow};
pub use handle::ServicesHandle;
pub use host::{Host, HostGuard};
pub use host_name::host_name;
pub use keys::{
    Denied, Grant, Grants, Key, KeyRing, Keys, NewKey, Principal, Secret, is_key_record,
};
pub use kinds::{Kinds, Registered, unconfirmed};
pub use lead::Leader;
pub use options::{
    HISTORY_MS, INTERVAL_MS, LEAD_TTL_MS, PROMPT_INTERVAL_MS, Pace, SAMPLE_INTERVAL_MS,
    ServiceOptions, Upkeep,
};
pub use sample::{Flow, Flows, Gauge, QueueSample, Resolution, Sample, SampleQuery, Samples};
pub use sample::{LANES_LABELLED_MAX, LabelledLanes, LaneGauges, LaneLabels};
pub use scale::{Scale, ScaleQuery};
pub use schedule::{ScheduleError, SchedulePage, ScheduleView, Schedules};
pub use services::{Services, ServicesBuilder};
