//! The worker runtime of Windlass: claim, run, settle.
//!
//! A [`Worker`] claims jobs from an engine and runs them with plain functions. It keeps its leases alive
//! while they run, stops them when required, and reports their outcomes: a claimed job completes, fails
//! visibly, or is released to other workers.
//!
//! - Handlers are `async fn(payload, extractors…) -> Result<R, E>` ([`Handler`]) or plain functions
//!   that may block ([`BlockingHandler`]).
//! - A handler may take several jobs of one kind in one call ([`BatchHandler`]).
#![cfg_attr(
    all(feature = "process", unix),
    doc = "- Commands of any language are handlers, too, each job in processes of its own ([`process`])."
)]
//! - [`Ctx`] is the context of a handler: reads the job, reports progress, stores checkpoints.
//! - [`Stop`] is the reason why an attempt ends without completing.
//! - [`Middleware`] runs around every handler.
//! - [`WorkerHandle`] observes and drains a running worker.
//!
//! This crate depends on the engine traits, not on any engine.

mod attempt;
mod batch;
mod blocking;
mod builder;
mod ctx;
mod draft;
mod error;
mod extract;
mod floors;
mod handler;
mod meters;
mod middleware;
mod options;
mod outage;
mod pace;
mod panics;
#[cfg(all(feature = "process", unix))]
pub mod process;
mod room;
mod running;
mod runtime;
mod shared;
mod signal;
mod starter;
mod stats;
mod steps;
mod stop;
mod trace;
mod turns;
mod worker;

pub use batch::{BatchHandler, BatchReturn, Batched};
pub use builder::Builder;
pub use ctx::Ctx;
pub use error::BuildError;
pub use extract::{Data, Extension, FromContext, FromJob, Json, Kinded, Need, Raw, SameForAll};
pub use handler::{BlockingHandler, Handler};
pub use middleware::{Middleware, Next};
pub use runtime::Stopped;
pub use signal::Cause;
pub use stats::{Health, Stats};
pub use stop::{BoxError, Done, Ended, Return, Stop, code};
pub use worker::{Until, Worker, WorkerHandle};

/// Defaults and bounds of a worker's options.
pub mod defaults {
    pub use crate::options::{
        BATCH_LINGER_MAX, BLOCKING_THREADS_DEFAULT, BLOCKING_THREADS_MAX, CALL_TIMEOUT_DEFAULT,
        CANCEL_GRACE_DEFAULT, CONCURRENCY_DEFAULT, CONCURRENCY_MAX, GRACE_DEFAULT,
        STOP_GRACE_DEFAULT, TIME_MAX, TIMEOUT_DEFAULT, UNHEALTHY_AFTER_DEFAULT,
    };
}
