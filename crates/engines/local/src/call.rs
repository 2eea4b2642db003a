//! Calls on their way to the writer and back.

use crate::rows::SqliteRows;
use tokio::sync::oneshot;
use windlass_core::engine::{Epoch, Stamped, Wait};
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::Executor;

pub(crate) type LocalExecutor<'c> = Executor<SqliteRows<'c>>;

/// What a call must be, before it may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// Nothing is written.
    Read,
    /// Written, but a loss of power may take it back.
    Written,
    /// Safe on disk.
    Durable,
}

/// A call that waits for the writer.
pub(crate) trait Call: Send {
    fn needs(&self) -> Needs;
    /// Whether it is refused while the disk is full.
    fn adds_jobs(&self) -> bool;
    /// Does it; may be called again if the transaction failed because of another call.
    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp);
    /// Whether it stays with the writer and is run again when jobs become ready: a wait that found none.
    fn goes_on(&self) -> bool {
        false
    }
    /// Answers, once what it did is as safe as it needs to be, or nothing was done.
    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch);
}

/// A call made of a closure.
pub(crate) struct Asked<T, F> {
    pub(crate) needs: Needs,
    pub(crate) adds_jobs: bool,
    pub(crate) act: F,
    pub(crate) done: Option<(Result<T>, Timestamp)>,
    pub(crate) reply: oneshot::Sender<Result<Stamped<T>>>,
}

impl<T, F> Call for Asked<T, F>
where
    T: Send,
    F: FnMut(&mut LocalExecutor<'_>, Timestamp) -> Result<T> + Send,
{
    fn needs(&self) -> Needs {
        self.needs
    }

    fn adds_jobs(&self) -> bool {
        self.adds_jobs
    }

    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp) {
        self.done = Some(((self.act)(executor, now), now));
    }

    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch) {
        let Self { done, reply, .. } = *self;
        answer(reply, outcome, done, epoch);
    }
}

/// A wait for work. It stays with the writer until jobs that it waits for become ready, so that its caller hears of them
/// without asking again; the caller also ends it when its time is up, by going away.
pub(crate) struct Waiting {
    pub(crate) request: Wait,
    pub(crate) found: Option<(Result<bool>, Timestamp)>,
    pub(crate) reply: oneshot::Sender<Result<Stamped<bool>>>,
}

impl Call for Waiting {
    fn needs(&self) -> Needs {
        Needs::Read
    }

    fn adds_jobs(&self) -> bool {
        false
    }

    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp) {
        self.found = Some((executor.is_ready(&self.request), now));
    }

    fn goes_on(&self) -> bool {
        let found_none = matches!(self.found, Some((Ok(false), _)));
        found_none && self.request.wait_ms > 0 && !self.reply.is_closed()
    }

    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch) {
        let Self { found, reply, .. } = *self;
        answer(reply, outcome, found, epoch);
    }
}

/// Answers a call with the result of its transaction and its own.
fn answer<T>(
    reply: oneshot::Sender<Result<Stamped<T>>>,
    outcome: Result<()>,
    done: Option<(Result<T>, Timestamp)>,
    epoch: &Epoch,
) {
    let answer = match (outcome, done) {
        (Ok(()), Some((result, now))) => {
            result.map(|value| Stamped { now, epoch: epoch.clone(), value })
        }
        (Ok(()), None) => Err(closed()),
        (Err(error), _) => Err(error),
    };
    // The caller may have gone away; what was done stays done.
    let _ = reply.send(answer);
}

/// The error for calls that come after the end.
pub(crate) fn closed() -> Error {
    Error::Unavailable { store: "the local store".into(), reason: "it was closed".into() }
}
