//! What a job is: the words every engine, worker and client shares.

mod history;
mod job;
mod nesting;
mod new_job;
mod part;
mod policy;
mod rules;
mod settings;
mod state;

pub use history::{Attempt, AttemptEnd, JobError, LogLine, Progress};
pub use job::{Counters, Finish, Header, Job};
pub use nesting::too_deep;
pub use new_job::{DEFAULT_QUEUE, Due, NewJob};
pub use part::{Codec, Envelope, Location, Part, PartEdit, PartEdits, PartName, PartSet, Parts};
pub use policy::Policy;
pub use rules::KindRules;
pub use settings::{KindPatch, KindSettings, Order, QueuePatch, QueueSettings};
pub use state::State;

/// A queue or kind name. Shared rather than copied: thousands of jobs carry the same few.
pub type Name = std::sync::Arc<str>;
