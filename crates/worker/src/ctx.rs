//! What a handler knows of its job and can say about it. Knows nothing of claims and settles: what
//! is said here is carried to the store by the runtime, or by a call of its own where it must last.

use crate::draft::Draft;
use crate::running::Running;
use crate::shared::Shared;
use crate::signal::{Cause, Causes};
use crate::trace;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Span;
use windlass_core::engine::{Update, UpdateItem, Updated};
use windlass_core::limits::{LOG_LINE_BYTES_MAX, PROGRESS_NOTE_BYTES_MAX};
use windlass_core::model::{Header, NewJob, Part, PartEdit, PartName, PartSet, Progress};
use windlass_core::{Error, JobId, Result, TypedJob};

/// The context of one attempt at a job. Cheap to clone; take it as an argument of the handler.
///
/// **What is kept when an attempt fails?** Parts that were set ([`set_state`](Self::set_state) and
/// the like), progress and log lines are kept however the attempt ends, short of a lost lease.
/// Follow-up jobs are created only if it completes, in one step with the completion.
///
/// ```
/// use windlass_worker::{Ctx, Json, Stop};
///
/// async fn import(Json(rows): Json<Vec<String>>, ctx: Ctx) -> Result<(), Stop> {
///     let done: usize = ctx.state().await?.unwrap_or(0); // where an earlier attempt got to
///     for (at, row) in rows.iter().enumerate().skip(done) {
///         if at % 1000 == 0 {
///             ctx.checkpoint(&at).await?; // durable when it returns
///         }
///         ctx.progress(at as u64, Some(rows.len() as u64), row.as_str()); // as often as you like
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Ctx(Arc<Running>);

/// Who the job is.
impl Ctx {
    pub(crate) const fn new(running: Arc<Running>) -> Self {
        Self(running)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Everything that describes the job.
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.header().id
    }

    /// Its queue.
    pub fn queue(&self) -> &str {
        &self.header().queue
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        &self.header().kind
    }

    /// Whose work it is.
    pub fn tenant(&self) -> Option<&str> {
        self.header().tenant.as_deref()
    }

    /// Its labels.
    pub fn tags(&self) -> &[String] {
        &self.header().tags
    }

    /// Which start of the job this is, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.header().counters.attempt
    }

    /// How many attempts have failed so far.
    pub fn failures(&self) -> u32 {
        self.header().counters.failures
    }

    /// How many workers have died on it since one last reported an outcome.
    pub fn crashes(&self) -> u32 {
        self.header().counters.crashes
    }

    /// Whether the job is dead if this attempt fails.
    pub fn is_last_attempt(&self) -> bool {
        self.header().counters.failure_spends(&self.header().policy)
    }

    /// The span of this attempt; handlers run inside it.
    pub fn span(&self) -> &Span {
        &self.0.span
    }

    /// The trace context (W3C `traceparent`) for whatever this attempt calls: that of the current span where
    /// traces are made (feature `otel`), or else the one that the job came with.
    pub fn trace(&self) -> Option<String> {
        trace::here(self.span()).or_else(|| self.header().trace.clone())
    }

    /// The payload as it was stored.
    pub fn payload(&self) -> Option<&Part> {
        self.0.parts.payload.as_ref()
    }
}

/// Time and cancellation.
impl Ctx {
    /// When the handler must be done.
    pub fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    /// How long it may still run.
    pub fn remaining(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    /// Whether the handler should stop, and why.
    pub fn is_cancelled(&self) -> Option<Cause> {
        self.0.signal.causes().gravest()
    }

    /// Waits until the handler should stop, and says why. It then has a short while to clean up; an
    /// async handler that ran out of time or lost its lease has none.
    pub async fn cancelled(&self) -> Cause {
        loop {
            let causes = self.0.signal.changed(Causes::default()).await;
            if let Some(cause) = causes.gravest() {
                return cause;
            }
        }
    }

    /// Whether the worker is shutting down. Handlers may go on for its grace time; a long one does
    /// well to [`checkpoint`](Self::checkpoint) and return [`Stop::release`](crate::Stop::release).
    pub fn is_draining(&self) -> bool {
        self.shared().is_draining()
    }

    /// Waits until the worker is shutting down.
    pub async fn draining(&self) {
        let mut orders = self.shared().order.subscribe();
        // The sender lives in `self`: it cannot close while we wait.
        let _ = orders.wait_for(|order| *order >= crate::shared::Order::Drain).await;
    }
}

/// Saying how it goes.
impl Ctx {
    /// Notes how far the job has come. Costs next to nothing: the latest value is sent along with
    /// those of other jobs a few times a second, and before the outcome.
    pub fn progress(&self, done: u64, total: Option<u64>, note: impl Into<String>) {
        let mut note = note.into();
        cut(&mut note, PROGRESS_NOTE_BYTES_MAX);
        self.tell(|draft| draft.note_progress(Progress { done, total, note }));
    }

