//! The context of a handler: reads the job and reports about it. The runtime sends most reports to the store;
//! reports that must be durable immediately make their own call.

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
use windlass_core::engine::{
    Capability, Get, Hold, Lease, Outcome, SettleItem, Update, UpdateItem, Updated,
};
use windlass_core::limits::{LOG_LINE_BYTES_MAX, PROGRESS_NOTE_BYTES_MAX};
use windlass_core::model::{
    Header, Input, Join, Name, NewJob, Part, PartEdit, PartName, PartSet, Progress, Wake,
};
use windlass_core::{Error, JobId, Result, TypedJob, check_name};

/// The context of one attempt at a job. Cheap to clone; take it as an argument of the handler.
///
/// **What is kept when an attempt fails?** Changed parts ([`set_checkpoint`](Self::set_checkpoint) and the like),
/// progress and log lines are kept however the attempt ends, unless its lease is lost. Follow-up jobs are
/// created only if the attempt completes, in one atomic step with the completion.
///
/// ```
/// use windlass_worker::{Ctx, Json, Stop};
///
/// async fn import(Json(rows): Json<Vec<String>>, ctx: Ctx) -> Result<(), Stop> {
///     let done: usize = ctx.checkpoint().await?.unwrap_or(0); // where an earlier attempt got to
///     for (at, row) in rows.iter().enumerate().skip(done) {
///         if at % 1000 == 0 {
///             ctx.save_checkpoint(&at).await?; // durable when it returns
///         }
///         ctx.set_progress(at as u64, Some(rows.len() as u64), row.as_str()); // as often as you like
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Ctx(Arc<Running>);

/// Identity of the job.
impl Ctx {
    pub(crate) const fn new(running: Arc<Running>) -> Self {
        Self(running)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    pub(crate) const fn running(&self) -> &Arc<Running> {
        &self.0
    }

    /// The jobs that this one runs after, in the order of its definition: how each ended, and its result. Reads the job;
    /// through a server, that requires the permission `view`.
    ///
    /// ```
    /// use windlass_worker::{Ctx, Stop};
    ///
    /// async fn collect(ctx: Ctx) -> Result<(), Stop> {
    ///     for input in ctx.inputs().await? {
    ///         println!("{} ended as {:?}: {:?}", input.job, input.outcome, input.result);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn inputs(&self) -> Result<Vec<Input>> {
        let id = self.id();
        let found = self.shared().engine.get(Get::new([id])).await?.value.pop().flatten();
        Ok(found.ok_or(Error::NotFound { id })?.inputs)
    }

    /// What ended the last wait of the job: a signal, or the end of its time; `None` if it has not waited. The same for
    /// every attempt until the job waits again. Fetched from the store.
    ///
    /// ```
    /// use windlass_core::model::{SignalWait, Wake};
    /// use windlass_worker::{Ctx, Stop};
    ///
    /// async fn order(ctx: Ctx) -> Result<&'static str, Stop> {
    ///     match ctx.wake().await? {
    ///         None => Err(Stop::wait_for(SignalWait::for_signals(["paid"]).timeout_ms(86_400_000))),
    ///         Some(Wake::Signal(_)) => Ok("shipped"),
    ///         Some(_) => Err(Stop::cancel("not paid within a day")),
    ///     }
    /// }
    /// ```
    pub async fn wake(&self) -> Result<Option<Wake>> {
        if self.attempt() == 1 {
            return Ok(None);
        }
        let updated = self.update(UpdateItem::recall).await?;
        Ok(updated.continuation.and_then(|kept| kept.wake))
    }

    /// The header of the job: all its fields except the parts.
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

    /// The tenant that the job belongs to.
    pub fn tenant(&self) -> Option<&str> {
        self.header().tenant.as_deref()
    }

    /// The tags of the job.
    pub fn tags(&self) -> &[String] {
        &self.header().tags
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.header().counters.attempt
    }

    /// Number of failed attempts so far.
    pub fn failures(&self) -> u32 {
        self.header().counters.failures
    }

