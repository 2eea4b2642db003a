//! Proves engines.
//!
//! - [`conformance!`] makes one named test per check of the contract for an engine of yours;
//! - `model!` drives random sequences of every verb against an interpreter of core's transition table
//!   (feature `model`, on by default);
//! - [`histories!`] lets clients lose replies, stall and die, and [`history`] judges what they saw.
//!
//! The kit knows only the traits of `windlass-core`. It travels in time through the engine's test
//! clock ([`TimeTravel`]), so that nothing in it waits for a clock on the wall.
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

pub mod conformance;
pub mod history;
#[cfg(feature = "model")]
pub mod model;
mod rig;
mod subject;

pub use conformance::{Check, SUITE, Topic, run, verdict};
pub use rig::Rig;
pub use subject::{START, Subject, TimeTravel};