    /// Adds a line to the job's log, sent like progress. The log keeps the latest hundred lines.
    pub fn log(&self, line: impl Into<String>) {
        let mut line = line.into();
        cut(&mut line, LOG_LINE_BYTES_MAX);
        self.tell(|draft| draft.note_line(line));
    }

    /// Changes the draft, and has the runtime come for it if it was clean.
    fn tell(&self, change: impl FnOnce(&mut Draft) -> bool) {
        if self.0.draft(change) {
            self.shared().inbox.announce(self.0.clone());
        }
    }
}

/// State, metadata, blob.
impl Ctx {
    /// The state that an earlier attempt or [`set_state`](Self::set_state) left, read from JSON.
    pub async fn state<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(part) = self.part(PartName::State).await? else { return Ok(None) };
        let read = serde_json::from_slice(&part.bytes);
        read.map(Some).map_err(|error| {
            let expected = format!("it is not the JSON of {}: {error}", std::any::type_name::<T>());
            Error::invalid("state", format_args!("{} bytes", part.bytes.len()), expected)
        })
    }

    /// A part of the job, with the changes of this attempt. Fetched from the store on demand.
    pub async fn part(&self, name: PartName) -> Result<Option<Part>> {
        if let Some(part) = self.0.drafted(|draft| draft.part(name)).flatten() {
            return Ok(part);
        }
        if name == PartName::Payload || self.shared().options.parts.has(name) {
            return Ok(self.0.parts.get(name).cloned());
        }
        let fetched = self.update(|item| item.fetch(PartSet::NONE.with(name))).await?;
        let part = fetched.parts.get(name).cloned();
        self.0.draft(|draft| draft.know(name, part.clone()));
        Ok(part)
    }

    /// Stores the state now, as JSON: when this returns, an attempt after a crash will find it.
    ///
    /// While the store does not answer, this waits for it, until the handler is stopped.
    pub async fn checkpoint(&self, state: &impl Serialize) -> Result<()> {
        self.checkpoint_bytes(json("state", state)?).await
    }

    /// Stores the state now, as these bytes.
    pub async fn checkpoint_bytes(&self, state: impl Into<Bytes>) -> Result<()> {
        let part = Part::new(state);
        // In the draft too: should this fail or be dropped, the state goes with the outcome.
        self.0.draft(|draft| draft.edit(PartName::State, PartEdit::Set(part.clone())));
        self.update(|item| item.state(PartEdit::Set(part.clone()))).await?;
        self.0.draft(|draft| draft.state_stored(part));
        Ok(())
    }

    /// Sets the state, as JSON, with the outcome.
    pub fn set_state(&self, state: &impl Serialize) -> Result<()> {
        let bytes = json("state", state)?;
        self.set(PartName::State, PartEdit::Set(Part::new(bytes)))
    }

    /// Sets the metadata, as JSON, with the outcome.
    pub fn set_metadata(&self, metadata: &impl Serialize) -> Result<()> {
        let bytes = json("metadata", metadata)?;
        self.set(PartName::Metadata, PartEdit::Set(Part::new(bytes)))
    }

    /// Sets the blob with the outcome.
    pub fn set_blob(&self, blob: impl Into<Bytes>) -> Result<()> {
        self.set(PartName::Blob, PartEdit::Set(Part::new(blob)))
    }