    /// Number of lost leases since a worker last reported an outcome.
    pub fn crashes(&self) -> u32 {
        self.header().counters.crashes
    }

    /// Whether the job will be dead if this attempt fails.
    pub fn is_last_attempt(&self) -> bool {
        self.header().counters.failure_spends(&self.header().policy)
    }

    /// The span of this attempt; handlers run inside it.
    pub fn span(&self) -> &Span {
        &self.0.span
    }

    /// The trace context (W3C `traceparent`) for calls that this attempt makes: the context of the current
    /// span if traces are recorded (feature `otel`), otherwise the one stored with the job.
    pub fn trace(&self) -> Option<String> {
        trace::here(self.span()).or_else(|| self.header().trace.clone())
    }

    /// The payload as stored.
    pub fn payload(&self) -> Option<&Part> {
        self.0.parts.payload.as_ref()
    }
}

/// Time and cancellation.
impl Ctx {
    /// The time at which the handler is stopped by its timeout.
    pub fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    /// Time left until the deadline.
    pub fn remaining(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    /// Whether the handler should stop, and why.
    pub fn is_cancelled(&self) -> Option<Cause> {
        self.0.signal.causes().gravest()
    }

    /// Waits until the handler should stop, and returns the cause. The handler then has a grace time to clean
    /// up; an async handler that timed out or lost its lease has none.
    pub async fn cancelled(&self) -> Cause {
        loop {
            let causes = self.0.signal.changed(Causes::default()).await;
            if let Some(cause) = causes.gravest() {
                return cause;
            }
        }
    }

    /// Whether the worker is shutting down. Handlers may continue for its grace time; a long-running one
    /// should [save a checkpoint](Self::save_checkpoint) and return [`Stop::release`](crate::Stop::release).
    pub fn is_draining(&self) -> bool {
        self.shared().is_draining()
    }

    /// Waits until the worker is shutting down.
    pub async fn draining(&self) {
        let mut orders = self.shared().order.subscribe();
        // `self` holds the sender: the channel cannot close while this waits.
        let _ = orders.wait_for(|order| *order >= crate::shared::Order::Drain).await;
    }
}

/// Progress and log.
impl Ctx {
    /// Records the progress of the job. Cheap: the latest value is sent together with those of other jobs
    /// every 250 ms, and before the outcome.
    pub fn set_progress(&self, done: u64, total: Option<u64>, note: impl Into<String>) {
        let mut note = note.into();
        cut(&mut note, PROGRESS_NOTE_BYTES_MAX);
        self.edit_draft(|draft| draft.note_progress(Progress { done, total, note }));
    }

    /// Adds a line to the job's log, sent like progress. The log keeps the latest 100 lines.
    pub fn log(&self, line: impl Into<String>) {
        let mut line = line.into();
        cut(&mut line, LOG_LINE_BYTES_MAX);
        self.edit_draft(|draft| draft.note_line(line));
    }

    /// Changes the draft; if it had nothing to send before, notifies the runtime.
    fn edit_draft(&self, change: impl FnOnce(&mut Draft) -> bool) {
        if self.0.draft(change) {
            self.shared().inbox.announce(self.0.clone());
        }
    }
}

/// Checkpoint, metadata, blob.
impl Ctx {
    /// The checkpoint that an earlier attempt or this one has stored or set, read from JSON.
    pub async fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(part) = self.part(PartName::Checkpoint).await? else { return Ok(None) };
        let read = serde_json::from_slice(&part.bytes);
        read.map(Some).map_err(|error| {
            let expected = format!("it is not the JSON of {}: {error}", std::any::type_name::<T>());
            Error::invalid("checkpoint", format_args!("{} bytes", part.bytes.len()), expected)
        })
    }

    /// A part of the job, including the changes of this attempt. Fetched from the store on demand.
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

    /// Stores a checkpoint now, as JSON. Once this returns, an attempt after a crash will find it.
    ///
    /// While the store does not answer, this waits until it does or the handler is stopped.
    pub async fn save_checkpoint(&self, checkpoint: &impl Serialize) -> Result<()> {
        self.save_checkpoint_bytes(json("checkpoint", checkpoint)?).await
    }

