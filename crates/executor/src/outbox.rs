//! The storage of the outbox, for stores whose largest atomic step is a queue.
//!
//! A step changes the rows of one queue only. What it means for other queues it appends to the outbox of its own queue, as
//! messages; a delivery applies them in a step of the other queue, and then removes them in a step of the first. See ADR 006.

use crate::dependencies::End;
use windlass_core::model::{Name, NewJob, State};
use windlass_core::{JobId, Result};

/// Where a job is, as far as a step of another queue can know: it may be in another state by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its queue.
    pub queue: Name,
    /// Its state.
    pub state: State,
}

/// The way of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The queue whose step has appended it.
    pub from: Name,
    /// The queue that it is for.
    pub to: Name,
}

/// What a step of one queue changes in another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Stores a follow-up.
    Store(Box<Deferred>),
    /// The queue has jobs that run after these.
    Follow(Vec<JobId>),
    /// A job has ended; resolves the dependencies on it that are open.
    Resolve(End),
    /// Changes the number of dependents that read the result of an ended job from it.
    Readers {
        /// The job that has ended.
        upstream: JobId,
        /// The change.
        change: i32,
    },
}

/// A follow-up that is stored by another queue than the one whose step has created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferred {
    /// The job, with its id and the time at which it is due.
    pub job: NewJob,
    /// Whether jobs of the queue that creates it depend on it: it is followed from the start.
    pub followed: bool,
    /// Whether other jobs depend on it, so that it must be stored even if it is a duplicate.
    pub needed: bool,
    /// The queues of the jobs that it runs after.
    pub upstream: Vec<(JobId, Name)>,
}

/// A message in an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Its number. Numbers rise in each outbox, and no number is used twice.
    pub number: u64,
    /// The job of the outbox's queue that it is about: that job stays until the message is delivered.
    pub about: JobId,
    /// Messages of the same outbox that must be delivered before.
    pub behind: Vec<u64>,
    /// The message.
    pub message: Message,
}

/// The outboxes of a store, and the boundaries of its steps.
///
/// A store whose atomicity is the queue returns it from [`Rows::outbox`](crate::Rows::outbox), and keeps everything below in
/// the queue that is named first: `post`, `remove_upto`, `holds`, `undelivered` and `last_number` concern the outbox of the step's
/// queue, `applied` what that queue has received.
pub trait Outbox {
    /// Begins a step of a queue: until it [ends](Self::leave), only rows of this queue are read and changed. Steps of one
    /// queue that follow each other may be committed together.
    fn enter(&mut self, queue: &Name) -> Result<()>;

    /// Ends the step.
    fn leave(&mut self) -> Result<()>;

    /// Where a job is. Not part of the step: its queue is reliable, its state is a hint.
    fn locate(&self, id: JobId) -> Result<Option<Located>>;

    /// Appends a message to the outbox of the step's queue.
    fn post(&mut self, to: &Name, posted: Posted) -> Result<()>;

    /// The highest number in the outbox of the step's queue, or a higher one that was in it; 0 if there was none.
    fn last_number(&self) -> Result<u64>;

    /// The number of messages in the outbox of the step's queue.
    fn undelivered(&self) -> Result<u64>;

    /// Whether the outbox of the step's queue has a message about this job. Such a job is in no list of retention.
    fn holds(&self, job: JobId) -> Result<bool>;

    /// Removes the messages for a queue up to this number from the outbox of the step's queue.
    fn remove_upto(&mut self, to: &Name, upto: u64) -> Result<()>;

    /// The number of the last message from a queue that the step's queue has applied; 0 if there is none.
    fn applied(&self, from: &Name) -> Result<u64>;

    /// Records the number of the last message from a queue that the step's queue has applied.
    fn set_applied(&mut self, from: &Name, upto: u64) -> Result<()>;

    /// The queues other than its own that follow a job of the step's queue, at most `limit`.
    fn followers(&self, upstream: JobId, limit: usize) -> Result<Vec<Name>>;

    /// Adds or removes a queue that follows a job of the step's queue.
    fn set_follower(&mut self, upstream: JobId, queue: &Name, follows: bool) -> Result<()>;

    /// Up to `limit` routes with messages, of all queues that can be reached. Outside of steps.
    fn routes(&self, limit: usize) -> Result<Vec<Route>>;

    /// The first `limit` messages of a route, by number. Outside of steps.
    fn first(&self, route: &Route, limit: usize) -> Result<Vec<Posted>>;

    /// Whether this message is still in the outbox of a queue. Outside of steps.
    fn is_posted(&self, from: &Name, number: u64) -> Result<bool>;
}