    /// Sets or removes the state, the metadata or the blob with the outcome.
    pub fn set(&self, name: PartName, edit: PartEdit) -> Result<()> {
        if name == PartName::Payload {
            return Err(Error::invalid("payload", "…", "it is written once, with the job"));
        }
        // Checked here, where the handler can still do something about it.
        let mut item = UpdateItem::new(self.id(), self.0.lease.clone());
        match name {
            PartName::State => item.parts.state = edit.clone(),
            PartName::Blob => item.parts.blob = edit.clone(),
            PartName::Metadata | PartName::Payload => item.parts.metadata = edit.clone(),
        }
        item.check()?;
        self.0.draft(|draft| draft.edit(name, edit));
        Ok(())
    }

    /// Gives the job this priority from the outcome on.
    pub fn set_priority(&self, priority: i32) {
        self.0.draft(|draft| draft.set_priority(priority));
    }

    /// One update of this job, repeated until the store answers or the handler is stopped.
    async fn update(&self, change: impl Fn(UpdateItem) -> UpdateItem) -> Result<Updated> {
        let mut pause = crate::outage::Pause::default();
        loop {
            let item = change(UpdateItem::new(self.id(), self.0.lease.clone()));
            let request = self.shared().engine.update(Update::new([item]));
            let answer = match tokio::time::timeout(self.shared().options.call_timeout, request)
                .await
            {
                Ok(answer) => answer.and_then(|mut stamped| {
                    let unanswered = || crate::outage::unanswered("an update without an answer");
                    stamped.value.pop().unwrap_or_else(|| Err(unanswered()))
                }),
                Err(_) => Err(crate::outage::unanswered("an update took too long")),
            };
            match answer {
                Err(error) if crate::outage::is_transient(&error) => {
                    tokio::time::sleep(pause.next(self.shared())).await;
                }
                Err(error) => {
                    if matches!(error, Error::LeaseLost { .. }) {
                        self.0.signal.tell(Cause::LeaseLost);
                    }
                    return Err(error);
                }
                Ok(updated) => {
                    if updated.cancel_requested {
                        self.0.signal.tell(Cause::Operator);
                    }
                    return Ok(updated);
                }
            }
        }
    }
}

/// Jobs that follow, and values for the handler.
impl Ctx {
    /// Has this job created when this one completes, in the same atomic step: both or neither. It
    /// names this job as its parent. An attempt that does not complete creates nothing.
    pub fn follow_up(&self, job: impl Into<NewJob>) -> Result<()> {
        let mut job = job.into();
        // Without this it has the trace of its parent; with it, it shows in that trace where it comes from.
        job.trace = job.trace.or_else(|| trace::here(self.span()));
        let payload_bytes_max = self.shared().engine.capabilities().payload_bytes_max;
        // The store checks again with its own clock; here the handler learns which line was wrong.
        let ran_ms = u64::try_from(self.0.began().elapsed().as_millis()).unwrap_or(u64::MAX);
        job.check(self.0.claimed_at.plus(ran_ms), payload_bytes_max)?;
        self.0.draft(|draft| draft.follow_up(job))
    }

    /// The same with a typed job, on the queue and with the policy of its type.
    pub fn follow_up_with<T: TypedJob>(&self, job: &T) -> Result<()> {
        self.follow_up(T::template().payload(json("payload", job)?))
    }

    /// Leaves a value for the handler, which takes it as [`Extension<T>`](crate::Extension).
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        self.0.draft(|draft| draft.extensions.put(value));
    }

    /// A value that was left here.
    pub fn extension<T: Clone + 'static>(&self) -> Option<T> {
        self.0.drafted(|draft| draft.extensions.get()).flatten()
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header();
        write!(f, "Ctx({} {}, attempt {})", header.kind, header.id, header.counters.attempt)
    }
}

fn json(field: &'static str, value: &impl Serialize) -> Result<Vec<u8>> {
    let written = serde_json::to_vec(value);
    written.map_err(|error| {
        Error::invalid(field, "…", format!("it cannot be written as JSON: {error}"))
    })
}

/// Cuts a text for people on a character boundary: refusing it would help nobody.
fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
}
