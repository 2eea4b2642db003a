//! Conformance tests for engines.
//!
//! - `conformance!` creates one named test per promise of the contract for your engine;
//! - `model!` runs random sequences of every verb against an interpreter of core's transition table;
//! - `differential!` runs the same sequences on an engine with its fast paths on, off and mixed, and compares all of it;
//! - [`histories!`] runs clients that lose replies, stall and die, and [`history`] checks what they observed.
//!
//! All but [`history`] belong to the feature `suite`, which is on by default.
//!
//! The kit depends only on the traits of `windlass-core`. It moves the engine's test clock ([`TimeTravel`]),
//! so that no test waits for real time.
//!
//! ```ignore
//! // tests/conformance.rs of an engine
//! async fn fresh() -> windlass_kit::Subject {
//!     let clock = Arc::new(ManualClock::at(windlass_kit::START));
//!     let engine = MyEngine::open_temporary(clock.clone()).await;
//!     windlass_kit::Subject::new(Arc::new(engine), clock)
//! }
//! windlass_kit::conformance!(fresh);
//! ```

#[cfg(feature = "suite")]
pub mod conformance;
pub mod history;
#[cfg(feature = "suite")]
pub mod model;
#[cfg(feature = "suite")]
pub mod payloads;
#[cfg(feature = "suite")]
mod rig;
mod steady;
mod subject;

#[cfg(feature = "suite")]
pub use conformance::{Check, SUITE, Topic, run, verdict};
#[cfg(feature = "suite")]
pub use rig::Rig;
pub use steady::SteadyRandom;
pub use subject::{Inspect, START, Subject, TimeTravel};