    /// Stores a checkpoint now, as bytes.
    pub async fn save_checkpoint_bytes(&self, checkpoint: impl Into<Bytes>) -> Result<()> {
        let part = Part::new(checkpoint);
        // Also recorded in the draft: if this call fails or is dropped, it is sent with the outcome.
        self.0.draft(|draft| draft.edit(PartName::Checkpoint, PartEdit::Set(part.clone())));
        self.update(|item| item.checkpoint(PartEdit::Set(part.clone()))).await?;
        self.0.draft(|draft| draft.checkpoint_stored(part));
        Ok(())
    }

    /// Sets the checkpoint, as JSON. Stored with the outcome.
    pub fn set_checkpoint(&self, checkpoint: &impl Serialize) -> Result<()> {
        let bytes = json("checkpoint", checkpoint)?;
        self.set(PartName::Checkpoint, PartEdit::Set(Part::new(bytes)))
    }

    /// Sets the metadata, as JSON. Stored with the outcome.
    pub fn set_metadata(&self, metadata: &impl Serialize) -> Result<()> {
        let bytes = json("metadata", metadata)?;
        self.set(PartName::Metadata, PartEdit::Set(Part::new(bytes)))
    }

    /// Sets the blob. Stored with the outcome.
    pub fn set_blob(&self, blob: impl Into<Bytes>) -> Result<()> {
        self.set(PartName::Blob, PartEdit::Set(Part::new(blob)))
    }

    /// Sets the payload of the next attempt, as JSON. Stored with the outcome.
    pub fn set_payload(&self, payload: &impl Serialize) -> Result<()> {
        let bytes = json("payload", payload)?;
        self.set(PartName::Payload, PartEdit::Set(Part::new(bytes)))
    }

    /// Sets or removes a part. Stored with the outcome.
    pub fn set(&self, name: PartName, edit: PartEdit) -> Result<()> {
        // Validated here, while the handler can still react to the error.
        let mut item = UpdateItem::new(self.id(), self.0.lease.clone());
        match name {
            PartName::Checkpoint => item.parts.checkpoint = edit.clone(),
            PartName::Blob => item.parts.blob = edit.clone(),
            PartName::Metadata => item.parts.metadata = edit.clone(),
            PartName::Payload => item.parts.payload = edit.clone(),
        }
        item.check(self.shared().engine.capabilities().payload_bytes_max)?;
        self.0.draft(|draft| draft.edit(name, edit));
        Ok(())
    }

    /// Sets the priority of the job. Takes effect with the outcome.
    pub fn set_priority(&self, priority: i32) {
        self.0.draft(|draft| draft.set_priority(priority));
    }

    /// Moves the job to another queue if it runs again. Takes effect with the outcome.
    pub fn set_queue(&self, queue: impl Into<Name>) -> Result<()> {
        let queue = queue.into();
        check_name("queue", &queue)?;
        self.0.draft(|draft| draft.set_queue(queue));
        Ok(())
    }

    /// Stops starts for a time, for example because an API answered "429, retry after 30 s": of jobs under a limit, of
    /// the job's group, or of its queue. Takes effect with the outcome; snooze the job so that it waits, too.
    pub fn hold(&self, hold: Hold) -> Result<()> {
        hold.check()?;
        let capabilities = self.shared().engine.capabilities();
        if !capabilities.has(Capability::Limits) {
            let (engine, capability) = (capabilities.engine, Capability::Limits);
            let hint = "snooze the job instead";
            return Err(windlass_core::Error::Unsupported { engine, capability, hint });
        }
        self.0.draft(|draft| draft.hold(hold));
        Ok(())
    }

    /// Updates this job, repeating the call until the store answers or the handler is stopped.
    pub(crate) async fn update(
        &self,
        change: impl Fn(UpdateItem) -> UpdateItem,
    ) -> Result<Updated> {
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
                        self.0.signal.send(Cause::LeaseLost);
                    }
                    return Err(error);
                }
                Ok(updated) => {
                    if updated.cancel_requested {
                        self.0.signal.send(Cause::Operator);
                    }
                    return Ok(updated);
                }
            }
        }
    }
}

