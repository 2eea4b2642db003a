//! Unsent reports of a running handler: those sent periodically (progress, log lines) and those sent with the
//! outcome (parts, priority, follow-ups).

use crate::extract::Values;
use windlass_core::engine::{Hold, Outcome, SettleItem, UpdateItem};
use windlass_core::limits::{FOLLOW_UPS_MAX, LOG_LINES_MAX};
use windlass_core::model::{
    Continuation, Name, NewJob, Part, PartEdit, PartEdits, PartName, Progress, Step,
};
use windlass_core::{Error, Result};

/// The unsent reports of one attempt.
#[derive(Default)]
pub(crate) struct Draft {
    /// Part changes, sent with any outcome.
    parts: PartEdits,
    priority: Option<i32>,
    /// The queue of the next attempt, if there is one.
    queue: Option<Name>,
    /// Follow-up jobs, created only if the job completes.
    follow_ups: Vec<NewJob>,
    /// The step that waits, sent with the outcome.
    steps: Vec<Step>,
    /// What the job remembers from earlier attempts, with the steps of this one.
    pub(crate) remembered: Option<Continuation>,
    /// A hold, sent with any outcome.
    hold: Option<Hold>,
    /// Unsent progress; only the latest value is kept.
    progress: Option<Progress>,
    /// Unsent log lines; only the latest ones are kept.
    log: Vec<String>,
    /// Whether an update with progress or log lines is in flight.
    sending: bool,
    /// Parts as last fetched from or stored in the store by this attempt.
    known: Vec<(PartName, Option<Part>)>,
    /// Values that middleware inserted for the handler.
    pub(crate) extensions: Values,
}

impl Draft {
    pub(crate) fn edit(&mut self, name: PartName, edit: PartEdit) {
        match name {
            PartName::Checkpoint => self.parts.checkpoint = edit,
            PartName::Metadata => self.parts.metadata = edit,
            PartName::Blob => self.parts.blob = edit,
            PartName::Payload => self.parts.payload = edit,
        }
    }

    fn edited(&self, name: PartName) -> &PartEdit {
        match name {
            PartName::Checkpoint => &self.parts.checkpoint,
            PartName::Metadata => &self.parts.metadata,
            PartName::Blob => &self.parts.blob,
            PartName::Payload => &self.parts.payload,
        }
    }

    /// A part as the handler sees it, if it is known without asking the store.
    pub(crate) fn part(&self, name: PartName) -> Option<Option<Part>> {
        match self.edited(name) {
            PartEdit::Set(part) => Some(Some(part.clone())),
            PartEdit::Unset => Some(None),
            PartEdit::Keep => {
                let known = self.known.iter().find(|(known, _)| *known == name);
                known.map(|(_, part)| part.clone())
            }
        }
    }

    /// Records the stored value of a part.
    pub(crate) fn know(&mut self, name: PartName, part: Option<Part>) {
        self.known.retain(|(known, _)| *known != name);
        self.known.push((name, part));
    }

    /// Records that this checkpoint is stored: unless it was set again since, the outcome need not carry it.
    pub(crate) fn checkpoint_stored(&mut self, part: Part) {
        if self.parts.checkpoint == PartEdit::Set(part.clone()) {
            self.parts.checkpoint = PartEdit::Keep;
        }
        self.know(PartName::Checkpoint, Some(part));
    }

    pub(crate) const fn set_priority(&mut self, priority: i32) {
        self.priority = Some(priority);
    }

    pub(crate) fn set_queue(&mut self, queue: Name) {
        self.queue = Some(queue);
    }

    pub(crate) fn hold(&mut self, hold: Hold) {
        self.hold = Some(hold);
    }

    pub(crate) fn follow_up(&mut self, job: NewJob) -> Result<()> {
        let size = self.follow_ups.len() + 1;
        if size > FOLLOW_UPS_MAX {
            return Err(Error::TooLarge {
                field: "follow_ups".into(),
                size: size as u64,
                limit: FOLLOW_UPS_MAX as u64,
                hint: "enqueue some of them from the follow-ups themselves",
            });
        }
        self.follow_ups.push(job);
        Ok(())
    }

    /// Adds a step that waits, and the jobs that it waits for.
    pub(crate) fn suspend(&mut self, step: Option<Step>, children: Vec<NewJob>) {
        self.steps.extend(step);
        self.follow_ups.extend(children);
    }

    /// Records progress; `true` if nothing was waiting to be sent before.
    pub(crate) fn note_progress(&mut self, progress: Progress) -> bool {
        let first = !self.has_news();
        self.progress = Some(progress);
        first
    }

    /// Records a log line; `true` if nothing was waiting to be sent before.
    pub(crate) fn note_line(&mut self, line: String) -> bool {
        let first = !self.has_news();
        if self.log.len() >= LOG_LINES_MAX {
            self.log.remove(0);
        }
        self.log.push(line);
        first
    }

    /// Whether there are progress or log lines to send before the outcome.
    pub(crate) const fn has_news(&self) -> bool {
        self.progress.is_some() || !self.log.is_empty()
    }

    /// Whether the outcome may be sent: no progress or log lines are unsent or in flight.
    pub(crate) const fn is_clean(&self) -> bool {
        !self.has_news() && !self.sending
    }

    /// Moves unsent progress and log lines into an update; `None` if there are none.
    pub(crate) fn take_news(&mut self, mut item: UpdateItem) -> Option<UpdateItem> {
        if !self.has_news() {
            return None;
        }
        item.progress = self.progress.take();
        item.log = std::mem::take(&mut self.log);
        self.sending = true;
        Some(item)
    }

    /// Ends the update in flight; progress and log lines of a failed one are queued again before newer ones.
    pub(crate) fn news_answered(&mut self, returned: Option<UpdateItem>) {
        self.sending = false;
        let Some(item) = returned else { return };
        self.progress = self.progress.take().or(item.progress);
        let newer = std::mem::replace(&mut self.log, item.log);
        self.log.extend(newer);
        let surplus = self.log.len().saturating_sub(LOG_LINES_MAX);
        self.log.drain(..surplus);
    }

    /// Copies parts, priority and follow-ups into a report of the completion; the outcome carries them again, unless
    /// that report is settled.
    pub(crate) fn copy_into(&self, item: &mut SettleItem) {
        item.parts.clone_from(&self.parts);
        item.priority = self.priority;
        let is_child = |job: &&NewJob| job.joins.as_ref().is_some_and(|join| join.to.is_none());
        item.follow_ups = self.follow_ups.iter().filter(|job| !is_child(job)).cloned().collect();
        item.hold.clone_from(&self.hold);
    }

    /// Adds parts, priority and follow-ups to the report of the outcome.
    pub(crate) fn complete_report(&mut self, item: &mut SettleItem, completed: bool) {
        item.parts = std::mem::take(&mut self.parts);
        item.priority = self.priority;
        item.queue = self.queue.take().filter(|_| !item.outcome.ends_job());
        item.hold = self.hold.take();
        item.steps = std::mem::take(&mut self.steps);
        let mut follow_ups = std::mem::take(&mut self.follow_ups);
        let waits = item.outcome == Outcome::WaitForJobs;
        // Children are created only by a report that waits for them, and other jobs only by a completion.
        follow_ups.retain(|job| match &job.joins {
            Some(join) if join.to.is_none() => waits,
            _ => completed,
        });
        item.follow_ups = follow_ups;
    }
}
