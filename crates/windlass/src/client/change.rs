//! Changes to single jobs: cancel, promote, reschedule, replay and so on.

use super::{Client, only};
use crate::error::Result;
use crate::json;
use bytes::Bytes;
use serde::Serialize;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;
use windlass_core::engine::{Change, ChangeItem, Changed, Edits};
use windlass_core::model::{Due, Name, Part, PartEdit, Policy, Signal};
use windlass_core::time::millis;
use windlass_core::{JobId, Timestamp, TypedJob};

/// Changes to one job. A change that is already in effect succeeds. A change that the job's state does not
/// allow is refused with an error that lists the allowed changes.
impl Client {
    /// Cancels a job. A running job's handler is asked to stop; the job ends when its worker reports or dies.
    pub async fn cancel(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Cancel).await
    }

    /// Makes a waiting job run now.
    pub async fn promote(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Promote).await
    }

    /// Makes a waiting job run at this time of the store's clock.
    pub async fn reschedule(&self, id: JobId, at: impl Into<Timestamp>) -> Result<Changed> {
        self.change(id, Change::Reschedule(Due::At(at.into()))).await
    }

    /// Makes a waiting job run after this delay.
    pub async fn reschedule_in(&self, id: JobId, delay: Duration) -> Result<Changed> {
        self.change(id, Change::Reschedule(Due::After(millis(delay)))).await
    }

    /// Changes a job's priority; lower runs first.
    pub async fn reprioritise(&self, id: JobId, priority: i32) -> Result<Changed> {
        self.change(id, Change::Reprioritise(priority)).await
    }

    /// Moves a waiting job to another queue, which must have room. It enters at the tail, and keeps its id, parts,
    /// counters, history and keys.
    pub async fn move_to(&self, id: JobId, queue: impl Into<Name>) -> Result<Changed> {
        self.change(id, Change::Move(queue.into())).await
    }

    /// Ends a waiting job as dead. It can be replayed from there.
    pub async fn kill(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Kill).await
    }

    /// Pauses this one waiting job.
    pub async fn pause(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Pause).await
    }

    /// Resumes a paused job.
    pub async fn resume(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Resume).await
    }

    /// Sends a signal to a job: by its name, or with a payload and an id. If the job does not wait for it yet, the signal
    /// is kept until it does.
    ///
    /// ```
    /// use windlass::Signal;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// # let id = client.enqueue(windlass::job_of("order")).await?.id();
    /// client.signal(id, "paid").await?;
    /// client.signal(id, Signal::new("approved").json(r#"{"by": "eve"}"#).id("approval-17")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn signal(&self, id: JobId, signal: impl Into<Signal>) -> Result<Changed> {
        self.change(id, Change::Signal(Box::new(signal.into()))).await
    }

    /// Deletes an ended job now, before its retention is over.
    pub async fn discard(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Discard).await
    }

    /// Replays a dead, cancelled or expired job: runs it again with its counters reset. Edit the returned
    /// builder if needed, then await it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// # let id = client.enqueue(windlass::job_of("send_email")).await?.id();
    /// # client.cancel(id).await?;
    /// client.replay(id).payload(&serde_json::json!({ "to": "ada@example.org" })).priority(-1).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn replay(&self, id: JobId) -> Replay {
        Replay { client: self.clone(), id, edits: Ok(Box::default()) }
    }

    async fn change(&self, id: JobId, change: Change) -> Result<Changed> {
        only(self.engine().change(vec![ChangeItem::new(id, change)]).await?.value)
    }
}

/// A builder for a replay. Await it to apply it; created by [`Client::replay`].
#[must_use = "a job is replayed when this is awaited"]
pub struct Replay {
    client: Client,
    id: JobId,
    edits: Result<Box<Edits>>,
}

impl Replay {
    /// Replaces the payload by this job, which should be of the same kind.
    pub fn job<J: TypedJob>(self, job: &J) -> Self {
        self.payload(job)
    }

    /// Replaces the payload, serialized as JSON.
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Self {
        self.edits = self.edits.and_then(|mut edits| {
            let whose = format_args!("job {}", self.id);
            edits.payload = PartEdit::Set(json::write(whose, "payload", payload)?);
            Ok(edits)
        });
        self
    }

    /// Replaces the payload by these bytes.
    pub fn payload_bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.set(|edits| edits.payload = PartEdit::Set(Part::new(bytes)))
    }

    /// Drops the last checkpoint, so that the job starts from the beginning.
    pub fn start_over(self) -> Self {
        self.set(|edits| edits.checkpoint = PartEdit::Unset)
    }

    /// Sets the priority; lower runs first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|edits| edits.priority = Some(priority))
    }

    /// Replaces the job's policy.
    pub fn policy(self, policy: Policy) -> Self {
        self.set(|edits| edits.policy = Some(policy))
    }

    /// Runs the job in another queue.
    pub fn queue(self, queue: impl Into<Name>) -> Self {
        self.set(|edits| edits.queue = Some(queue.into()))
    }

    /// Confirms the replay of a kind registered as sensitive, by naming the kind. Servers require this.
    pub fn confirm(self, kind: &str) -> Self {
        self.set(|edits| edits.confirm = Some(kind.into()))
    }

    /// Runs the job after this delay.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|edits| edits.due = Due::After(millis(delay)))
    }

    /// Runs the job at this time of the store's clock.
    pub fn run_at(self, at: impl Into<Timestamp>) -> Self {
        self.set(|edits| edits.due = Due::At(at.into()))
    }

    fn set(mut self, set: impl FnOnce(&mut Edits)) -> Self {
        if let Ok(edits) = &mut self.edits {
            set(edits);
        }
        self
    }
}

impl IntoFuture for Replay {
    type Output = Result<Changed>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.change(self.id, Change::Replay(self.edits?)).await })
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay({})", self.id)
    }
}
