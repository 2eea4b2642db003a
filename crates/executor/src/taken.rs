//! Taking jobs out of their rows. No other file calls [`Rows::take`]: a job is taken for an event that the state
//! machine allows, or edited in place. So a refusal always finds the job where it was.

use crate::entry::Entry;
use crate::executor::{Executor, Happening};
use crate::rows::Rows;
use windlass_core::machine::{EventKind, Step};
use windlass_core::{Error, JobId, Result, Timestamp};

/// A job taken out of its place, with the event that it was taken for and the step that the machine allows.
/// What follows can fail only if the store fails, and then its owner rolls back.
pub(crate) struct Taken {
    pub(crate) entry: Box<Entry>,
    event: EventKind,
    step: Step,
}

impl Taken {
    pub(crate) fn into_parts(self) -> (Box<Entry>, EventKind, Step) {
        (self.entry, self.event, self.step)
    }
}

impl<R: Rows> Executor<R> {
    /// Takes a job for an event; `None` if there is no such job. If `check` or the machine refuses, the job is
    /// put back as it was.
    pub(crate) fn take_if(
        &mut self,
        id: JobId,
        event: EventKind,
        what: &Happening,
        now: Timestamp,
        check: impl FnOnce(&Self, &Entry) -> Result<()>,
    ) -> Result<Option<Taken>> {
        let Some(entry) = self.rows.take(id)? else { return Ok(None) };
        match check(self, &entry).and_then(|()| self.judge(&entry, event, what, now)) {
            Ok(step) => Ok(Some(Taken { entry, event, step })),
            Err(refused) => {
                self.rows.put_back(entry)?;
                Err(refused)
            }
        }
    }

    /// Takes a job that must exist for an event.
    pub(crate) fn take_for(
        &mut self,
        id: JobId,
        event: EventKind,
        what: &Happening,
        now: Timestamp,
    ) -> Result<Taken> {
        self.take_if(id, event, what, now, |_, _| Ok(()))?.ok_or(Error::NotFound { id })
    }

    /// Edits a job that must exist and stays in its state.
    pub(crate) fn edit<T>(&mut self, id: JobId, edit: impl FnOnce(&mut Entry) -> T) -> Result<T> {
        let Some(mut entry) = self.rows.take(id)? else { return Err(Error::NotFound { id }) };
        let edited = edit(&mut entry);
        self.rows.put(entry)?;
        Ok(edited)
    }
}
