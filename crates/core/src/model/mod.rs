//! The job model: the types that every engine, worker and client shares.

mod check;
mod dependency;
mod events;
mod history;
mod job;
mod limit;
mod nesting;
mod new_job;
mod part;
mod policy;
mod rules;
mod settings;
mod signal;
mod state;
mod step;
mod topic;

pub use check::{CHECKED, CheckRule, is_check};
pub use dependency::{Dependency, DependencyCounts, Input, InputFields, Join, OnFailure};
pub use events::{EventBounds, EventBoundsFields};
pub use history::{Attempt, AttemptEnd, AttemptFields, JobError, LogLine, Progress};
pub use job::{Counters, Finish, Header, HeaderFields, Job, Running};
pub use limit::{Limit, Rate, Rule};
pub use nesting::too_deep;
pub use new_job::{DEFAULT_QUEUE, Due, NewJob};
pub use part::{
    Codec, Envelope, EnvelopeFields, Location, Part, PartEdit, PartEdits, PartEditsFields,
    PartName, PartSet, Parts,
};
pub use policy::Policy;
pub use rules::{KindRules, PriorityRule};
pub use settings::{KindPatch, KindSettings, Order, QueuePatch, QueueSettings};
pub use signal::{Continuation, Signal, SignalWait, Wake};
pub use state::{Placement, State};
pub use step::{Step, StepKind};
pub use topic::{Subscription, SubscriptionFields};

/// The name of a queue or kind. Shared instead of copied, because thousands of jobs have the same few names.
pub type Name = std::sync::Arc<str>;
