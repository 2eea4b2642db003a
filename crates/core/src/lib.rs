//! The heart of Windlass: the job model, the state machine, the policies and the engine traits.
//!
//! This crate decides; it does nothing. There is no I/O here, no async runtime, no SQL and no HTTP:
//! engines store, workers run, and both ask this crate what must happen, so that every engine
//! decides alike. Time and randomness are injected ([`time::Clock`], [`random::Random`]).
//!
//! Where to start:
//! - [`model`]: what a job is, its parts and its policy;
//! - [`machine`]: `(state, event, facts) → (next, effects)`, the specification of every engine;
//! - [`policy`]: retry, crashes, uniqueness, rank, schedules, breaker, retention;
//! - [`engine`]: the verbs, as three object-safe traits;
//! - [`limits`]: the bound of everything that has one.
//!
//! ```
//! use windlass_core::model::NewJob;
//! use windlass_core::time::Timestamp;
//!
//! let job = NewJob::new("send_email").queue("mail").json(r#"{"to":"ada@example.org"}"#);
//! let now = Timestamp::from_millis(1_800_000_000_000);
//! job.check(now, windlass_core::limits::PAYLOAD_BYTES_DEFAULT).unwrap();
//!
//! let error = NewJob::new("send email").check(now, 1024).unwrap_err();
//! assert_eq!(error.field(), Some("kind"));
//! ```

pub mod engine;
mod error;
pub mod id;
pub mod limits;
pub mod machine;
pub mod model;
mod name;
pub mod policy;
pub mod random;
pub mod time;
mod typed;

pub use error::{Error, Result, within_range};
pub use id::JobId;
pub use name::{check_name, check_text};
pub use time::Timestamp;
pub use typed::TypedJob;
