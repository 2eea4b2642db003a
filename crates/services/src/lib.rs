//! The services that keep a store in order, and their fenced leadership. They know the engine traits
//! and nothing of concrete engines, workers or HTTP.
//!
//! Any worker or server hosts them. Among all processes on a store one leads and does the work; when
//! it dies, another takes over after [`ServiceOptions::lead_ttl_ms`], and when it stops in good order,
//! within a second.
//!
//! | service | does | every | a step touches |
//! |---|---|---|---|
//! | promote | lets due jobs in | 250 ms, or when the next is due | 1,000 jobs |
//! | reclaim | takes back what lost sessions held | 2 s, or when the next runs out | 1,000 jobs |
//! | expire | ends what waited longer than it may | 1 min | 1,000 jobs |
//! | retain | removes what is past its retention | 5 min | 1,000 jobs |
//! | compact | gives space back | 2 min, or when the engine asks | what the engine makes of 1,000 items |
//! | trim | keeps dead letters within the bytes of their queue | 5 min | 1,000 dead letters |
//! | schedule | fires recurring jobs ([`Schedules`]) | 1 s, or when the next is due | 100 schedules |
//! | breaker | holds kinds back that keep failing ([`Breakers`]) | 1 s, or when a probe is due | 1,000 reports |
//! | sample | measures queues ([`Samples`]) | 1 s | 1,000 lanes |
//!
//! ```
//! use std::sync::Arc;
//! use windlass_core::engine::{Enqueue, Hot, Wait};
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

mod audit;
mod board;
mod breaker;
mod handle;
mod history;
mod host;
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
pub use handle::ServicesHandle;
pub use history::{History, HistoryPage, HistoryPlace, HistoryRow};
pub use host::{Guest, Host};
pub use keys::{
    Denied, Grant, Grants, Key, KeyRing, Keys, NewKey, Principal, Secret, is_key_record,
};
pub use kinds::{Kinds, Registered, unconfirmed};
pub use lead::Leader;
pub use options::{
    INTERVAL_MS, LEAD_TTL_MS, PROMPT_INTERVAL_MS, Pace, SAMPLE_INTERVAL_MS, ServiceOptions, Upkeep,
};
pub use sample::{Flow, Flows, Gauge, QueueSample, Resolution, Sample, SampleQuery, Samples};
pub use sample::{LANES_LABELLED_MAX, LabelledLanes, LaneGauges, LaneLabels};
pub use scale::{Scale, ScaleQuery};
pub use schedule::{ScheduleError, SchedulePage, ScheduleView, Schedules};
pub use services::{Services, ServicesBuilder};
