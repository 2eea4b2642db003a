//! Changing jobs from outside, one at a time.

use super::{Client, only};
use crate::error::Result;
use crate::json;
use crate::millis::millis;
use bytes::Bytes;
use serde::Serialize;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;
use windlass_core::engine::{Change, ChangeItem, Changed, Edits};
use windlass_core::model::{Due, Part, PartEdit, Policy};
use windlass_core::{JobId, Timestamp, TypedJob};

/// Asking for what is so already is fine. A change that the job's state does not allow is refused, and the
/// error says what would be allowed.
impl Client {
    /// Calls a job off. A running one is told, and ends when its worker reports or dies.
    pub async fn cancel(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Cancel).await
    }

    /// Lets a waiting job run now.
    pub async fn promote(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Promote).await
    }

    /// Lets a waiting job run at this instant of the store's clock.
    pub async fn reschedule(&self, id: JobId, at: Timestamp) -> Result<Changed> {
        self.change(id, Change::Reschedule(Due::At(at))).await
    }

    /// Lets a waiting job run this long from now.
    pub async fn reschedule_in(&self, id: JobId, delay: Duration) -> Result<Changed> {
        self.change(id, Change::Reschedule(Due::After(millis(delay)))).await
    }

    /// Changes a job's priority; lower runs first.
    pub async fn reprioritise(&self, id: JobId, priority: i32) -> Result<Changed> {
        self.change(id, Change::Reprioritise(priority)).await
    }

    /// Sets a waiting job aside, this one only.
    pub async fn pause(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Pause).await
    }

    /// Takes a job back that was set aside.
    pub async fn resume(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Resume).await
    }

    /// Wakes a job that waits for a signal, or keeps the signal for when it does.
    pub async fn signal(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Signal).await
    }

    /// Throws an ended job away now, instead of when its retention is over.
    pub async fn discard(&self, id: JobId) -> Result<Changed> {
        self.change(id, Change::Discard).await
    }

    /// Gives a dead, cancelled or expired job another life, with counters cleared. Edit it on the way if
    /// need be, then await it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// # let id = client.job_of("send_email").await?.id;
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

/// Another life for an ended job. Await it; made by [`Client::replay`].
#[must_use = "a job is replayed when this is awaited"]
pub struct Replay {
    client: Client,
    id: JobId,
    edits: Result<Box<Edits>>,
}

impl Replay {
    /// With this job as its payload; it should be of the same kind.
    pub fn job<J: TypedJob>(self, job: &J) -> Self {
        self.payload(job)
    }

    /// With this payload, written as JSON.
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Self {
        self.edits = self.edits.and_then(|mut edits| {
            let whose = format_args!("job {}", self.id);
            edits.payload = PartEdit::Set(json::write(whose, "payload", payload)?);
            Ok(edits)
        });
        self
    }

    /// With these bytes as payload.
    pub fn payload_bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.set(|edits| edits.payload = PartEdit::Set(Part::new(bytes)))
    }

    /// From the beginning: without the checkpoint it had reached.
    pub fn start_over(self) -> Self {
        self.set(|edits| edits.state = PartEdit::Unset)
    }

    /// With this priority; lower runs first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|edits| edits.priority = Some(priority))
    }

    /// With this policy instead of its own.
    pub fn policy(self, policy: Policy) -> Self {
        self.set(|edits| edits.policy = Some(policy))
    }

    /// Confirms the replay of a kind that is registered as sensitive, by its name. A server asks for it.
    pub fn confirm(self, kind: &str) -> Self {
        self.set(|edits| edits.confirm = Some(kind.into()))
    }

    /// To run this long from now.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|edits| edits.due = Due::After(millis(delay)))
    }

    /// To run at this instant of the store's clock.
    pub fn run_at(self, at: Timestamp) -> Self {
        self.set(|edits| edits.due = Due::At(at))
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
