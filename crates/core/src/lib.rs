//! The core of Windlass: the job model, the state machine, the policies and the engine traits.
//!
//! This crate makes decisions and has no side effects: no I/O, no async runtime, no SQL, no HTTP. Engines
//! store jobs, workers run them, and both ask this crate what must happen, so that every engine decides in
//! the same way. Time and randomness are injected ([`time::Clock`], [`random::Random`]).
//!
//! Where to start:
//! - [`model`]: jobs, their parts and their policies;
//! - [`machine`]: `(state, event, facts) → (next, effects)`, the specification of every engine;
//! - [`policy`]: retry, crashes, uniqueness, rank, schedules, breaker, retention;
//! - [`engine`]: the verbs, as three object-safe traits;
//! - [`limits`]: the bounds of everything.
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
mod growing;
pub mod id;
mod id_prefix;
pub mod limits;
pub mod machine;
pub mod model;
mod name;
pub mod policy;
pub mod random;
pub mod sync;
pub mod time;
mod typed;

pub use error::{Error, Result, within_range, within_time};
pub use id::JobId;
pub use id_prefix::IdPrefix;
pub use name::{check_name, check_text};
pub use time::Timestamp;
pub use typed::TypedJob;