/// Completion inside a transaction of the handler's own.
impl Ctx {
    /// The lease of this attempt, which gives the right to report on it.
    pub fn lease(&self) -> &Lease {
        &self.0.lease
    }

    /// The report that completes this job with a result, with all changes and follow-ups so far.
    ///
    /// For stores that can settle a job inside a transaction of the handler's own, together with its writes: see
    /// `windlass::postgres`. After the commit, return from the handler; the worker's own report then finds the job
    /// completed. If the transaction does not commit, the job is not settled: return an error.
    pub fn completion(&self, result: Option<Part>) -> SettleItem {
        let outcome = Outcome::Complete { result };
        let mut item = SettleItem::new(self.id(), self.0.lease.clone(), outcome);
        self.0.drafted(|draft| draft.copy_into(&mut item));
        item
    }
}

/// Follow-up jobs and extensions.
impl Ctx {
    /// Creates this job when the current one completes, in the same atomic step. The new job has the current
    /// one as its parent. An attempt that does not complete creates nothing.
    pub fn follow_up(&self, job: impl Into<NewJob>) -> Result<()> {
        let mut job = job.into();
        // By default it inherits its parent's trace. With the context of this span it also shows which span
        // created it.
        job.trace = job.trace.or_else(|| trace::here(self.span()));
        let payload_bytes_max = self.shared().engine.capabilities().payload_bytes_max;
        // The store validates again with its own clock; validating here points the handler to the wrong call.
        let ran_ms = u64::try_from(self.0.began().elapsed().as_millis()).unwrap_or(u64::MAX);
        job.check(self.0.claimed_at.plus(ran_ms), payload_bytes_max)?;
        self.0.draft(|draft| draft.follow_up(job))
    }

    /// Creates this job when the handler returns [`Stop::wait_for_children`](crate::Stop::wait_for_children), which then
    /// waits for it: a child. It inherits the flow. A child that fails does not end this job, unless
    /// [`NewJob::joins`] says so.
    ///
    /// ```
    /// use windlass_core::model::NewJob;
    /// use windlass_worker::{Ctx, Stop};
    ///
    /// async fn album(ctx: Ctx) -> Result<usize, Stop> {
    ///     let inputs = ctx.inputs().await?;
    ///     if inputs.is_empty() {
    ///         for page in 0..3 {
    ///             ctx.child(NewJob::new("render_page").json(page.to_string()))?;
    ///         }
    ///         return Err(Stop::wait_for_children());
    ///     }
    ///     Ok(inputs.iter().filter(|input| input.result.is_some()).count())
    /// }
    /// ```
    pub fn child(&self, job: impl Into<NewJob>) -> Result<()> {
        let mut job = job.into();
        job.joins.get_or_insert(Join::SELF).to = None;
        self.follow_up(job)
    }

    /// Creates this job when the current one completes, as a further dependency of a job that is still blocked by others:
    /// usually by this one.
    pub fn add_to(&self, group: JobId, job: impl Into<NewJob>) -> Result<()> {
        let mut job = job.into();
        job.joins.get_or_insert(Join::SELF).to = Some(group);
        self.follow_up(job)
    }

    /// Same as `follow_up` for a typed job, with the queue and policy of its type.
    pub fn follow_up_with<T: TypedJob>(&self, job: &T) -> Result<()> {
        let mut new = T::template().payload(json("payload", job)?);
        if let Some(unique) = job.unique_rule()? {
            new.unique = Some(unique);
        }
        self.follow_up(new)
    }

    /// Inserts a value that handlers take as [`Extension<T>`](crate::Extension).
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        self.0.draft(|draft| draft.extensions.put(value));
    }

    /// The inserted value of this type, if any.
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

/// Truncates a text at a character boundary, because refusing a text meant for people would not help.
fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
}
